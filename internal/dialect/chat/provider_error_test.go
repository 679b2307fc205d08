package chat_test

import (
	"encoding/json"
	"strings"
	"testing"

	"modelgate/internal/dialect/chat"
)

func TestProvidersErrorObjectSurvivesByteForByte(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"plain", `{"error":{"message":"no","type":"t","param":null,"code":"c"}}`,
			`{"error":{"message":"no","type":"t","param":null,"code":"c","source":"provider"},"provider":"groq"}`},
		{"spaced", "{\n  \"error\": {\n    \"message\": \"no \\u00e9\",\n    \"code\": 1e0\n  }\n}\n",
			"{\n  \"error\": {\n    \"message\": \"no \\u00e9\",\n    \"code\": 1e0,\"source\":\"provider\"\n  },\"provider\":\"groq\"\n}\n"},
		{"other members", `{"type":"error","error":{},"request_id":"r"}`,
			`{"type":"error","error":{"source":"provider"},"request_id":"r","provider":"groq"}`},
		{"of Google's", `{"error":{"code":429,"message":"no","status":"RESOURCE_EXHAUSTED","details":[]}}`,
			`{"error":{"code":"RESOURCE_EXHAUSTED","message":"no","status":"RESOURCE_EXHAUSTED","details":[],"type":"invalid_request_error","param":null,"source":"provider"},"provider":"groq"}`},
		{"marks of its own", `{"provider":{"x":1},"error":{"source":"x","message":"no"}}`,
			`{"provider":"groq","error":{"source":"provider","message":"no"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(chat.Dialect{}.ProviderError([]byte("x"), []byte(tt.body), "groq", 400)); got != "x"+tt.want {
				t.Errorf("ProviderError = %s\nwant x%s", got, tt.want)
			}
		})
	}
}

func TestOtherErrorBodiesBecomeErrorObjects(t *testing.T) {
	const page = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n</body></html>"
	for _, tt := range []struct {
		name, body string
		status     int
		want       string // message, type and code of the error
	}{
		{"page", page, 502, "p answered 502: 502 Bad Gateway|upstream_error|<nil>"},
		{"text", "slow\x00 \n\tdown\x1b", 429, "p answered 429: slow down|rate_limit_error|<nil>"},
		{"long text", strings.Repeat("é", 5000), 500, "p answered 500: " + strings.Repeat("é", 4096) + "|upstream_error|<nil>"},
		{"text with a gap at its end", strings.Repeat("a", 4095) + "  bc", 500, "p answered 500: " + strings.Repeat("a", 4095) + "|upstream_error|<nil>"},
		{"empty", "", 503, "p answered 503 with an empty body|upstream_error|<nil>"},
		{"white space", " \n", 503, "p answered 503 with an empty body|upstream_error|<nil>"},
		{"not UTF-8", "\xff\xfea", 400, "p answered 400: a|invalid_request_error|<nil>"},
		{"error as string", `{"error":"Model not found"}`, 404, "p answered 404: Model not found|invalid_request_error|model_not_found"},
		{"error as string with a code", `{"code":"bad \"key\"","error":"no"}`, 401, `p answered 401: no|authentication_error|bad "key"`},
		{"error null", `{"error":null}`, 403, `p answered 403: {"error":null}|permission_error|<nil>`},
		{"message", `{"message":"quota","type":"q"}`, 400, "p answered 400: quota|q|<nil>"},
		{"message object", `{"object":"error","message":{"detail":[{"loc":["body"],"msg":"field required"}]}}`, 422, "p answered 422: body: field required|invalid_request_error|<nil>"},
		{"detail", `{"detail":"gone"}`, 404, "p answered 404: gone|invalid_request_error|<nil>"},
		{"detail list", `{"detail":[{"loc":["a"],"msg":"bad","type":"v"}]}`, 422, "p answered 422: a: bad|invalid_request_error|<nil>"},
		{"errors", `{"success":false,"errors":[{"code":7,"message":"off"}]}`, 400, "p answered 400: off|invalid_request_error|<nil>"},
		{"fault", `{"fault":{"faultstring":"late"}}`, 504, "p answered 504: late|upstream_error|<nil>"},
		{"array", `[{"error":{"code":400,"message":"API key not valid"}}]`, 400, "p answered 400: API key not valid|invalid_request_error|<nil>"},
		{"string", `"plain"`, 400, "p answered 400: plain|invalid_request_error|<nil>"},
		{"other JSON", `{"a":1}`, 400, `p answered 400: {"a":1}|invalid_request_error|<nil>`},
		{"key twice", `{"error":{"message":"x"},"error":{}}`, 400, `p answered 400: {"error":{"message":"x"},"error":{}}|invalid_request_error|<nil>`},
		{"cut", `{"error":{"mess`, 500, `p answered 500: {"error":{"mess|upstream_error|<nil>`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := chat.Dialect{}.ProviderError(nil, []byte(tt.body), "p", tt.status)
			var got struct {
				Error    map[string]any
				Provider string
			}
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("ProviderError = %s: %v", out, err)
			}
			word := func(name string) string {
				if s, ok := got.Error[name].(string); ok {
					return s
				}
				return "<nil>"
			}
			said := word("message") + "|" + word("type") + "|" + word("code")
			if said != tt.want || got.Error["source"] != "provider" || got.Provider != "p" || len(got.Error) != 5 {
				t.Errorf("ProviderError = %s\nwant %s", out, tt.want)
			}
		})
	}
}

func FuzzProviderError(f *testing.F) {
	f.Add([]byte(`{"error":{"message":"x"}}`))
	f.Add([]byte(`{"detail":[{"msg":"\ud800"}]}`))
	f.Add([]byte("<body <<p>\xff"))
	f.Fuzz(func(t *testing.T, body []byte) {
		if out := (chat.Dialect{}).ProviderError(nil, body, "p", 500); !json.Valid(out) {
			t.Fatalf("ProviderError(%q) = %s, which is not JSON", body, out)
		}
	})
}
