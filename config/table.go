package config

import (
	"fmt"
	"math"
	"strings"
	"time"

	"modelgate/api"
)

// nodes is the table of properties of a config and of every target.
var nodes = newShape(append([]field[Config]{
	prop("name", word, func(c *Config) *string { return &c.Name }, "name that conditions use for the target"),
	destination(prop("provider", checked(word, checkProvider), func(c *Config) *string { return &c.Provider },
		"provider id, or @slug of a managed provider")),
	secret(prop("api_key", credential, func(c *Config) *Secret { return &c.APIKey }, "credential of the provider")),
	destination(prop("virtual_key", word, func(c *Config) *string { return &c.VirtualKey }, "legacy name of a managed provider")),
	destination(prop("custom_host", checked(word, checkHost), func(c *Config) *string { return &c.CustomHost },
		"base URL of another host with the provider's API")),
	prop("prompt_id", word, func(c *Config) *string { return &c.PromptID }, "saved prompt to run"),

	prop("override_params", freeForm, func(c *Config) *Object { return &c.OverrideParams },
		"parameters that replace parameters of the request"),
	extension(prop("default_params", freeForm, func(c *Config) *Object { return &c.DefaultParams },
		"parameters to add if the request lacks them")),
	extension(prop("drop_params", listOf(checked(word, checkDropPath)), func(c *Config) *[]string { return &c.DropParams },
		"paths of parameters to remove, for example messages[*].name")),

	prop("weight", optional(number(0), decimal), func(c *Config) **float64 { return &c.Weight }, "share in loadbalance mode; 1 by default"),
	prop("on_status_codes", statuses, func(c *Config) *[]int { return &c.OnStatusCodes }, "statuses that trigger fallback"),
	prop("request_timeout", duration(time.Millisecond, 0), func(c *Config) *time.Duration { return &c.RequestTimeout },
		"milliseconds for one attempt"),
	prop("forward_headers", listOf(checked(word, checkForward)), func(c *Config) *[]string { return &c.ForwardHeaders },
		"request headers to forward unchanged"),
	prop("strict_vendora_compliance", optional(truth, boolean), func(c *Config) **bool { return &c.Strict },
		"false adds data beyond the chat dialect, such as thinking"),
	prop("cache", maybe(caches), func(c *Config) **Cache { return &c.Cache }, "response cache"),
	prop("retry", maybe(retries), func(c *Config) **Retry { return &c.Retry }, "retries of failed attempts"),
	prop("cb_config", maybe(breakers), func(c *Config) **Breaker { return &c.Breaker }, "circuit breaker"),

	setting(destination(prop("resource_name", text, func(c *Config) *string { return &c.ResourceName }, "azure-openai resource"))),
	setting(prop("deployment_id", text, func(c *Config) *string { return &c.DeploymentID }, "azure-openai deployment")),
	setting(prop("api_version", text, func(c *Config) *string { return &c.APIVersion }, "version of the azure-openai API")),
	setting(prop("deployments", listOf(one(deployments)), func(c *Config) *[]Deployment { return &c.Deployments },
		"deployments of a resource by model")),
	secretObject(prop("cloud_b_service_account_json", credentialObject, func(c *Config) *Secret { return &c.ServiceAccount },
		"service account of vertex-ai")),

	prop("before_request_hooks", listOf(one(beforeHooks)), func(c *Config) *[]Hook { return &c.BeforeHooks }, "checks before the request"),
	prop("after_request_hooks", listOf(one(afterHooks)), func(c *Config) *[]Hook { return &c.AfterHooks }, "checks after the response"),
	prop("input_guardrails", listOf(guardrail(inputGuardrails)), func(c *Config) *[]Guardrail { return &c.InputGuardrails },
		"guardrails before the request"),
	prop("output_guardrails", listOf(guardrail(outputGuardrails)), func(c *Config) *[]Guardrail { return &c.OutputGuardrails },
		"guardrails after the response"),
	extension(prop("input_mutators", listOf(guardrail(inputGuardrails)), func(c *Config) *[]Guardrail { return &c.InputMutators },
		"changes before the request")),
	extension(prop("output_mutators", listOf(guardrail(outputGuardrails)), func(c *Config) *[]Guardrail { return &c.OutputMutators },
		"changes after the response")),

	prop("strategy", maybe(strategies), func(c *Config) **Strategy { return &c.Strategy }, "how to choose among the targets"),
	targets(),

	extension(prop("stream_continuation", optional(truth, boolean), func(c *Config) **bool { return &c.StreamContinuation },
		"continue a broken stream on the next target")),
	extension(prop("prompt_cache", optional(truth, boolean), func(c *Config) **bool { return &c.PromptCache },
		"use the provider's prompt cache if it saves money")),
	extension(prop("hedge", maybe(hedges), func(c *Config) **Hedge { return &c.Hedge }, "start another target if the first is slow")),
	extension(prop("on_unsupported", oneOf(Announce, Refuse, Drop), func(c *Config) *UnsupportedPolicy { return &c.OnUnsupported },
		"how to handle parameters that a target does not support")),
	extension(prop("response_model", oneOf(api.ModelRequested, api.ModelServed),
		func(c *Config) *api.ResponseModel { return &c.ResponseModel }, "name of the model in responses: the requested model or the served one")),
	extension(prop("passthrough", truth, func(c *Config) *bool { return &c.Passthrough },
		"take the provider of this target from the request")),
	extension(prop("fetch_integrated_models", truth, func(c *Config) *bool { return &c.FetchModels }, "list the models of managed providers")),
}, optionFields()...)...).refined(strategyWithTargets).
	advised("remove it, or put it into override_params if it is a parameter of the request")

