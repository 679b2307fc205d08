package checks

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"modelgate/internal/guardrail"
)

var redactParam = param("redact", guardrail.Boolean, "false", "`true` replaces what is found, if nothing else is found, and the check passes.")

// partnersToJavelin returns the partners from A to J.
func partnersToJavelin() []partner {
	return slices.Concat(acuvity(), azure(), bedrock(), []partner{
		{
			id: "aporia.validateProject", summary: "The project's policies let the text pass.",
			needs: []string{"apiKey"}, optional: []string{"apiEndpoint"}, fallbacks: map[string]string{"apiEndpoint": "https://gr-prd.aporia.com"},
			params: []guardrail.Param{required("projectID", guardrail.String, "Id of the project.")},
			url:    "{apiEndpoint}/{projectID}/validate", headers: map[string]string{"X-Aporia-Api-Key": "{apiKey}"},
			body: func(c *call) any {
				if c.in.Event == after {
					return object{"messages": []any{}, "response": c.text, "validation_target": "response"}
				}
				return object{"messages": c.messages(), "validation_target": "prompt"}
			},
			read: func(_ *call, response document) (reading, error) {
				action, err := response.text("action")
				return reading{flagged: !strings.EqualFold(action, "PassThrough"), note: "action " + action}, err
			},
		},
		{
			id: "crowdstrike-aidr.guardChatCompletions", summary: "The policy of the service does not block the body, which it may change.",
			needs: []string{"apiKey", "baseUrl"}, url: "{baseUrl}/v1/guard_chat_completions", headers: bearer, all: true, changes: true,
			body: func(c *call) any {
				o := object{"event_type": c.side("input", "output"), "model": c.in.Request.Model}
				if body, err := c.in.JSON(); err == nil {
					o["guard_input"] = body
				} else {
					o["guard_input"] = object{"messages": c.messages()}
				}
				return o
			},
			read: readAIDR,
		},
		{
			id: "exa.online", on: before, summary: "Always passes. Results of a web search for the text are added to the system message.",
			needs: []string{"apiKey"}, url: "https://api.exa.ai/search", headers: map[string]string{"X-Api-Key": "{apiKey}"}, all: true, changes: true, timeout: 10 * time.Second,
			params: []guardrail.Param{
				{Name: "numResults", Type: guardrail.Integer, Default: "10", Min: 1, Max: 50, Doc: "Number of results."},
				param("includeDomains", guardrail.StringList, "", "Only these domains."), param("excludeDomains", guardrail.StringList, "", "Not these domains."),
				param("prefix", guardrail.String, `"\n<web_search_context>"`, "Text before the results."), param("suffix", guardrail.String, `"\n</web_search_context>"`, "Text after the results."),
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
			id: "f5-guardrails.scan", summary: "The scan clears the text.", changes: true, each: true,
			needs: []string{"apiKey"}, optional: []string{"calypsoUrl"}, fallbacks: map[string]string{"calypsoUrl": "https://us1.calypsoai.app"},
			params: []guardrail.Param{required("projectId", guardrail.String, "Id of the project."), redactParam},
			url:    "{calypsoUrl}/backend/v1/scans", headers: bearer,
			body: func(c *call) any { return object{"input": c.text, "project": c.p.String("projectId")} },
			read: func(c *call, response document) (reading, error) {
				outcome, err := response.text("result.outcome")
				r := reading{flagged: outcome != "cleared", note: "outcome " + outcome}
				if text, absent := response.text("redactedInput"); absent == nil && r.flagged && c.p.Bool("redact") && outcome == "redacted" {
					r.text, r.replaced, r.flagged = text, true, false
				}
				return r, err
			},
		},
		{
			id: "javelin.guardrails", summary: "No assessment of the application rejects the text.",
			needs: []string{"apiKey", "application"}, optional: []string{"domain"}, fallbacks: map[string]string{"domain": "https://api-dev.javelin.live"},
			url: "{domain}/v1/guardrails/apply", headers: map[string]string{"X-Javelin-Apikey": "{apiKey}", "X-Javelin-Application": "{application}"},
			body: func(c *call) any {
				return object{"input": object{"text": c.text}, "config": object{}, "metadata": object{}}
			},
			read: readJavelin,
		},
	})
}

var bearer = map[string]string{"Authorization": "Bearer {apiKey}"}

func readAIDR(_ *call, response document) (reading, error) {
	blocked, err := response.boolean("result.blocked")
	if err != nil || blocked {
		return reading{flagged: true, note: "blocked"}, err
	}
	if changed, _ := response.boolean("result.transformed"); changed {
		output, err := response.object("result.guard_output")
		if err != nil {
			return reading{}, err
		}
		body, err := json.Marshal(output)
		return reading{body: body, note: "transformed"}, err
	}
	return reading{}, nil
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

func readJavelin(_ *call, response document) (reading, error) {
	list, err := response.list("assessments")
	if err != nil {
		return reading{}, err
	}
	for _, item := range list {
		kinds, ok := item.(map[string]any)
		if !ok {
			return reading{}, errors.New("has an assessment that is not an object")
		}
		for kind := range kinds {
			reject, err := document{item}.boolean(kind + ".request_reject")
			if err != nil || reject {
				return reading{flagged: reject, note: kind}, err
			}
		}
	}
	return reading{}, nil
}

// acuvityGuards are the parameters of acuvity and where their scores are.
var acuvityGuards = []struct{ name, place string }{
	{"prompt_injection", "exploits.prompt_injection"}, {"jail_break", "exploits.jailbreak"}, {"malicious_url", "exploits.malicious_url"},
	{"toxic", "malcontents.toxic"}, {"biased", "malcontents.biased"}, {"harmful", "malcontents.harmful_content"},
}

func acuvity() []partner {
	var params []guardrail.Param
	for _, g := range acuvityGuards {
		params = append(params, param(g.name, guardrail.Boolean, "false", "Looks for it."),
			guardrail.Param{Name: g.name + "_threshold", Type: guardrail.Number, Default: "0.5", Min: 0, Max: 1, Doc: "Score from which it is found."})
	}
	params = append(params, param("language", guardrail.Boolean, "false", "Checks the language."), param("language_values", guardrail.StringOrList, "", "Languages that pass."),
		param("pii", guardrail.Boolean, "false", "Looks for personal data."), param("pii_redact", guardrail.Boolean, "false", "Redacts it."), param("pii_categories", guardrail.StringList, "", "Categories of personal data."),
		param("secrets", guardrail.Boolean, "false", "Looks for credentials."), param("secrets_redact", guardrail.Boolean, "false", "Redacts them."), param("secrets_categories", guardrail.StringList, "", "Categories of credentials."))
	return []partner{{
		id: "acuvity.scan", summary: "None of the enabled guards finds anything, or it was redacted.", needs: []string{"apiKey"}, params: params, changes: true, each: true,
		url: "https://acuvity/_acuvity/scan", headers: bearer, places: map[string]place{"apiKey": token}, // the host comes from the key
		prepare: func(_ context.Context, _ Services, c *call, o *outgoing) error {
			host, err := acuvityHost(c.credential("apiKey"))
			o.url, o.chosen = host+"/_acuvity/scan", true
			return err
		},
		body: func(c *call) any {
			redactions := []string{}
			if c.p.Bool("pii_redact") {
				redactions = append(redactions, c.p.Strings("pii_categories")...)
			}
			if c.p.Bool("secrets_redact") {
				redactions = append(redactions, c.p.Strings("secrets_categories")...)
			}
			return object{"anonymization": "FixedSize", "messages": []string{c.text}, "redactions": redactions, "type": c.side("Input", "Output")}
		},
		read: readAcuvity,
	}}
}

// acuvityHost returns the base address in the claims of a key, which is a JSON
// Web Token.
func acuvityHost(key string) (string, error) {
	wrong := errors.New("the credential apiKey of acuvity contains no address")
	parts := strings.Split(key, ".")
	if len(parts) != 3 {
		return "", wrong
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	var claims struct {
		Opaque map[string]string `json:"opaque"`
	}
	if err != nil || json.Unmarshal(raw, &claims) != nil || claims.Opaque["apex-url"] == "" {
		return "", wrong
	}
	if !isBase(claims.Opaque["apex-url"]) {
		return "", wrong
	}
	return base.write(claims.Opaque["apex-url"]), nil
}

func readAcuvity(c *call, response document) (reading, error) {
	if _, err := response.object("extractions.0"); err != nil {
		return reading{}, err
	}
	got := response.at("extractions.0")
	var found []string
	for _, g := range acuvityGuards {
		score, err := got.number(g.place)
		if err == nil && c.p.Bool(g.name) && score >= c.p.Number(g.name+"_threshold") {
			found = append(found, g.name)
		}
	}
	if languages, _ := got.object("languages"); c.p.Bool("language") {
		known := false
		for name := range languages {
			known = known || slices.Contains(c.p.Strings("language_values"), name)
		}
		if !known {
			found = append(found, "language")
		}
	}
	redactable := false
	for name, place := range map[string]string{"pii": "PIIs", "secrets": "secrets"} {
		categories, _ := got.object(place)
		hit := false
		for category := range categories {
			wanted := c.p.Strings(name + "_categories")
			hit = hit || len(wanted) == 0 || slices.Contains(wanted, category)
		}
		switch {
		case !hit || !c.p.Bool(name):
		case c.p.Bool(name + "_redact"):
			redactable = true
		default:
			found = append(found, name)
		}
	}
	r := reading{flagged: len(found) > 0, note: strings.Join(found, ", ")}
	if redactable && !r.flagged {
		text, err := got.text("data")
		r.text, r.replaced = text, true
		return r, err
	}
	return r, nil
}
