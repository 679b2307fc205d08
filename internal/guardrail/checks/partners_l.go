package checks

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"modelgate/internal/guardrail"
)

// partnersFromLakera returns the partners from L to P.
func partnersFromLakera() []partner {
	moderation := []string{"sexual", "hate_and_discrimination", "violence_and_threats", "dangerous_and_criminal_content", "selfharm", "health", "financial", "law", "pii"}
	return []partner{
		{
			id: "lakera.guard", summary: "The policy of the project flags nothing.", needs: []string{"apiKey"}, headers: bearer, url: "https://api.lakera.ai/v2/guard",
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
			id: "lasso.classify", summary: "No violation is detected.", closed: true, needs: []string{"apiKey"}, url: "https://server.lasso.security/gateway/v2/classify",
			headers: map[string]string{"Lasso-Api-Key": "{apiKey}"},
			params:  []guardrail.Param{param("conversationId", guardrail.String, "", "Id of the conversation."), param("userId", guardrail.String, "", "Id of the user.")},
			body: func(c *call) any {
				o := object{"messages": c.messages(), "messageType": c.side("PROMPT", "COMPLETION")}
				setTexts(o, c, map[string]string{"sessionId": "conversationId", "userId": "userId"})
				return o
			},
			read: flaggedAt("violations_detected"),
		},
		{
			id: "mistral.moderateContent", summary: "None of the categories is found.", needs: []string{"apiKey"}, headers: bearer, url: "https://api.mistral.ai/v1/chat/moderations",
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
			id: "pangea.textGuard", summary: "No detector of the recipe detects anything.", needs: []string{"apiKey", "domain"}, headers: bearer, url: "https://ai-guard.{domain}/v1/text/guard",
			params: []guardrail.Param{param("recipe", guardrail.String, "", "Recipe."), param("debug", guardrail.Boolean, "false", "Returns details."), param("overrides", guardrail.JSON, "", "Overrides of the recipe.")},
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
			id: "pangea.pii", summary: "The text has no personal data, or it was redacted.", needs: []string{"apiKey", "domain"}, headers: bearer, url: "https://redact.{domain}/v1/redact_structured",
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
			id: "panw-prisma-airs.intercept", summary: "The profile does not block the text.", closed: true, needs: []string{"AIRS_API_KEY"}, headers: map[string]string{"X-Pan-Token": "{AIRS_API_KEY}"},
			url: "https://service.api.aisecurity.paloaltonetworks.com/v1/scan/sync/request",
			params: []guardrail.Param{param("profile_name", guardrail.String, "", "Name of the profile."), param("profile_id", guardrail.String, "", "Id of the profile."),
				param("ai_model", guardrail.String, "", "Model for reports; the requested one by default."), param("app_user", guardrail.String, "", "User for reports."), param("app_name", guardrail.String, "", "Application for reports.")},
			body: func(c *call) any {
				metadata, profile := object{"ai_model": c.in.Request.Model}, object{}
				setTexts(metadata, c, map[string]string{"ai_model": "ai_model", "app_user": "app_user", "app_name": "app_name"})
				setTexts(profile, c, map[string]string{"profile_name": "profile_name", "profile_id": "profile_id"})
				return object{"tr_id": c.in.Request.TraceID, "ai_profile": profile, "metadata": metadata, "contents": []any{object{c.side("prompt", "response"): c.text}}}
			},
			read: func(_ *call, response document) (reading, error) {
				action, err := response.text("action")
				return reading{flagged: action != "allow", note: "action " + action}, err
			},
		},
		pillar("scanPrompt", "prompt", before), pillar("scanResponse", "response", after),
		promptfoo("guard", "jailbreak", "No attempt to break out of the instructions is found."), promptfoo("harm", "", "No harmful content is found."), promptfooPII(),
		promptSecurity("protectPrompt", "prompt", before), promptSecurity("protectResponse", "response", after),
	}
}

// flaggedAt reads a boolean that says whether something was found.
func flaggedAt(path string) func(*call, document) (reading, error) {
	return func(_ *call, response document) (reading, error) {
		found, err := response.boolean(path)
		return reading{flagged: found, note: fmt.Sprintf("%s is %t", path, found)}, err
	}
}

// setTexts sets members of o from parameters that are not empty.
func setTexts(o object, c *call, names map[string]string) {
	for member, name := range names {
		if v := c.p.String(name); v != "" {
			o[member] = v
		}
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
		id: "pillar." + name, on: on, summary: "None of the scanners finds anything.", needs: []string{"apiKey"}, headers: bearer, url: "https://api.pillarseclabs.com/api/v1/scan/" + path,
		params: []guardrail.Param{{Name: "scanners", Type: guardrail.StringList, Enum: scanners, Default: `["prompt_injection","pii","secrets","toxic_language","invisible_characters"]`, Doc: "Scanners to run."}},
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

func promptSecurity(name, side string, on guardrail.Event) partner {
	return partner{
		id: "promptsecurity." + name, on: on, summary: "The policy lets the text pass.", needs: []string{"apiDomain", "apiKey"}, headers: map[string]string{"App-Id": "{apiKey}"},
		url: "https://{apiDomain}/api/protect", timeout: 5 * time.Second,
		body: func(c *call) any { return object{side: c.text} },
		read: func(_ *call, response document) (reading, error) {
			passed, err := response.boolean("result." + side + ".passed")
			if action, absent := response.text("result." + side + ".action"); absent == nil && err != nil {
				passed, err = action != "block", nil
			}
			return reading{flagged: !passed, note: fmt.Sprintf("passed is %t", passed)}, err
		},
	}
}
