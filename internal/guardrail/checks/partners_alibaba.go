package checks

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"modelgate/internal/guardrail"
)

// alibaba checks by the AI guardrails of Alibaba Cloud, which have the signature of its
// older APIs.
// https://www.alibabacloud.com/help/en/content-moderation/
func alibaba() partner {
	return partner{
		id: "alibaba.guard", summary: "Alibaba Cloud suggests to let the text pass.", needs: []string{"accessKeyId", "accessKeySecret"},
		optional: []string{"region"},
		url:      "https://green-cip.{region}.aliyuncs.com/", fallbacks: map[string]string{"region": "cn-shanghai"}, each: true, changes: true,
		params: []guardrail.Param{param("service", guardrail.String, "",
			"Service of the API; by default that of the standard edition for requests or responses."), redactParam},
		body: func(c *call) any { return object{"content": c.text} },
		prepare: func(_ context.Context, _ Services, c *call, o *outgoing) error {
			service := c.p.String("service")
			if service == "" {
				service = c.side("query_security_check", "response_security_check")
			}
			form := url.Values{
				"Action": {"MultiModalGuard"}, "Version": {"2022-03-02"}, "Format": {"JSON"}, "AccessKeyId": {c.credential("accessKeyId")},
				"SignatureMethod": {"HMAC-SHA1"}, "SignatureVersion": {"1.0"}, "SignatureNonce": {rand.Text()},
				"Timestamp": {time.Now().UTC().Format(time.RFC3339)},
				"Service":   {service}, "ServiceParameters": {string(o.body)},
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
