package tools

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/provider/toolserver"
)

// Names of the tools that replace a long list.
const (
	searchTools  = "search_tools"
	describeTool = "describe_tool"
	callTool     = "call_tool"
)

// Limits of searches.
const (
	maxFound = 20
	maxWords = 16
	maxQuery = 500 // in bytes
	maxLine  = 160 // of a description in results, in bytes
)

// searches reports whether an address shows the tools for searching instead of n tools.
func (v *view) searches(n int) bool { return v.searchAbove > 0 && n > v.searchAbove }

// listSearch responds with the tools for searching.
func listSearch(x *request, lists []serverList) error {
	out := []byte(`{"tools":[`)
	out = append(out, searchDefinitions(x.view.servers)...)
	out = append(out, ']')
	if about := x.describeList(lists); len(about) > 2 {
		return x.respondWith(append(append(out, ','), about[1:]...))
	}
	return x.respondWith(append(out, '}'))
}

// searchDefinitions returns the definitions of the tools for searching, separated by commas.
func searchDefinitions(servers []*toolserver.Server) []byte {
	var about strings.Builder
	about.WriteString("Finds tools by words in their names and descriptions. Call it first: the tools are not listed otherwise.")
	for i, s := range servers[:min(len(servers), 50)] {
		if i == 0 {
			about.WriteString(" They are of these servers: ")
		} else {
			about.WriteString(", ")
		}
		about.WriteString(s.Slug)
	}
	var b jsonedit.Builder
	define := func(name, about, schema, hints string) {
		b.Open('{')
		b.Name("name")
		b.String(name)
		b.Name("description")
		b.String(about)
		b.Name("inputSchema")
		b.Raw([]byte(schema))
		if hints != "" {
			b.Name("annotations")
			b.Raw([]byte(hints))
		}
		b.Close('}')
	}
	define(searchTools, about.String(), `{"type":"object","properties":{"query":{"type":"string","description":"Words; empty for the first tools"},`+
		`"limit":{"type":"integer","minimum":1,"maximum":20}},"required":["query"]}`, `{"readOnlyHint":true}`)
	define(describeTool, "Returns the definition of a tool, with the schema of its arguments.",
		`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`, `{"readOnlyHint":true}`)
	define(callTool, "Calls a tool that search_tools has found, with the arguments that describe_tool shows.",
		`{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object"}},"required":["name"]}`, "")
	return b.Bytes()
}

// searchTool returns what serves a call of one of the tools for searching, nil if name is not
// one here: a tool of a server has precedence until the list is too long to be shown.
func searchTool(x *request, name string) func(*request) error {
	serve := map[string]func(*request) error{searchTools: search, describeTool: describeFound, callTool: callFound}[name]
	if serve == nil || x.view.searchAbove <= 0 {
		return nil
	}
	items := x.visible(kindOf(toolserver.Tool), x.gather(kindOf(toolserver.Tool)))
	if !x.view.searches(len(items)) && slices.ContainsFunc(items, func(o outer) bool { return o.name == name }) {
		return nil
	}
	return serve
}

// argumentOf returns a string among the arguments of the call.
func argumentOf(x *request, name string) (string, bool) {
	arguments, _ := x.msg.params.Find("arguments")
	v, _ := arguments.Get(name)
	return v.Text()
}

// search responds with the tools that fit words best.
func search(x *request) error {
	if err := x.tools.Count(x.http.Context()); err != nil {
		return x.fail(err)
	}
	query, ok := argumentOf(x, "query")
	if !ok || len(query) > maxQuery {
		return respondText(x, "the arguments must have a query of at most 500 bytes", true)
	}
	limit := maxFound
	arguments, _ := x.msg.params.Find("arguments")
	if v, ok := arguments.Get("limit"); ok {
		n, isInt := v.Int()
		if !isInt || n < 1 || n > maxFound {
			return respondText(x, "limit must be 1 to 20", true)
		}
		limit = int(n)
	}
	lists := x.gather(kindOf(toolserver.Tool))
	if err := allFailed(lists); err != nil {
		return x.fail(err)
	}
	found, total := rank(x.visible(kindOf(toolserver.Tool), lists), wordsOf(query), limit)
	var out strings.Builder
	for _, o := range found {
		out.WriteString(o.name)
		if about := lineOf(o.definition); about != "" {
			out.WriteString(": " + about)
		}
		out.WriteByte('\n')
	}
	switch {
	case total == 0:
		out.WriteString("No tool fits; try other words.")
	case total > len(found):
		out.WriteString(strconv.Itoa(total-len(found)) + " more tools fit; add words to narrow the search.")
	}
	return respondText(x, strings.TrimSpace(out.String()), false)
}

