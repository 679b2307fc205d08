package checks

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"modelgate/internal/guardrail"
)

// furtherPartners returns the partners of whose formats the vendors publish less than
// of others: they were read from their own clients and examples.
func furtherPartners() []partner { return []partner{akto(), alibaba(), cato(), zscaler()} }

// akto checks by the endpoint of a guardrails service, whose token has no scheme.
// https://github.com/akto-api-security/aws-bedrock-agentcore
func akto() partner {
	wrapped := func(text string) string {
		b, _ := json.Marshal(object{"body": text}) // a string
		return string(b)
	}
	return partner{
		id: "akto.scan", summary: "The policies of Akto allow the text as it is.", needs: []string{"apiToken", "apiUrl"}, url: "{apiUrl}/api/http-proxy",
		headers: map[string]string{"Authorization": "{apiToken}"},
		params:  []guardrail.Param{param("path", guardrail.String, `"/v1/chat/completions"`, "Path by which Akto finds its policies.")},
		prepare: func(_ context.Context, _ Services, c *call, o *outgoing) error {
			o.url += "?" + c.side("guardrails", "response_guardrails") + "=true&akto_connector=modelgate"
			return nil
		},
		body: func(c *call) any {
			o := object{
				"path": c.p.String("path"), "method": "POST", "requestHeaders": "{}", "responseHeaders": "{}", "requestPayload": wrapped(""), "responsePayload": wrapped(""),
				"ip": "127.0.0.1", "time": fmt.Sprint(time.Now().UnixMilli()), "statusCode": "200", "status": "200", "akto_vxlan_id": "0", "is_pending": "false",
				"source": "MIRRORING", "tag": `{"gen-ai":"Gen AI"}`, "contextSource": "AGENTIC",
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

// alibaba checks by the AI guardrails of Alibaba Cloud, which have the signature of its
// older APIs.
// https://www.alibabacloud.com/help/en/content-moderation/
func alibaba() partner {
	return partner{
		id: "alibaba.guard", summary: "Alibaba Cloud suggests to let the text pass.", needs: []string{"accessKeyId", "accessKeySecret"}, optional: []string{"region"},
		url: "https://green-cip.{region}.aliyuncs.com/", fallbacks: map[string]string{"region": "cn-shanghai"}, each: true, changes: true,
		params: []guardrail.Param{param("service", guardrail.String, "", "Service of the API; by default that of the standard edition for requests or responses."), redactParam},
		body:   func(c *call) any { return object{"content": c.text} },
		prepare: func(_ context.Context, _ Services, c *call, o *outgoing) error {
			service := c.p.String("service")
			if service == "" {
				service = c.side("query_security_check", "response_security_check")
			}
			form := url.Values{
				"Action": {"MultiModalGuard"}, "Version": {"2022-03-02"}, "Format": {"JSON"}, "AccessKeyId": {c.credential("accessKeyId")},
				"SignatureMethod": {"HMAC-SHA1"}, "SignatureVersion": {"1.0"}, "SignatureNonce": {rand.Text()}, "Timestamp": {time.Now().UTC().Format(time.RFC3339)},
				"Service": {service}, "ServiceParameters": {string(o.body)},
			}
			form.Set("Signature", signForm("POST", form, c.credential("accessKeySecret")))
			o.body = []byte(form.Encode())
			o.header.Set("Content-Type", "application/x-www-form-urlencoded")
			return nil
		},
		read: readAlibaba,
	}
}

// signForm returns the signature of a request of Alibaba's APIs in RPC style.
// https://www.alibabacloud.com/help/en/sdk/product-overview/rpc-mechanism
func signForm(method string, form url.Values, key string) string {
	escape := func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
	h := hmac.New(sha1.New, []byte(key+"&"))
	h.Write([]byte(method + "&%2F&" + escape(strings.ReplaceAll(form.Encode(), "+", "%20"))))
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

func readAlibaba(c *call, response document) (reading, error) {
	code, err := response.number("Code")
	if err != nil {
		return reading{}, err
	}
	if guardrail.RefusesText(int(code)) {
		return reading{}, guardrail.NewIncomplete("has the code %.0f, so it has not read the text; send less text, or other text", code)
	}
	if code != 200 {
		return reading{}, fmt.Errorf("has the code %.0f", code)
	}
	suggestion, err := response.text("Data.Suggestion")
	switch {
	case err != nil:
		return reading{}, err
	case suggestion == "pass", suggestion == "watch":
		return reading{note: suggestion}, nil
	case suggestion == "mask" && c.p.Bool("redact"):
		if text, ok := maskedByAlibaba(response); ok {
			return reading{text: text, replaced: true}, nil
		}
	case suggestion != "block" && suggestion != "mask":
		return reading{}, errors.New("has an unknown suggestion")
	}
	return reading{flagged: true, note: suggestion}, nil
}

// maskedByAlibaba returns the text with masks in place of what is sensitive.
func maskedByAlibaba(response document) (string, bool) {
	details, _ := response.list("Data.Detail")
	for _, detail := range details {
		results, _ := document{detail}.list("Result")
		for _, result := range results {
			if text, err := (document{result}).text("Ext.Desensitization"); err == nil {
				return text, true
			}
		}
	}
	return "", false
}

// cato checks by the AI firewall of Cato Networks, formerly Aim.
// https://docs.litellm.ai/docs/proxy/guardrails/aim_security
func cato() partner {
	return partner{
		id: "cato.analyze", summary: "The firewall of Cato requires neither to block nor to anonymise the text.", needs: []string{"apiKey"}, optional: []string{"apiUrl"},
		url: "{apiUrl}/fw/v1/analyze", fallbacks: map[string]string{"apiUrl": "https://api.aisec.catonetworks.com"}, headers: bearer,
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
		id: "zscaler.guard", summary: "The policy of Zscaler AI Guard does not block the text.", needs: []string{"apiKey"}, optional: []string{"apiUrl"},
		url: "{apiUrl}/v1/detection/", fallbacks: map[string]string{"apiUrl": "https://api.zseclipse.net"}, headers: bearer, timeout: 10 * time.Second,
		params: []guardrail.Param{{Name: "policyId", Type: guardrail.Integer, Min: 1, Max: 1 << 53, Doc: "Policy to apply; by default that of the key."}},
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