var caches = newShape(
	needed(prop("mode", oneOf(CacheSimple, CacheSemantic), func(c *Cache) *CacheMode { return &c.Mode }, "simple or semantic")),
	prop("max_age", duration(time.Second, 1), func(c *Cache) *time.Duration { return &c.MaxAge },
		"maximum age of a response in seconds; 7 days by default"),
	extension(prop("threshold", similarity, func(c *Cache) *float64 { return &c.Threshold },
		"minimum cosine similarity of a semantic hit; 0.95 by default")),
	extension(prop("embedding", maybe(embeddings), func(c *Cache) **Embedding { return &c.Embedding },
		"model that embeds the last turn in semantic mode; built in by default")),
	extension(prop("tool_calls", truth, func(c *Cache) *bool { return &c.ToolCalls }, "also store responses that call tools")),
	extension(prop("on_disconnect", oneOf(CancelCall, FinishAndCache), func(c *Cache) *OnDisconnect { return &c.OnDisconnect },
		"what to do with a call when its last client disconnects: cancel (default) or finish_and_cache")),
)

var retries = newShape(
	needed(prop("attempts", integer(0, math.MaxInt32), func(r *Retry) *int { return &r.Attempts },
		"retries after the first attempt; a number above 5 is reduced to 5")),
	also("use_retry_after_header",
		prop("use_retry_after_headers", truth, func(r *Retry) *bool { return &r.UseRetryAfter }, "wait as long as the provider asks")),
	prop("on_status_codes", statuses, func(r *Retry) *[]int { return &r.OnStatusCodes },
		"statuses to retry; 429, 500, 502, 503, 504 and 529 by default"),
)

var breakers = newShape(
	prop("failure_threshold", number(1), func(b *Breaker) *float64 { return &b.FailureThreshold },
		"consecutive failures that open the circuit"),
	extension(prop("failure_threshold_percentage", percentage, func(b *Breaker) *float64 { return &b.FailurePercentage },
		"failure rate in percent that opens the circuit")),
	extension(prop("minimum_requests", integer(1, math.MaxInt32), func(b *Breaker) *int { return &b.MinimumRequests },
		"requests to count before the failure rate applies")),
	needed(prop("cooldown_interval", milliseconds(30000), func(b *Breaker) *time.Duration { return &b.Cooldown },
		"milliseconds until the target is probed; at least 30000")),
	prop("failure_status_codes", statuses, func(b *Breaker) *[]int { return &b.FailureStatusCodes }, "statuses that count as failures"),
).refined(oneThreshold)

var embeddings = newShape(
	needed(prop("provider", checked(word, checkSlug), func(e *Embedding) *string { return &e.Provider }, "@slug of a managed provider")),
	needed(prop("model", word, func(e *Embedding) *string { return &e.Model }, "embedding model")),
)

func checkSlug(name string) string {
	if strings.HasPrefix(name, "@") && len(name) > 1 {
		return ""
	}
	return "must be the @slug of a managed provider"
}

var deployments = newShape(
	needed(prop("deployment_id", word, func(d *Deployment) *string { return &d.DeploymentID }, "name of the deployment")),
	needed(prop("alias", word, func(d *Deployment) *string { return &d.Alias }, "model name that selects the deployment")),
	needed(prop("api_version", word, func(d *Deployment) *string { return &d.APIVersion }, "version of the API")),
	prop("is_default", truth, func(d *Deployment) *bool { return &d.Default }, "used if no alias matches"),
)