// wordsOf returns the words of a query in small letters, each once.
func wordsOf(query string) (words []string) {
	for word := range strings.FieldsFuncSeq(strings.ToLower(query), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if !slices.Contains(words, word) && len(words) < maxWords {
			words = append(words, word)
		}
	}
	return words
}

// rank returns the first tools in the order of how well they fit words, and how many fit. Equal
// ones keep their order. Without words all fit.
func rank(items []outer, words []string, limit int) (found []outer, total int) {
	type scored struct {
		outer
		score int
	}
	var fitting []scored
	for _, o := range items {
		if score := fit(o, words); score > 0 || len(words) == 0 {
			fitting = append(fitting, scored{o, score})
		}
	}
	slices.SortStableFunc(fitting, func(a, b scored) int { return b.score - a.score })
	for _, s := range fitting[:min(limit, len(fitting))] {
		found = append(found, s.outer)
	}
	return found, len(fitting)
}

// fit returns how well a tool fits words: each counts most as a word of the name, and least as a
// part of the description.
func fit(o outer, words []string) (score int) {
	name, about := strings.ToLower(o.name), strings.ToLower(descriptionOf(o.definition))
	parts, notes := wordsOf(name), strings.FieldsFunc(about, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for _, word := range words {
		switch {
		case slices.Contains(parts, word):
			score += 8
		case strings.Contains(name, word):
			score += 4
		}
		switch {
		case slices.Contains(notes, word):
			score += 2
		case strings.Contains(about, word):
			score++
		}
	}
	return score
}

// descriptionOf returns the description of a tool, empty for none.
func descriptionOf(d *definition) string {
	v, err := jsonedit.ParseValue(d.raw)
	if err != nil {
		return ""
	}
	return v.TextOf("description")
}

// lineOf returns the description of a tool in one line.
func lineOf(d *definition) string {
	text := strings.Join(strings.Fields(descriptionOf(d)), " ")
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "") + "..."
	}
	return text
}

// describeFound responds with the definition of a tool as lists have it.
func describeFound(x *request) error {
	if err := x.tools.Count(x.http.Context()); err != nil {
		return x.fail(err)
	}
	name, _ := argumentOf(x, "name")
	lists := x.gather(kindOf(toolserver.Tool))
	if err := allFailed(lists); err != nil {
		return x.fail(err)
	}
	for _, o := range x.visible(kindOf(toolserver.Tool), lists) {
		if o.name == name {
			return respondText(x, string(o.appendTo(nil, o.name)), false)
		}
	}
	return respondText(x, "unknown tool: "+cut(name)+"; search_tools finds names", true)
}

// callFound calls a tool as if the client had called it by its name: with the same checks, the
// same records and the same errors.
func callFound(x *request) error {
	name, ok := argumentOf(x, "name")
	if !ok {
		return respondText(x, "the arguments must have the name of a tool", true)
	}
	given, _ := x.msg.params.Find("arguments")
	inner := jsonedit.Edit{Name: "arguments", Value: []byte("{}")}
	for key, v := range given.Fields() {
		switch key.String() {
		case "name":
		case "arguments":
			inner.Value = v.Raw()
		default:
			return respondText(x, "the arguments have "+cut(key.String())+"; arguments of the tool belong into arguments", true)
		}
	}
	m, problem := parseMessage(x.msg.with(changes{params: []jsonedit.Edit{setText("name", name), inner}}))
	if problem != nil {
		return x.reject(x.msg.id, problem)
	}
	defer func(before *message) {
		m.release()
		x.msg = before
	}(x.msg)
	x.msg, x.found = m, true
	return x.callTool()
}

// respondText responds with the result of a tool, of only a string.
func respondText(x *request, text string, isError bool) error {
	var b jsonedit.Builder
	b.Open('{')
	if x.era == peer.Modern {
		b.Name("resultType")
		b.String("complete")
	}
	b.Name("content")
	b.Open('[')
	b.Open('{')
	b.Name("type")
	b.String("text")
	b.Name("text")
	b.String(text)
	b.Close('}')
	b.Close(']')
	if isError {
		b.Name("isError")
		b.Bool(true)
	}
	x.ownMeta(&b)
	b.Close('}')
	return x.respondWith(b.Bytes())
}
