package config_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"pgregory.net/rapid"
)

// A node is JSON that can be written in several spellings.
type (
	object []pair
	pair   struct {
		name  string
		value any // object, free, list, codes, text, number, literal
	}
	free    object   // content that is not the config's: names stay as they are
	list    []any    // order counts
	codes   []int    // the order is irrelevant
	text    string   // a string
	number  int      // a number with several spellings
	literal string   // written as it is
	query   []object // queries that must all hold, in any order
)

// spelling writes a node plainly, or when random is set in another spelling of
// the same meaning.
type spelling struct{ random *rand.Rand }

func (s spelling) write(v any) string {
	switch v := v.(type) {
	case object:
		return s.members(v, s.name)
	case free:
		return s.members(object(v), func(name string) string { return name })
	case list:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = s.write(item)
		}
		return "[" + strings.Join(items, s.space()+",") + "]"
	case codes:
		return s.codes(v)
	case query:
		return s.query(v)
	case text:
		return s.text(string(v))
	case number:
		return s.number(int(v))
	case literal:
		return string(v)
	}
	panic(fmt.Sprintf("no spelling of %T", v))
}

func (s spelling) members(o object, name func(string) string) string {
	parts := make([]string, len(o))
	for i, p := range o {
		parts[i] = s.space() + s.text(name(p.name)) + s.space() + ":" + s.write(p.value)
	}
	s.shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return "{" + strings.Join(parts, ",") + s.space() + "}"
}

func (s spelling) query(q query) string {
	parts := make([]string, len(q))
	for i, one := range q {
		parts[i] = s.members(one, func(name string) string { return name })
	}
	s.shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return `{"$and":[` + strings.Join(parts, ",") + `]}`
}

func (s spelling) codes(c codes) string {
	parts := make([]string, len(c))
	for i, code := range c {
		parts[i] = s.number(code)
	}
	s.shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return "[" + strings.Join(parts, ",") + "]"
}

func (s spelling) shuffle(n int, swap func(i, j int)) {
	if s.random != nil {
		s.random.Shuffle(n, swap)
	}
}

func (s spelling) coin() bool { return s.random != nil && s.random.IntN(2) == 0 }

func (s spelling) space() string {
	if s.coin() {
		return " \n\t"
	}
	return ""
}

func (s spelling) name(wire string) string {
	if !s.coin() {
		return wire
	}
	if wire == "use_retry_after_headers" {
		return "use_retry_after_header"
	}
	words := strings.Split(wire, "_")
	for i := 1; i < len(words); i++ {
		words[i] = strings.ToUpper(words[i][:1]) + words[i][1:]
	}
	return strings.Join(words, "")
}