var strategies = newShape(
	needed(prop("mode", oneOf(Single, Loadbalance, Fallback, Conditional, Latency, Cost), func(s *Strategy) *Mode { return &s.Mode },
		"single, loadbalance, fallback or conditional; latency and cost are extensions")),
	prop("conditions", listOf(one(conditions)), func(s *Strategy) *[]Condition { return &s.Conditions }, "tried in order in conditional mode"),
	prop("default", word, func(s *Strategy) *string { return &s.Default }, "name of the target if no condition holds"),
	prop("on_status_codes", statuses, func(s *Strategy) *[]int { return &s.OnStatusCodes }, "statuses that trigger fallback"),
	extension(prop("sticky", maybe(stickies), func(s *Strategy) **Sticky { return &s.Sticky },
		"keep requests with equal fields on one target")),
	extension(prop("cb_config", maybe(breakers), func(s *Strategy) **Breaker { return &s.Breaker }, "circuit breaker of every target")),
).refined(conditionalNeeds)

var conditions = newShape(
	needed(prop("query", queries, func(c *Condition) **Query { return &c.Query }, "query that the request must match")),
	needed(prop("then", word, func(c *Condition) *string { return &c.Then }, "name of the target to use")),
)

var stickies = newShape(
	needed(prop("enabled", truth, func(s *Sticky) *bool { return &s.Enabled }, "whether requests are kept on one target")),
	needed(prop("hash_fields", listOf(stickyField), func(s *Sticky) *[]string { return &s.HashFields },
		"paths whose values must be equal, for example metadata.user; prefix is the beginning of the conversation")),
	prop("ttl", duration(time.Second, 1), func(s *Sticky) *time.Duration { return &s.TTL },
		"seconds; by default 3600, or 300 since the last use with prefix"),
)

var hedges = newShape(
	needed(prop("delay_ms", duration(time.Millisecond, 1), func(h *Hedge) *time.Duration { return &h.Delay },
		"milliseconds to wait for a response")),
	prop("max", integer(1, 10), func(h *Hedge) *int { return &h.Max }, "maximum number of further targets; 1 by default"),
)

// milliseconds returns a rule for a duration written as a number that may have
// a fraction.
func milliseconds(least float64) rule[time.Duration] {
	n := number(least)
	return rule[time.Duration]{
		schema: n.schema,
		read: func(r *reader, path string, v value) (time.Duration, bool) {
			f, ok := n.read(r, path, v)
			if ok && f >= math.MaxInt64/float64(time.Millisecond) { // rounded up, as a float: it does not fit itself
				r.fault(path, "is too large; use a smaller number")
				return 0, false
			}
			return time.Duration(f * float64(time.Millisecond)), ok
		},
		write: func(_ writer, d time.Duration) (value, bool) {
			return decimal(float64(d) / float64(time.Millisecond)), true
		},
	}
}

// similarity is a cosine above 0 and at most 1.
var similarity = func() rule[float64] {
	zero, one := 0.0, 1.0
	k := checked(number(lowest), func(s float64) string {
		if s <= zero || s > one {
			return "must be above 0 and at most 1, not " + plain(s)
		}
		return ""
	})
	k.schema = &schema{Type: "number", Above: &zero, Maximum: &one}
	return k
}()

// percentage is a number above 0 and at most 100.
var percentage = func() rule[float64] {
	zero, hundred := 0.0, 100.0
	k := checked(number(lowest), func(p float64) string {
		if p <= zero || p > hundred {
			return "must be above 0 and at most 100, not " + plain(p)
		}
		return ""
	})
	k.schema = &schema{Type: "number", Above: &zero, Maximum: &hundred}
	return k
}()

// targets reads the nodes below a node.
func targets() field[Config] {
	return field[Config]{
		name:   "targets",
		doc:    "targets to choose from, each with the shape of a config",
		schema: &schema{Type: "array", MinItems: 1, Items: &schema{Ref: "#/$defs/config"}},
		read:   readTargets,
		write: func(w writer, from *Config) (value, bool) {
			v := value{kind: isArray}
			for _, t := range from.Targets {
				v.items = append(v.items, w.nodes.write(w, t))
			}
			return v, from.Targets != nil
		},
	}
}

func readTargets(r *reader, path string, v value, into *Config) {
	if !want(r, path, v, isArray) {
		return
	}
	if r.depth == MaxDepth {
		r.fault(path, fmt.Sprintf("is nested deeper than %d levels of targets; flatten the tree", MaxDepth))
		return
	}
	into.Targets = make([]*Config, 0, len(v.items))
	before := len(*r.faults)
	r.depth++
	for i, one := range v.items {
		into.Targets = append(into.Targets, r.node(item(path, i), item(into.Path+".targets", i), one))
	}
	r.depth--
	r.aside += len(*r.faults) - before
}

// node reads one node. An invalid node is still returned, so that the indexes
// of its siblings are right.
func (r *reader) node(path, place string, v value) *Config {
	c := &Config{Path: place}
	before, outside := len(*r.faults), r.aside
	r.aside = 0
	r.nodes.read(r, path, v, c)
	r.broken[c] = len(*r.faults)-before > r.aside
	r.aside = outside
	return c
}
