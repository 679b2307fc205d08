package checks

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"modelgate/internal/guardrail"
)

// textScanners returns the partners that look for kinds of content in a text.
func textScanners() []partner {
	moderation := []string{"sexual", "hate_and_discrimination", "violence_and_threats", "dangerous_and_criminal_content", "selfharm", "health",
		"financial", "law", "pii"}
	threshold := func(name string) guardrail.Param {
		return guardrail.Param{Name: name, Type: guardrail.Number, Default: "0.5", Min: 0, Max: 1, Doc: "Score above which the check fails."}
	}
	return slices.Concat(acuvity(), []partner{
		{
			id: "lakera.guard", summary: "The policy of the project flags nothing.", needs: []string{"apiKey"}, headers: bearer,
			url:    "https://api.lakera.ai/v2/guard",
			params: []guardrail.Param{param("projectId", guardrail.String, "", "Id of the project; the default policy by default.")},
			body: func(c *call) any {
				o := object{"messages": c.messages()}
				if id := c.p.String("projectId"); id != "" {
					o["project_id"] = id
				}
				return o
			},
			read: flaggedAt("flagged"),
		},
		{
			id: "lasso.classify", summary: "No violation is detected.", closed: true, needs: []string{"apiKey"},
			url:     "https://server.lasso.security/gateway/v2/classify",
			headers: map[string]string{"Lasso-Api-Key": "{apiKey}"},
			params: []guardrail.Param{param("conversationId", guardrail.String, "", "Id of the conversation."),
				param("userId", guardrail.String, "", "Id of the user.")},
			body: func(c *call) any {
				o := object{"messages": c.messages(), "messageType": c.side("PROMPT", "COMPLETION")}
				setTexts(o, c, map[string]string{"sessionId": "conversationId", "userId": "userId"})
				return o
			},
			read: flaggedAt("violations_detected"),
		},
		{
			id: "mistral.moderateContent", summary: "None of the categories is found.", needs: []string{"apiKey"}, headers: bearer,
			url: "https://api.mistral.ai/v1/chat/moderations",
			params: []guardrail.Param{param("model", guardrail.String, `"mistral-moderation-latest"`, "Moderation model."),
				{Name: "categories", Type: guardrail.StringList, Enum: moderation, Doc: "Categories to look for; all by default."}},
			body: func(c *call) any { return object{"model": c.p.String("model"), "input": []any{c.messages()}} },
			read: func(c *call, response document) (reading, error) {
				found, err := response.object("results.0.categories")
				var names []string
				for name, value := range found {
					hit, ok := value.(bool)
					if !ok {
						return reading{}, errors.New("has a category that is not a boolean")
					}
					if hit && (len(c.p.Strings("categories")) == 0 || slices.Contains(c.p.Strings("categories"), name)) {
						names = append(names, name)
					}
				}
				slices.Sort(names)
				return reading{flagged: len(names) > 0, note: strings.Join(names, ", ")}, err
			},
		},
		{
			id: "pangea.textGuard", summary: "No detector of the recipe detects anything.", needs: []string{"apiKey", "domain"}, headers: bearer,
			url: "https://ai-guard.{domain}/v1/text/guard",
			params: []guardrail.Param{param("recipe", guardrail.String, "", "Recipe."),
				param("debug", guardrail.Boolean, "false", "Returns details."), param("overrides", guardrail.JSON, "", "Overrides of the recipe.")},
			body: func(c *call) any {
				o := object{"text": c.text, "debug": c.p.Bool("debug")}
				setTexts(o, c, map[string]string{"recipe": "recipe"})
				if raw := c.p.Raw("overrides"); raw != nil {
					o["overrides"] = raw
				}
				return o
			},
			read: func(_ *call, response document) (reading, error) {
				detectors, err := response.object("result.detectors")
				return anyDetected(detectors, err)
			},
		},
		{
			id: "pangea.pii", summary: "The text has no personal data, or it was redacted.", needs: []string{"apiKey", "domain"}, headers: bearer,
			url:  "https://redact.{domain}/v1/redact_structured",
			each: true, changes: true, params: []guardrail.Param{redactParam},
			body: func(c *call) any { return object{"data": []string{c.text}} },
			read: func(c *call, response document) (reading, error) {
				text, err := response.text("result.redacted_data.0")
				if err != nil || text == c.text {
					return reading{}, err
				}
				return redacted(c, text, "personal data was found"), nil
			},
		},
		{
			id: "sydelabs.sydeguard", summary: "No score is above its threshold.", needs: []string{"apiKey"},
			headers: map[string]string{"X-Api-Key": "{apiKey}"},
			url:     "https://guard.sydelabs.ai/api/v1/guard/generate-score",
			params:  []guardrail.Param{threshold("prompt_injection_threshold"), threshold("toxicity_threshold"), threshold("evasion_threshold")},
			body:    func(c *call) any { return object{"prompt": c.text} },
			read: func(c *call, response document) (reading, error) {
				list, err := response.list("category_scores")
				limits := map[string]string{"PROMPT_INJECT": "prompt_injection_threshold", "TOXIC": "toxicity_threshold",
					"EVASION": "evasion_threshold"}
				r := reading{}
				for _, item := range list {
					name, _ := document{item}.text("category")
					score, wrong := document{item}.number("score")
					if wrong != nil {
						return r, wrong
					}
					if limit := limits[name]; limit != "" && score > c.p.Number(limit) {
						r.flagged, r.note = true, name
					}
				}
				if err == nil && len(list) == 0 {
					err = errors.New("has no scores")
				}
				return r, err
			},
		},
		{
			id: "walledai.walledprotect", summary: "The text is safe.", needs: []string{"apiKey"},
			headers: map[string]string{"X-Api-Key": "{apiKey}"}, url: "https://services.walled.ai/v1/walled-protect",
			params: []guardrail.Param{param("generic_safety_check", guardrail.Boolean, "true", "Looks for unsafe content."),
				param("greetings_list", guardrail.StringList, `["Casual & Friendly"]`, "Greetings to look for."),
				param("pii_list", guardrail.StringList,
					`["Person's Name","Address","Email Id","Contact No","Date Of Birth","Unique Id","Financial Data"]`, "Personal data to look for."),
				param("compliance_list", guardrail.StringList, "[]", "Topics to look for.")},
			body: func(c *call) any {
				o := object{"text": c.text, "generic_safety_check": c.p.Bool("generic_safety_check")}
				for _, name := range []string{"greetings_list", "pii_list", "compliance_list"} {
					o[name] = c.p.Strings(name)
				}
				return o
			},
			read: func(_ *call, response document) (reading, error) {
				path := "data.safety.0.isSafe"
				if response.at("data").value == nil {
					path = "safety.0.isSafe"
				}
				safe, err := response.boolean(path)
				return reading{flagged: !safe, note: fmt.Sprintf("isSafe is %t", safe)}, err
			},
		},
		pillar("scanPrompt", "prompt", before), pillar("scanResponse", "response", after),
		promptfoo("guard", "jailbreak", "No attempt to break out of the instructions is found."),
		promptfoo("harm", "", "No harmful content is found."), promptfooPII(),
	})
}

