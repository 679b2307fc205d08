package security

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"modelgate/internal/testing/waittest"
)

// plantedText is what the organisation of a random gateway denies or redacts.
const plantedText = "Kingfisher"

// organisationGuards are guardrails of an organisation against plantedText, as checks and
// actions. Each alone must keep it from everyone.
var organisationGuards = []struct{ name, checks, actions string }{
	{"a denied pattern", `{"id":"default.regexMatch","parameters":{"rule":"King(fisher)","not":true}}`, `{"deny":true}`},
	{"a denied pattern that is held", `{"id":"default.regexMatch","parameters":{"rule":"King(fisher)","not":true}}`, `{"deny":true,"stream":"hold"}`},
	{"a redacted pattern", fmt.Sprintf(`{"id":"default.regexReplace","parameters":{"rule":%q,"redactText":"[bird]"}}`, plantedText), `{}`},
	{"a redacted pattern that is held", fmt.Sprintf(`{"id":"default.regexReplace","parameters":{"rule":%q,"redactText":"[bird]"}}`, plantedText), `{"stream":"hold"}`},
}

// ownChecks are checks of a client's config. OWN is the address of its server.
var ownChecks = []string{
	`"default.regexMatch":{"rule":"(.*)(King[a-z]*)(.*)"}`, `"default.regexMatch":{"rule":"(K\\w+)","not":true}`, `"default.contains":{"words":["King","fisher"],"operator":"any"}`,
	`"default.webhook":{"webhookURL":"OWN"}`, `"default.log":{"logURL":"OWN"}`, `"default.wordCount":{"minWords":1}`, `"default.sentenceCount":{"minSentences":1}`,
	`"default.regexReplace":{"rule":"Q","redactText":"King"}`, `"default.regexReplace":{"rule":"(King)(.*)","redactText":"$2 $1"}`, `"default.regexReplace":{"rule":"\\[bird\\]","redactText":"Kingfisher"}`,
	`"default.regexReplace":{"rule":"x","redactText":"fisher"}`, `"default.endsWith":{"suffix":"fisher"}`, `"default.allUppercase":{}`,
}

// drawLists draws guardrails of a client's config.
func drawLists(rt *rapid.T, own string) string {
	var lists strings.Builder
	for _, name := range []string{"input_guardrails", "output_guardrails", "input_mutators", "output_mutators"} {
		var items []string
		for range rapid.IntRange(0, 3).Draw(rt, name) {
			item := rapid.SampledFrom(ownChecks).Draw(rt, "check")
			if strings.HasSuffix(name, "mutators") && !strings.Contains(item, "Replace") {
				continue
			}
			for _, flag := range []string{`"deny":true`, `"async":true`, `"sequential":true`, `"mode":"shadow"`, `"stream":"window"`, `"stream":"observe"`} {
				if rapid.IntRange(0, 5).Draw(rt, flag) == 0 && !strings.Contains(item, flag[:8]) {
					item += "," + flag
				}
			}
			items = append(items, "{"+item+"}")
		}
		if len(items) > 0 {
			fmt.Fprintf(&lists, `,%q:[%s]`, name, strings.Join(items, ","))
		}
	}
	return strings.ReplaceAll(lists.String(), "OWN", own)
}

// Whatever a config has, no response, result, log entry or server of the client has text of
// a response that the organisation's guardrail denies or redacts, and no provider, server or
// result has such text of a request.
func TestRandomConfigsGetNothingThatTheOrganisationWithholds(t *testing.T) {
	t.Parallel()
	for _, guard := range organisationGuards {
		t.Run(guard.name, func(t *testing.T) {
			t.Parallel()
			attack(t, "injection", "random configs read what "+guard.name+" withholds", func(t *testing.T) { tryRandomConfigs(t, guard.checks, guard.actions) })
		})
	}
}

func tryRandomConfigs(t *testing.T, checks, actions string) {
	g := &ranked{gateway: launch(t, options{settings: "version: 1\nlogs: {level: full}\n"})}
	g.provider = newProvider(t, g.respond)
	own := newProvider(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"verdict":true}`)
	})
	slug := g.create(t, rootKey, "/v1/guardrails", fmt.Sprintf(`{"name":"planted","organisation_id":"default","checks":[%s],"actions":%s}`, checks, actions), "slug")
	g.as(t, rootKey, "PUT", "/v1/admin/organisation/defaults", fmt.Sprintf(`{"input_guardrails":[%q],"output_guardrails":[%[1]q]}`, slug)).ok(t)
	g.key = g.gateway.key(t, rootKey, "default", []string{"completions.write", "logs.view"}, "")
	waittest.Until(t, "the guardrail applies", func() bool {
		g.send(t, "POST", "/v1/chat/completions", strings.Replace(chatBody, "hello", "a "+plantedText, 1), "")
		return !g.provider.got(plantedText)
	})
	own.reset()
	var configs []string // that were tried; the client's server gets the number of each in its path
	rapid.Check(t, func(rt *rapid.T) {
		r := rapid.SampledFrom(clientRequests).Draw(rt, "request")
		lists := drawLists(rt, fmt.Sprintf("%s/%d", own.root, len(configs)))
		configs = append(configs, lists)
		inRequest := rapid.Bool().Draw(rt, "planted in the request")
		reply := rapid.SampledFrom([]string{"", "the ", "x Q "}).Draw(rt, "before") + plantedText + rapid.SampledFrom([]string{"", " it is", " Qfisher"}).Draw(rt, "after")
		body := r.body
		if inRequest {
			reply, body = "harmless", strings.ReplaceAll(body, "a Q", "a "+plantedText)
		}
		g.reply.Store(&reply)
		res := g.send(t, "POST", r.path, body, lists)
		if strings.Contains(spelled(res.body), plantedText) {
			rt.Fatalf("%s with %s: the client received it: %.600s", r.name, lists, res.body)
		}
		if inRequest && g.provider.got(plantedText) {
			rt.Fatalf("%s with %s: the provider received it: %s", r.name, lists, g.provider.seen()[0].body)
		}
		for _, got := range own.seen() {
			n, _ := strconv.Atoi(strings.Trim(got.target, "/"))
			if strings.Contains(string(got.body), plantedText) && !strings.Contains(configs[n], "regexReplace") { // which may have written it
				rt.Fatalf("%s: the client's server received it", configs[n])
			}
		}
		if !inRequest {
			id := res.header.Get("x-gateway-request-id")
			var entry response
			waittest.Until(t, "the request is in the log", func() bool {
				entry = g.as(t, g.key, "GET", "/v1/logs/"+id, "")
				return entry.status == http.StatusOK
			})
			if strings.Contains(strings.ReplaceAll(string(entry.body), lists, ""), plantedText) && !strings.Contains(lists, plantedText) {
				rt.Fatalf("%s with %s: the log has it: %.2000s", r.name, lists, entry.body)
			}
		}
	})
}
