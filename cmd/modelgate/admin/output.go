package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"modelgate/cmd/modelgate/gateway"
)

// outputOptions say how a response is printed.
type outputOptions struct {
	format    string
	noHeaders bool
}

// Formats of responses.
const (
	formatTable  = "table"
	formatWide   = "wide"
	formatJSON   = "json"
	formatYAML   = "yaml"
	formatName   = "name"
	formatSecret = "key" // only what is shown once
)

var formats = []string{formatTable, formatWide, formatJSON, formatYAML, formatName}

// defineOutput adds the flags of outputOptions to a command.
func defineOutput(c *cobra.Command) {
	c.Flags().StringP("output", "o", formatTable,
		"`format`: table, wide, json, yaml, or name for ids and slugs only; key for a secret that is shown once")
	c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	c.Flags().Bool("no-headers", false, "print tables without their first line")
}

// readOutput returns the options that a command was called with.
func readOutput(c *cobra.Command) *outputOptions {
	o := new(outputOptions)
	o.format, _ = c.Flags().GetString("output")
	o.noHeaders, _ = c.Flags().GetBool("no-headers")
	return o
}

// check returns an error for a format that the verb does not have.
func (o *outputOptions) check(env *Env, v *verb) error {
	allowed := formats
	if v.secret != "" {
		allowed = append(slices.Clone(formats), formatSecret)
	}
	if !slices.Contains(allowed, o.format) {
		return env.Usage("--output must be %s, not %.60q", orList(allowed), o.format)
	}
	return nil
}

// print prints a response that is not a page of a list.
func (c *call) print(response []byte, body map[string]any) error {
	response = unwrap(response)
	if c.verb.rows != "" && c.isForPeople() {
		var members map[string]json.RawMessage
		var rows []json.RawMessage
		if json.Unmarshal(response, &members) != nil || json.Unmarshal(members[c.verb.rows], &rows) != nil {
			return errShape
		}
		if c.verb.rows == graphRows {
			rows = graphOf(rows, members["summary"])
		}
		return c.printRows(rows, 0)
	}
	switch c.output.format {
	case formatJSON:
		return printJSON(c.env.Out, response)
	case formatYAML:
		return printYAML(c.env.Out, response)
	}
	object := decode(response)
	members, _ := object.(map[string]any)
	if c.verb.secret != "" {
		if secret, _ := members[c.verb.secret].(string); secret != "" {
			return c.printSecret(secret, members, body)
		}
	}
	if c.output.format == formatName {
		_, err := fmt.Fprintln(c.env.Out, stripControl(c.identify(members)))
		return err
	}
	if c.route.Method != http.MethodGet && !c.verb.shows {
		fmt.Fprintln(c.env.Out, stripControl(c.report(members, body)))
		printWarnings(c.env.Err, members)
		return nil
	}
	return printDetails(c.env.Out, response)
}

// isForPeople reports whether rows are printed as a table or as names.
func (c *call) isForPeople() bool {
	return slices.Contains([]string{formatTable, formatWide, formatName}, c.output.format)
}

// printSecret prints what is shown once. Standard output has nothing else.
func (c *call) printSecret(secret string, members, body map[string]any) error {
	if c.output.format == formatName {
		_, err := fmt.Fprintln(c.env.Out, stripControl(c.identify(members)))
		return err
	}
	if c.output.format != formatSecret {
		fmt.Fprintf(c.env.Err, "%s; this is shown once:\n", stripControl(c.report(members, body)))
		printWarnings(c.env.Err, members)
	}
	if strings.HasPrefix(secret, "/") { // a link of a gateway that does not know its address
		secret = c.to.Address() + secret
	}
	_, err := fmt.Fprintln(c.env.Out, stripControl(secret))
	return err
}

// printWarnings prints what the gateway warned of.
func printWarnings(w io.Writer, members map[string]any) {
	list, _ := members["warnings"].([]any)
	for _, text := range list {
		fmt.Fprintln(w, "warning: "+stripControl(fmt.Sprint(text)))
	}
}

// unwrap returns the object of a response that has it in data.
func unwrap(response []byte) []byte {
	var outer struct {
		Data json.RawMessage `json:"data"`
	}
	if json.Unmarshal(response, &outer) == nil && bytes.HasPrefix(bytes.TrimSpace(outer.Data), []byte("{")) {
		return outer.Data
	}
	return response
}

