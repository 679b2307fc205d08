package checks

import (
	"fmt"
	"strings"
	"time"

	"modelgate/internal/guardrail"
)

// webSearches returns the partners that add results of a web search to a request.
func webSearches() []partner {
	return []partner{
		{
			id: "exa.online", on: before, summary: "Always passes. Results of a web search for the text are added to the system message.",
			needs: []string{"apiKey"}, url: "https://api.exa.ai/search", headers: map[string]string{"X-Api-Key": "{apiKey}"}, all: true,
			changes: true, timeout: 10 * time.Second,
			params: []guardrail.Param{
				{Name: "numResults", Type: guardrail.Integer, Default: "10", Min: 1, Max: 50, Doc: "Number of results."},
				param("includeDomains", guardrail.StringList, "", "Only these domains."),
				param("excludeDomains", guardrail.StringList, "", "Not these domains."),
				param("prefix", guardrail.String, `"\n<web_search_context>"`, "Text before the results."),
				param("suffix", guardrail.String, `"\n</web_search_context>"`, "Text after the results."),
			},
			body: func(c *call) any {
				o := object{"query": firstRunes(c.text, 2000), "numResults": c.p.Number("numResults"), "text": object{"includeHtmlTags": false}}
				for _, name := range []string{"includeDomains", "excludeDomains"} {
					if list := c.p.Strings(name); len(list) > 0 {
						o[name] = list
					}
				}
				return o
			},
			read: func(c *call, response document) (reading, error) { return readSearch(c, response, "text") },
		},
		{
			id: "tavily.online", on: before, summary: "Always passes. Results of a web search for the text are added to the system message.",
			needs: []string{"apiKey"}, headers: bearer,
			url: "https://api.tavily.com/search", all: true, changes: true, timeout: 10 * time.Second,
			params: []guardrail.Param{{Name: "numResults", Type: guardrail.Integer, Default: "5", Min: 1, Max: 20, Doc: "Number of results."},
				param("prefix", guardrail.String, `"\n<web_search_context>"`, "Text before the results."),
				param("suffix", guardrail.String, `"\n</web_search_context>"`, "Text after the results.")},
			body: func(c *call) any {
				return object{"query": firstRunes(c.text, 400), "max_results": c.p.Number("numResults")}
			},
			read: func(c *call, response document) (reading, error) { return readSearch(c, response, "content") },
		},
	}
}

// maxSearch is the maximum size of search results added to a request, in bytes.
const maxSearch = 100_000

// readSearch formats the results of a web search. content is the name of their
// text.
func readSearch(c *call, response document, content string) (reading, error) {
	list, err := response.list("results")
	if err != nil || len(list) == 0 {
		return reading{note: "no results"}, err
	}
	var b strings.Builder
	for i, item := range list {
		result := document{item}
		title, _ := result.text("title") // an absent one stays empty
		address, _ := result.text("url")
		text, _ := result.text(content)
		fmt.Fprintf(&b, "[%d] %q\nURL: %s\n%s\n", i+1, title, address, text)
	}
	found := c.p.String("prefix") + "\n" + firstRunes(b.String(), maxSearch) + c.p.String("suffix")
	return reading{add: found, note: fmt.Sprintf("%d results", len(list))}, nil
}