// flaggedAt reads a boolean that says whether something was found.
func flaggedAt(path string) func(*call, document) (reading, error) {
	return func(_ *call, response document) (reading, error) {
		found, err := response.boolean(path)
		return reading{flagged: found, note: fmt.Sprintf("%s is %t", path, found)}, err
	}
}

func anyDetected(detectors map[string]any, err error) (reading, error) {
	var names []string
	for name, d := range detectors {
		detected, wrong := document{d}.boolean("detected")
		if wrong != nil {
			return reading{}, wrong
		}
		if detected {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return reading{flagged: len(names) > 0, note: strings.Join(names, ", ")}, err
}

func pillar(name, path string, on guardrail.Event) partner {
	scanners := []string{"prompt_injection", "pii", "secrets", "toxic_language", "invisible_characters"}
	return partner{
		id: "pillar." + name, on: on, summary: "None of the scanners finds anything.", needs: []string{"apiKey"}, headers: bearer,
		url: "https://api.pillarseclabs.com/api/v1/scan/" + path,
		params: []guardrail.Param{{Name: "scanners", Type: guardrail.StringList, Enum: scanners,
			Default: `["prompt_injection","pii","secrets","toxic_language","invisible_characters"]`, Doc: "Scanners to run."}},
		body: func(c *call) any {
			wanted := object{}
			for _, s := range c.p.Strings("scanners") {
				wanted[s] = true
			}
			return object{"message": c.text, "scanners": wanted}
		},
		read: func(c *call, response document) (reading, error) {
			all, ok := response.value.(map[string]any)
			var found []string
			known := 0
			for _, s := range scanners {
				value, present := all[s]
				if present {
					known++
				}
				if value != nil && value != false {
					found = append(found, s)
				}
			}
			if !ok || known == 0 {
				return reading{}, errors.New("has the result of no scanner")
			}
			return reading{flagged: len(found) > 0, note: strings.Join(found, ", ")}, nil
		},
	}
}

func promptfoo(name, category, summary string) partner {
	return partner{
		id: "promptfoo." + name, summary: summary, url: "https://api.promptfoo.dev/v1/" + name,
		body: func(c *call) any { return object{"input": c.text} },
		read: func(_ *call, response document) (reading, error) {
			if category == "" {
				return flaggedAt("results.0.flagged")(nil, response)
			}
			return flaggedAt("results.0.categories."+category)(nil, response)
		},
	}
}

func promptfooPII() partner {
	row := promptfoo("pii", "", "The text has no personal data, or it was redacted.")
	row.each, row.changes, row.params = true, true, []guardrail.Param{redactParam}
	row.read = func(c *call, response document) (reading, error) {
		found, err := response.boolean("results.0.flagged")
		if err != nil || !found {
			return reading{}, err
		}
		entities, err := response.list("results.0.payload.pii")
		text := c.text
		for _, item := range entities {
			value, _ := document{item}.text("pii")
			kind, _ := document{item}.text("entity_type")
			if value != "" {
				text = strings.ReplaceAll(text, value, "["+kind+"]")
			}
		}
		if text == c.text { // nothing to replace is not a redaction
			return reading{flagged: true, note: "personal data was found"}, err
		}
		return redacted(c, text, "personal data was found"), err
	}
	return row
}