func (s spelling) text(t string) string {
	if !s.coin() {
		return strconv.Quote(t)
	}
	var b strings.Builder
	for _, r := range t {
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return `"` + b.String() + `"`
}

func (s spelling) number(n int) string {
	if n == 0 || !s.coin() {
		return strconv.Itoa(n)
	}
	return []string{fmt.Sprintf("%d.0", n), fmt.Sprintf("%d0e-1", n), fmt.Sprintf("%dE+0", n)}[s.random.IntN(3)]
}

// secretMark is in every generated credential and nowhere else.
const secretMark = "sekret"

// node draws a valid config with at most depth levels of targets below.
func node(t *rapid.T, depth int) object {
	if depth > 0 && rapid.Bool().Draw(t, "inner") {
		return append(settings(t), strategy(t, depth)...)
	}
	return append(settings(t), leafOf(t)...)
}

func leafOf(t *rapid.T) object {
	return rapid.SampledFrom([]object{
		{{"provider", text("openai")}, {"api_key", text(secretMark + "1")}},
		{{"provider", text("openai")}, {"api_key", text(secretMark + "6")}, {"vendora_organization", text("o")}},
		{{"provider", text("azure-openai")}, {"api_key", text(secretMark + "7")}, {"resource_name", text("r")},
			{"deployments", list{object{{"deployment_id", text("d")}, {"alias", text("a")}, {"api_version", text("v")}, {"is_default", literal("true")}}}}},
		{{"provider", text("@team")}},
		{{"virtual_key", text("v")}},
		{{"provider", text("bedrock")}, {"cloud_a_access_key_id", text(secretMark + "2")}, {"cloud_a_secret_access_key", text(secretMark + "3")}},
		{{"provider", text("vertex-ai")}, {"cloud_b_region", text("r")}, {"cloud_b_service_account_json", free{{"private_key", text(secretMark + "4")}, {"type", text("service_account")}}}},
		{{"provider", text("azure-ai")}, {"cloud_c_endpoint_name", text("e")}, {"cloud_c_deployment_type", text("managed")}, {"cloud_c_entra_client_secret", text(secretMark + "5")}},
	}).Draw(t, "leaf")
}

func strategy(t *rapid.T, depth int) object {
	mode := rapid.SampledFrom([]string{"single", "loadbalance", "fallback", "conditional", "latency", "cost"}).Draw(t, "mode")
	s := object{{"mode", text(mode)}}
	var targets list
	for i := range rapid.IntRange(1, 3).Draw(t, "targets") {
		target := append(node(t, depth-1), pair{"name", text(fmt.Sprint("t", i))})
		targets = append(targets, append(target, pair{"weight", number(i + 1)}))
	}
	if mode == "conditional" {
		q := query{
			{{"metadata.plan", text("paid")}},
			{{"params.n", free{{"$gte", number(rapid.IntRange(-5, 5).Draw(t, "n"))}}}},
			{{"$or", list{free{{"headers.x-a", literal("true")}}, free{{"url.pathname", free{{"$regex", text("^/v1")}}}}}}},
		}
		s = append(s, pair{"conditions", list{object{{"query", q}, {"then", text("t0")}}}}, pair{"default", text("t0")})
	}
	if rapid.Bool().Draw(t, "codes") {
		s = append(s, pair{"on_status_codes", codes{500, 429, 503}})
	}
	return object{{"strategy", s}, {"targets", targets}}
}

// settings draws properties that any node may have.
func settings(t *rapid.T) object {
	var o object
	for _, p := range []pair{
		{"override_params", free{{"model", text("m")}, {"max_tokens", number(7)}, {"deep_er", free{{"snake_case", list{literal("null"), literal("false"), text("é<&>")}}}}}},
		{"default_params", free{}},
		{"drop_params", list{text("messages[*].name")}},
		{"on_status_codes", codes{}},
		{"request_timeout", number(100)},
		{"forward_headers", list{text("X-A"), text("x-b")}},
		{"strict_vendora_compliance", literal("false")},
		{"cache", object{{"mode", text("semantic")}, {"max_age", number(60)}, {"threshold", literal("0.9")}, {"embedding", object{{"provider", text("@e")}, {"model", text("m")}}}}},
		{"retry", object{{"attempts", number(0)}, {"use_retry_after_headers", literal("true")}, {"on_status_codes", codes{429, 418}}}},
		{"cb_config", object{{"failure_threshold", number(3)}, {"cooldown_interval", number(30000)}, {"failure_status_codes", codes{502, 500}}}},
		{"before_request_hooks", list{object{{"id", text("h")}, {"on_fail", object{{"feedback", object{{"value", number(-5)}, {"metadata", free{{"a_b", number(1)}}}}}, {"deny", literal("true")}}}, {"checks", list{object{{"id", text("c")}, {"parameters", free{{"words_in", list{}}}}}}}}}},
		{"after_request_hooks", list{object{{"id", text("h")}, {"async", literal("true")}}}},
		{"input_guardrails", list{text("saved"), object{{"id", text("g")}, {"deny", literal("true")}, {"on_success", object{{"feedback", object{{"weight", number(1)}}}}}}}},
		{"output_guardrails", list{object{{"default.regexMatch", free{{"rule", text("a_b")}}}, {"on_fail", object{{"deny", literal("true")}}}}}},
		{"hedge", object{{"delay_ms", number(50)}}},
		{"stream_continuation", literal("true")},
		{"prompt_cache", literal("true")},
		{"on_unsupported", text("announce")},
		{"response_model", text("served")},
	} {
		if rapid.IntRange(0, 3).Draw(t, p.name) == 0 {
			o = append(o, p)
		}
	}
	return o
}
