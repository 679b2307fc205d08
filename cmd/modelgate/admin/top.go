package admin

import (
	"context"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"modelgate/cmd/modelgate/gateway"
)

// topGroups are what top can rank, with the group of analytics.
var topGroups = map[string]string{
	"models": "model", "keys": "api_key", "workspaces": "workspace", "providers": "provider", "configs": "config", "prompts": "prompt",
	"users": "user", "targets": "target_name", "errors": "error_code",
}

// topOrders are what top can rank by, with the column of analytics.
var topOrders = map[string]string{
	"cost": "cost", "requests": "requests", "tokens": "total_tokens", "errors": "error_count", "latency": "avg_latency",
	"first-token": "avg_first_token",
}

// topColumns are the columns of top after the name.
const topColumns = " COST=cost:cents REQUESTS=requests TOKENS=total_tokens ERRORS=error_count LATENCY=avg_latency:ms FIRST=avg_first_token:ms LAST=last_seen:time"

// topCommand returns the command that shows who spends most.
func topCommand(env *Env) *cobra.Command {
	kinds := []string{"models", "keys", "workspaces", "providers", "configs", "prompts", "users", "targets", "errors"}
	orders := []string{"cost", "requests", "tokens", "errors", "latency", "first-token"}
	c := &cobra.Command{
		Use: "top [" + orList(kinds) + "]", Short: "show who spends most: models, keys, workspaces or providers",
		Long: "Shows who spends most: models, keys, workspaces, providers, configs, prompts, users, targets by their name\n" +
			"or error codes, by cost, requests, tokens, errors, latency or time to the first token.",
		Example:               "modelgate top\nmodelgate top keys --by tokens --since 1h --workspace search\nmodelgate top errors --since 2d --until 1d",
		DisableFlagsInUseLine: true, ValidArgs: kinds,
	}
	c.Use = "top [KIND]"
	by := c.Flags().String("by", "cost", "rank by: "+orList(orders))
	since := c.Flags().String("since", "24h", "`time` such as 1h, 7d or 2026-11-30")
	until := c.Flags().String("until", "now", "`time`, exclusive")
	workspace := c.Flags().String("workspace", "", "id, slug or name of a `workspace`")
	limit := c.Flags().Int("limit", 10, "show at most this many")
	c.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(orders, cobra.ShellCompDirectiveNoFileComp))
	kind := "models"
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return env.Usage("unexpected argument %.100q", args[1])
		}
		if len(args) == 1 {
			kind = args[0]
		}
		switch {
		case topGroups[kind] == "":
			return env.Usage("KIND must be %s, not %.60q", orList(kinds), kind)
		case topOrders[*by] == "":
			return env.Usage("--by must be %s, not %.60q", orList(orders), *by)
		case *limit < 1:
			return env.Usage("--limit must be at least 1")
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		from, err := parseTime(*since, time.Now())
		if err != nil {
			return env.Usage("--since %w", err)
		}
		to, err := parseTime(*until, time.Now())
		if err != nil {
			return env.Usage("--until %w", err)
		}
		if !from.Before(to) {
			return env.Usage("--until must be later than --since")
		}
		return env.call(c, func(ctx context.Context, client *gateway.Client, o *outputOptions) error {
			v := &verb{name: "top", op: "group-analytics", deleted: true, columns: "NAME=" + topGroups[kind] + ":" + kind + topColumns}
			one := &call{env: env, ctx: ctx, to: client, output: o, noun: &noun{name: kind, one: kind}, verb: v, route: v.route()}
			one.in = &inputs{env: env, verb: v, route: one.route, args: []string{topGroups[kind]}}
			if err := o.check(env, v); err != nil {
				return err
			}
			one.query = url.Values{"from": {from.UTC().Format(timeLayout)}, "to": {to.UTC().Format(timeLayout)}, "order_by": {topOrders[*by]},
				"columns": {"cost,total_tokens,error_count,avg_latency,avg_first_token,last_seen"}}
			if *workspace != "" {
				id, err := one.resolve("workspaces", *workspace)
				if err != nil {
					return err
				}
				one.query.Set("workspace", id)
			}
			rows, _, err := one.fetch(listOptions{limit: *limit})
			if err != nil {
				return err
			}
			return one.printRows(rows, 0)
		})
	}
	env.defineConnection(c, requestTimeout)
	defineOutput(c)
	acceptOtherNames(c.Flags())
	return c
}
