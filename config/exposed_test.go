package config_test

import (
	"strings"
	"testing"

	"modelgate/config"
)

func TestCredentialsInShownObjectsAreRefusedByPath(t *testing.T) {
	for _, tt := range []struct{ text, path string }{
		{`{"api_key":"sk-1"}`, "x.api_key"},
		{`[{"id":"default.webhook","parameters":{"headers":{"X-Any":"v"}}}]`, "x[0].parameters.headers.X-Any"},
		{`{"credentials":{"apiKey":"a","region":"eu"}}`, "x.credentials.apiKey"},
		{`{"tools":[{"type":"mcp","authorization":"Bearer abc"}]}`, "x.tools[0].authorization"},
		{`{"password":"***"}`, "x.password"},
		{`{"authorization":"Bearer abc{{x}}"}`, "x.authorization"},
		{`{"authorization":"{{x}} abc"}`, "x.authorization"},
		{`{"authorization":"Bearer"}`, "x.authorization"},
		{`{"a":1,"a":2,"api_key":"sk-1"}`, "x"},
	} {
		err := config.CheckExposed("x", []byte(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.path) && tt.path != "x" || strings.Contains(err.Error(), "sk-1") {
			t.Errorf("CheckExposed(%s) = %v, want an error at %s without the value", tt.text, err, tt.path)
		}
	}
	for _, text := range []string{
		``, `null`, `Hello {{name}}`, `{{#a}}{"api_key":"x"}`, `[{"role":"user","content":"my password is x"}]`, `{"max_tokens":5,"stop_token":"x","api_key":""}`,
		`{"authorization":"Bearer {{token}}","api_key":"{{ key }}"}`, `{"type":"function","function":{"parameters":{"properties":{"api_key":{"type":"string"}}}}}`,
	} {
		if err := config.CheckExposed("x", []byte(text)); err != nil {
			t.Errorf("CheckExposed(%s) = %v", text, err)
		}
		if got := string(config.MaskExposed([]byte(text))); got != text {
			t.Errorf("MaskExposed(%s) = %s", text, got)
		}
	}
	const stored, want = `{"a": 1, "headers": {"X": "secret", "Y": "{{y}}"}}`, `{"a": 1, "headers": {"X": "***", "Y": "{{y}}"}}`
	if got := string(config.MaskExposed([]byte(stored))); got != want {
		t.Errorf("MaskExposed = %s, want %s", got, want)
	}
}
