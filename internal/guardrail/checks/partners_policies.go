package checks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"modelgate/internal/guardrail"
)

// policyServices returns the partners whose own policies, of a project or an account,
// decide about a text. The formats of Akto, Cato and Zscaler were read from the vendors' own
// clients and examples.
func policyServices() []partner {
	return []partner{
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
			needs: []string{"apiKey", "application"}, optional: []string{"domain"},
			fallbacks: map[string]string{"domain": "https://api-dev.javelin.live"},
			url:       "{domain}/v1/guardrails/apply",
			headers:   map[string]string{"X-Javelin-Apikey": "{apiKey}", "X-Javelin-Application": "{application}"},
			body: func(c *call) any {
				return object{"input": object{"text": c.text}, "config": object{}, "metadata": object{}}
			},
			read: readJavelin,
		},
		{
			id: "panw-prisma-airs.intercept", summary: "The profile does not block the text.", closed: true, needs: []string{"AIRS_API_KEY"},
			headers: map[string]string{"X-Pan-Token": "{AIRS_API_KEY}"},
			url:     "https://service.api.aisecurity.paloaltonetworks.com/v1/scan/sync/request",
			params: []guardrail.Param{param("profile_name", guardrail.String, "", "Name of the profile."),
				param("profile_id", guardrail.String, "", "Id of the profile."),
				param("ai_model", guardrail.String, "", "Model for reports; the requested one by default."),
				param("app_user", guardrail.String, "", "User for reports."), param("app_name", guardrail.String, "", "Application for reports.")},
			body: func(c *call) any {
				metadata, profile := object{"ai_model": c.in.Request.Model}, object{}
				setTexts(metadata, c, map[string]string{"ai_model": "ai_model", "app_user": "app_user", "app_name": "app_name"})
				setTexts(profile, c, map[string]string{"profile_name": "profile_name", "profile_id": "profile_id"})
				return object{"tr_id": c.in.Request.TraceID, "ai_profile": profile, "metadata": metadata,
					"contents": []any{object{c.side("prompt", "response"): c.text}}}
			},
			read: func(_ *call, response document) (reading, error) {
				action, err := response.text("action")
				return reading{flagged: action != "allow", note: "action " + action}, err
			},
		},
		promptSecurity("protectPrompt", "prompt", before), promptSecurity("protectResponse", "response", after),
		akto(), cato(), zscaler(),
	}
}

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

func promptSecurity(name, side string, on guardrail.Event) partner {
	return partner{
		id: "promptsecurity." + name, on: on, summary: "The policy lets the text pass.", needs: []string{"apiDomain", "apiKey"},
		headers: map[string]string{"App-Id": "{apiKey}"},
		url:     "https://{apiDomain}/api/protect", timeout: 5 * time.Second,
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

// akto checks by the endpoint of a guardrails service, whose token has no scheme.
// https://github.com/akto-api-security/aws-bedrock-agentcore
func akto() partner {
	wrapped := func(text string) string {
		b, _ := json.Marshal(object{"body": text}) // a string
		return string(b)
	}
	return partner{
		id: "akto.scan", summary: "The policies of Akto allow the text as it is.", needs: []string{"apiToken", "apiUrl"},
		url:     "{apiUrl}/api/http-proxy",
		headers: map[string]string{"Authorization": "{apiToken}"},
		params:  []guardrail.Param{param("path", guardrail.String, `"/v1/chat/completions"`, "Path by which Akto finds its policies.")},
		prepare: func(_ context.Context, _ Services, c *call, o *outgoing) error {
			o.url += "?" + c.side("guardrails", "response_guardrails") + "=true&akto_connector=modelgate"
			return nil
		},
		body: func(c *call) any {
			o := object{
				"path": c.p.String("path"), "method": "POST", "requestHeaders": "{}", "responseHeaders": "{}", "requestPayload": wrapped(""),
				"responsePayload": wrapped(""),
				"ip":              "127.0.0.1", "time": fmt.Sprint(time.Now().UnixMilli()), "statusCode": "200", "status": "200", "akto_vxlan_id": "0",
				"is_pending": "false",
				"source":     "MIRRORING", "tag": `{"gen-ai":"Gen AI"}`, "contextSource": "AGENTIC",
			}
			o[c.side("requestPayload", "responsePayload")] = wrapped(c.text)
			return o
		},
		read: func(_ *call, response document) (reading, error) {
			const result = "data.guardrailsResult."
			allowed, err := response.boolean(result + "Allowed")
			note, _ := response.text(result + "Reason")
			modified, _ := response.boolean(result + "Modified")
			return reading{flagged: !allowed || modified, note: note}, err
		},
	}
}

// cato checks by the AI firewall of Cato Networks, formerly Aim.
// https://docs.litellm.ai/docs/proxy/guardrails/aim_security
func cato() partner {
	return partner{
		id: "cato.analyze", summary: "The firewall of Cato requires neither to block nor to anonymise the text.", needs: []string{"apiKey"},
		optional: []string{"apiUrl"},
		url:      "{apiUrl}/fw/v1/analyze", fallbacks: map[string]string{"apiUrl": "https://api.aisec.catonetworks.com"}, headers: bearer,
		body: func(c *call) any { return object{"messages": c.messages()} },
		read: func(_ *call, response document) (reading, error) {
			if _, err := response.object("analysis_result"); err != nil {
				return reading{}, err
			}
			action, _ := response.text("required_action.action_type")
			note, _ := response.text("required_action.detection_message")
			switch {
			case action == "block_action", action == "anonymize_action":
				return reading{flagged: true, note: note}, nil
			case action == "monitor_action", response.at("required_action").value == nil:
				return reading{note: note}, nil
			}
			return reading{}, errors.New("requires an unknown action")
		},
	}
}

// zscaler checks by the detection API of AI Guard. Without a policy, the API finds the
// one of the key. A policy that it does not find is a response without an action.
// https://help.zscaler.com/ai-guard
func zscaler() partner {
	return partner{
		id: "zscaler.guard", summary: "The policy of Zscaler AI Guard does not block the text.", needs: []string{"apiKey"},
		optional: []string{"apiUrl"},
		url:      "{apiUrl}/v1/detection/", fallbacks: map[string]string{"apiUrl": "https://api.zseclipse.net"}, headers: bearer,
		timeout: 10 * time.Second,
		params: []guardrail.Param{{Name: "policyId", Type: guardrail.Integer, Min: 1, Max: 1 << 53,
			Doc: "Policy to apply; by default that of the key."}},
		prepare: func(_ context.Context, _ Services, c *call, o *outgoing) error {
			if o.url += "resolve-and-execute-policy"; c.p.Has("policyId") {
				o.url = strings.Replace(o.url, "resolve-and-execute-policy", "execute-policy", 1)
			}
			return nil
		},
		body: func(c *call) any {
			o := object{"direction": c.side("IN", "OUT"), "content": c.text}
			if c.p.Has("policyId") {
				o["policyId"] = int64(c.p.Number("policyId"))
			}
			return o
		},
		read: func(_ *call, response document) (reading, error) {
			action, err := response.text("action")
			policy, _ := response.text("policyName")
			switch action {
			case "ALLOW", "DETECT":
				return reading{note: policy}, err
			case "BLOCK":
				return reading{flagged: true, note: policy}, err
			}
			if err == nil {
				err = errors.New("has an unknown action")
			}
			return reading{}, err
		},
	}
}
