package checks

import (
	"errors"
	"slices"
	"time"

	"modelgate/internal/guardrail"
)

// responseEvaluators returns the partners that evaluate responses.
func responseEvaluators() []partner { return slices.Concat(patronus(), qualifire()) }

// patronus returns the checks of Patronus, each an evaluator with a criterion.
func patronus() (list []partner) {
	for _, row := range []struct{ name, evaluator, criteria, summary string }{
		{"phi", "phi", "", "The response has no health data."},
		{"pii", "pii", "", "The response has no personal data, or it was redacted."},
		{"isConcise", "judge", "patronus:is-concise", "The response is concise."},
		{"isHelpful", "judge", "patronus:is-helpful", "The response is helpful."},
		{"isPolite", "judge", "patronus:is-polite", "The response is polite."},
		{"noApologies", "judge", "patronus:no-apologies", "The response does not apologise."},
		{"noGenderBias", "judge", "patronus:no-gender-bias", "The response has no gender bias."},
		{"noRacialBias", "judge", "patronus:no-racial-bias", "The response has no racial bias."},
		{"retrievalAnswerRelevance", "retrieval-answer-relevance", "", "The response is relevant to the request."},
		{"toxicity", "toxicity", "", "The response is not toxic."},
		{"custom", "judge", "", "The response satisfies a criterion of the account."},
	} {
		p := partner{
			id: "patronus." + row.name, on: after, summary: row.summary, needs: []string{"apiKey"},
			headers: map[string]string{"X-Api-Key": "{apiKey}"}, url: "https://api.patronus.ai/v1/evaluate", timeout: 15 * time.Second,
			body: func(c *call) any {
				evaluator := object{"evaluator": row.evaluator}
				if row.criteria != "" {
					evaluator["criteria"] = row.criteria
				}
				if profile := c.p.String("profile"); profile != "" {
					evaluator["criteria"] = profile
				}
				return object{"evaluators": []any{evaluator}, "evaluated_model_input": requestText(c), "evaluated_model_output": c.text}
			},
			read: readPatronus,
		}
		switch row.name {
		case "pii":
			p.each, p.changes, p.params = true, true, []guardrail.Param{redactParam}
		case "custom":
			p.params = []guardrail.Param{required("profile", guardrail.String, "Criterion.")}
		}
		list = append(list, p)
	}
	return list
}

// requestText returns the text of the request's last message when a response is
// checked, empty if it is not available.
func requestText(c *call) string {
	if c.in.Request.Body == nil {
		return ""
	}
	body, err := c.in.Request.Body.JSON(nil, nil)
	if err != nil {
		return ""
	}
	_, parts, err := c.in.Request.Body.Replace(body)
	if err != nil {
		return ""
	}
	return currentText(&guardrail.Input{Parts: parts})
}

func readPatronus(c *call, response document) (reading, error) {
	result := response.at("results.0.evaluation_result")
	passed, err := result.boolean("pass")
	if err != nil || passed {
		return reading{}, err
	}
	places, absent := result.list("additional_info.positions")
	if !c.p.Bool("redact") || absent != nil || len(places) == 0 {
		return reading{flagged: true, note: "not passed"}, nil
	}
	letters := []rune(c.text)
	for _, place := range places {
		from, wrong := document{place}.number("0")
		to, wrong2 := document{place}.number("1")
		if wrong != nil || wrong2 != nil || from < 0 || to < from || int(to) > len(letters) {
			return reading{flagged: true, note: "invalid positions"}, nil
		}
		for i := int(from); i < int(to); i++ {
			letters[i] = '*'
		}
	}
	return reading{text: string(letters), replaced: true, note: "personal data was redacted"}, nil
}

// qualifire returns the checks of Qualifire, each with its member of the request.
func qualifire() (list []partner) {
	mode := one("mode", "Quality of the check.", "balanced", "speed", "quality")
	for _, row := range []struct {
		name, member, summary string
		on                    guardrail.Event
		moded                 bool
	}{
		{"contentModeration", "content_moderation_check", "No harmful content is found.", 0, false},
		{"hallucinations", "hallucinations_check", "The response has no hallucinations.", after, true},
		{"pii", "pii_check", "No personal data is found.", 0, false},
		{"promptInjections", "prompt_injections", "No prompt injection is found.", before, false},
		{"grounding", "grounding_check", "The response is grounded in the request.", after, true},
		{"toolUseQuality", "tool_selection_quality_check", "The tool calls fit the request.", after, true},
		{"policy", "assertions", "The text satisfies the policies.", 0, true},
	} {
		p := partner{
			id: "qualifire." + row.name, on: row.on, summary: row.summary, needs: []string{"apiKey"},
			headers: map[string]string{"X-Qualifire-Api-Key": "{apiKey}"},
			url:     "https://proxy.qualifire.ai/api/evaluation/evaluate", timeout: 60 * time.Second,
			body: func(c *call) any {
				o := object{"input": c.text}
				if c.in.Event == after {
					o = object{"input": requestText(c), "output": c.text}
				}
				if o[row.member] = true; row.name == "policy" {
					o[row.member], o["policy_target"] = c.p.Strings("policies"), c.p.String("policy_target")
				}
				setTexts(o, c, map[string]string{"mode": "mode"})
				return o
			},
			read: func(_ *call, response document) (reading, error) {
				status, err := response.text("status")
				if err == nil && status != "failed" && status != "success" && status != "completed" && status != "passed" {
					err = errors.New("has an unknown status")
				}
				return reading{flagged: status == "failed", note: "status " + status}, err
			},
		}
		if row.moded {
			p.params = append(p.params, mode)
		}
		if row.name == "policy" {
			p.params = append(p.params, required("policies", guardrail.StringList, "Policies in plain language."),
				one("policy_target", "Side to check.", "both", "input", "output"))
		}
		list = append(list, p)
	}
	return list
}