// decode returns JSON as values whose numbers are as they were written.
func decode(text []byte) any {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

// identify returns what names an object in other commands: the argument, or its slug or id.
func (c *call) identify(members map[string]any) string {
	for _, name := range []string{"slug", "id"} {
		if text, _ := members[name].(string); text != "" {
			return text
		}
	}
	return strings.Join(c.in.args, " ")
}

// report says in one line what was done.
func (c *call) report(members, body map[string]any) string {
	name, _ := members["name"].(string)
	for _, member := range []string{"name", "email"} {
		if text, _ := body[member].(string); name == "" {
			name = text
		}
	}
	what := c.noun.one
	if name != "" {
		what += fmt.Sprintf(" %q", name)
	} else if c.named != "" {
		what += fmt.Sprintf(" %q", c.named)
	}
	var ids []string
	for _, key := range []string{"slug", "id"} {
		if text, _ := members[key].(string); text != "" && text != name && text != c.named {
			ids = append(ids, key+" "+text)
		}
	}
	if len(ids) > 0 {
		what += " (" + strings.Join(ids, ", ") + ")"
	}
	return pastTense(c.verb.name) + " " + what
}

// pastTenses are those that do not end in "ed".
var pastTenses = map[string]string{
	"cancel": "cancelled", "retry": "retried", "set": "set", "reset": "reset", "label": "labelled", "resend": "resent",
	"rollback": "rolled back",
}

// pastTense returns the past tense of a verb.
func pastTense(verb string) string {
	first, rest, _ := strings.Cut(verb, "-")
	past := pastTenses[first]
	switch {
	case past != "":
	case strings.HasSuffix(first, "e"):
		past = first + "d"
	default:
		past = first + "ed"
	}
	if rest != "" && !strings.HasSuffix(rest, "key") {
		past += " " + strings.ReplaceAll(rest, "-", " ") + " of"
	}
	return past
}

// printRows prints rows of a list.
func (c *call) printRows(rows []json.RawMessage, more int) error {
	if len(rows) == 0 && c.isForPeople() {
		fmt.Fprintf(c.env.Err, "no %s\n", strings.ReplaceAll(c.listName(), "-", " "))
		return nil
	}
	var err error
	switch c.output.format {
	case formatJSON, formatYAML:
		list, marshal := json.Marshal(rows)
		if rows == nil {
			list = []byte("[]")
		}
		if marshal != nil {
			return errShape
		}
		if c.output.format == formatYAML {
			err = printYAML(c.env.Out, list)
		} else {
			err = printJSON(c.env.Out, list)
		}
	case formatName:
		for _, row := range rows {
			members, _ := decode(row).(map[string]any)
			fmt.Fprintln(c.env.Out, stripControl(c.identify(members)))
		}
	default:
		err = c.printTable(rows)
	}
	if more > 0 {
		fmt.Fprintf(c.env.Err, "%d shown; there are more: use --all, or a larger --limit\n", len(rows))
	}
	return err
}

// columns returns the columns of the verb's table.
func (c *call) columns() []column {
	text := c.verb.columns
	if len(c.in.args) > 0 {
		text = strings.ReplaceAll(text, "$0", c.in.args[0])
	}
	return parseColumns(text)
}

// printTable prints rows as a table. Ids of objects are replaced by names, as far as the caller
// may list them.
func (c *call) printTable(rows []json.RawMessage) error {
	columns := c.columns()
	objects := make([]any, len(rows))
	for i, row := range rows {
		objects[i] = decode(row)
	}
	for _, column := range columns {
		n := nounOf(column.kind)
		if n == nil || column.wide && c.output.format != formatWide {
			continue
		}
		names := c.names(n)
		for _, object := range objects {
			members, _ := object.(map[string]any)
			id, _ := member(members, column.path).(string)
			name := names[id]
			if name == "" && c.verb.deleted && c.isDeleted(n, id) {
				name = "deleted (" + id + ")"
			}
			if name != "" && len(column.path) == 1 {
				members[column.path[0]] = name
			}
		}
	}
	return printTable(c.env.Out, columns, objects, c.output)
}

// names returns the names of the objects of a noun by their id, nil if they cannot be listed.
func (c *call) names(n *noun) map[string]string {
	list := n.verb("list")
	if list == nil || !slices.Contains([]string{"workspaces", "users", "keys"}, n.name) {
		return nil
	}
	other := &call{env: c.env, ctx: c.ctx, to: c.to, noun: n, verb: list, route: list.route(),
		in: &inputs{env: c.env, verb: list, route: list.route()}, query: make(url.Values)}
	rows, _, err := other.fetch(listOptions{limit: 1000})
	if err != nil {
		return nil
	}
	names := make(map[string]string)
	for _, row := range rows {
		var one candidate
		if json.Unmarshal(row, &one) == nil {
			names[one.ID] = cmp.Or(one.Name, one.Email)
		}
	}
	return names
}

// isDeleted reports whether the gateway has no object of a noun with an id that it once gave.
func (c *call) isDeleted(n *noun, text string) bool {
	show := n.verb("show")
	if show == nil || len(show.route().params()) != 1 || !id.MatchString(text) {
		return false
	}
	path := strings.Replace(show.route().Path, "{"+show.route().params()[0]+"}", text, 1)
	_, err := c.to.Do(c.ctx, gateway.Request{Method: show.route().Method, Path: path})
	return err != nil && isNotFound(err)
}

// graphRows is the member of a graph with its points.
const graphRows = "data_points"

// graphOf returns the points of a graph in which something happened, and the summary as the
// last one.
func graphOf(points []json.RawMessage, summary json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	for _, p := range append(points, summary) {
		members, _ := decode(p).(map[string]any)
		if members == nil {
			continue
		}
		if members["timestamp"] == nil {
			members["timestamp"] = "all"
		}
		happened := members["timestamp"] == "all"
		for name, v := range members {
			n, ok := v.(json.Number)
			happened = happened || ok && name != "timestamp" && n != "0"
		}
		if text, err := json.Marshal(members); err == nil && happened {
			list = append(list, text)
		}
	}
	return list
}

// listName returns what the rows of the list are called.
func (c *call) listName() string {
	switch c.verb.name {
	case "list":
		return c.noun.name
	case "top":
		return "requests"
	}
	return c.verb.name
}

func printJSON(w io.Writer, text []byte) error {
	var out bytes.Buffer
	if json.Indent(&out, bytes.TrimSpace(text), "", "  ") != nil {
		return errShape
	}
	// Terminals obey control characters even in JSON, which may have those above ASCII.
	_, err := fmt.Fprintln(w, escapeControl(out.String()))
	return err
}

func printYAML(w io.Writer, text []byte) error {
	out, err := yaml.JSONToYAML(text)
	if err != nil {
		return errShape
	}
	_, err = io.WriteString(w, escapeControl(string(out)))
	return err
}
