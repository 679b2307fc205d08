package conformance

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// TestErrorsOfLimitsHaveOneForm has a gateway with low limits.
func TestErrorsOfLimitsHaveOneForm(t *testing.T) {
	g := launchFor(t, "version: 1\nlimits: {json_body: 10 KB}\ntimeouts: {header: 300ms}\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	prove(t, "S-484", "a body that is too large", func(t *testing.T) {
		p := newProvider(t, nil)
		for _, r := range modelRoutes {
			body := strings.Replace(r.body, "{", `{"user":"`+strings.Repeat("u", 10<<10)+`",`, 1)
			g.do(t, "POST", r.path, body, to(p)...).refused(t, http.StatusRequestEntityTooLarge)
		}
		p.wantNoRequests(t)
	})
	prove(t, "S-484", "a provider that does not respond in time", func(t *testing.T) {
		p := newProvider(t, hang)
		for _, r := range []modelRoute{modelRoutes[0], chatStream, modelRoutes[2], {path: "/v1/things", body: `{}`}} {
			g.do(t, "POST", r.path, r.body, to(p)...).refused(t, http.StatusGatewayTimeout)
		}
	})
	prove(t, "S-484", "a key without the scope", func(t *testing.T) {
		out, errText, code := command(t, "keys", "create", "--data", g.data, "--name", "reader", "--scopes", "logs.list")
		if code != 0 {
			t.Fatalf("keys create: exit %d: %s", code, errText)
		}
		key := strings.TrimSpace(out)
		waittest.Until(t, "the key is known", func() bool {
			return g.do(t, "GET", "/v1/logs", "", "x-gateway-api-key", key).status != http.StatusUnauthorized
		})
		p := newProvider(t, nil)
		g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, append(to(p)[2:], "x-gateway-api-key", key)...).refused(t, http.StatusForbidden)
		p.wantNoRequests(t)
	})
}

func TestErrorsHaveOneForm(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, nil)
	dead, srv := startProvider(nil)
	srv.Close()
	chat := modelRoutes[0]
	groq := []string{"x-gateway-api-key", bootstrapKey, "x-gateway-provider", "groq", "x-gateway-custom-host", p.url, "Authorization", "Bearer " + credential}
	for _, tt := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
	}{
		{"no key", "POST", chat.path, chat.body, nil, 401},
		{"no provider", "POST", chat.path, chat.body, to(p)[:2], 400},
		{"a value out of range", "POST", chat.path, `{"model":"m","messages":[{"role":"user","content":"x"}],"n":0}`, to(p), 400},
		{"a method that is not offered", "PATCH", chat.path, chat.body, to(p), 405},
		{"a provider that is not there", "POST", chat.path, chat.body, to(dead), 502},
		{"a provider that is not there, on pass-through", "POST", "/v1/things", `{}`, to(dead), 502},
		{"a provider that answers with a page", "POST", chat.path, chat.body, to(newProvider(t, says(200, "text/html", "<html>hello</html>"))), 502},
		{"a provider that answers with half an object", "POST", chat.path, chat.body, to(newProvider(t, says(200, "application/json", `{"id":`))), 502},
		{"an unknown slug", "POST", chat.path, chat.body, managed("@nobody"), 404},
		{"an operation that the provider lacks", "POST", "/v1/images/generations", `{"prompt":"x"}`, groq, 501},
		{"an unknown log entry", "GET", "/v1/logs/00000000-0000-7000-8000-000000000000", "", to(p)[:2], 404},
		{"a malformed log id", "GET", "/v1/logs/x", "", to(p)[:2], 400},
		{"no such path", "GET", "/nothing", "", to(p), 404},
	} {
		prove(t, "S-484", tt.name, func(t *testing.T) {
			got := g.do(t, tt.method, tt.path, tt.body, tt.header...)
			got.refused(t, tt.status)
			for _, secret := range []string{bootstrapKey, credential, storedKey} {
				if strings.Contains(string(got.body), secret) {
					t.Errorf("the error repeats a credential: %s", got.body)
				}
			}
		})
	}
	for _, r := range modelRoutes {
		for name, tt := range map[string]struct{ body, contentType string }{
			"cut off":              {r.body[:len(r.body)-1], "application/json"},
			"not JSON":             {"hello", "application/json"},
			"an array":             {`[` + r.body + `]`, "application/json"},
			"two objects":          {r.body + r.body, "application/json"},
			"empty":                {" ", "application/json"},
			"a key twice":          {`{"model":"a",` + r.body[1:], "application/json"},
			"of type text/plain":   {r.body, "text/plain"},
			"of a form":            {r.body, "multipart/form-data; boundary=x"},
			"of a type url-coded":  {r.body, "application/x-www-form-urlencoded"},
			"with a trailing note": {r.body + "//", "application/json"},
		} {
			if name == "a key twice" && !strings.Contains(r.body, `"model"`) {
				continue
			}
			prove(t, "S-253 S-484", r.path+" a body that is "+name, func(t *testing.T) {
				p.forget()
				g.do(t, "POST", r.path, tt.body, to(p, "Content-Type", tt.contentType)...).refused(t, http.StatusBadRequest)
				p.wantNoRequests(t)
			})
		}
	}
	const talk = `"messages":[{"role":"user","content":"x"}]`
	for name, body := range map[string]string{
		"a comma too many":              `{"model":"m",` + talk + `,}`,
		"a number with a leading zero":  `{"model":"m",` + talk + `,"seed":01}`,
		"a number with a plus":          `{"model":"m",` + talk + `,"seed":+1}`,
		"a number that is none":         `{"model":"m",` + talk + `,"seed":NaN}`,
		"single quotes":                 `{'model':'m'}`,
		"a bare line break in a string": "{\"model\":\"m\n\"," + talk + "}",
		"an unknown escape":             `{"model":"\x",` + talk + `}`,
		"a comment":                     `{"model":"m",/* so */` + talk + `}`,
		"a nul byte":                    `{"model":"m",` + talk + "}\x00",
		"a key twice, once escaped":     `{"model":"m","mod\u0065l":"o",` + talk + `}`,
		"an endless nesting":            `{"model":"m",` + talk + `,"x":` + strings.Repeat("[", 1_000_000) + `}`,
		"a deep nesting":                `{"model":"m",` + talk + `,"x":` + strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000) + `}`,
		"an escaped name out of range":  `{"model":"m",` + talk + `,"\u006e":0}`,
	} {
		prove(t, "S-253", "a body with "+name+" is refused", func(t *testing.T) {
			p.forget()
			g.do(t, "POST", chat.path, body, to(p)...).refused(t, http.StatusBadRequest)
			p.wantNoRequests(t)
		})
	}
	prove(t, "S-253 S-258", "an escaped name is the name", func(t *testing.T) {
		p.forget()
		body := `{"mod\u0065l":"m",` + talk + `}`
		g.do(t, "POST", chat.path, body, to(p)...).wantOK(t)
		if in := p.only(t); string(in.body) != body {
			t.Errorf("the provider got %s, want %s", in.body, body)
		}
	})
	prove(t, "S-253", "the message says where the JSON is wrong", func(t *testing.T) {
		e := g.do(t, "POST", chat.path, "{\"model\":\"m\",\n \"messages\": [}", to(p)...).refused(t, http.StatusBadRequest)
		if message := e["message"].(string); !regexp.MustCompile(`\d`).MatchString(message) {
			t.Errorf("message = %q, want one with a position", message)
		}
	})
	prove(t, "S-253", "charset and capitals of the content type do not matter", func(t *testing.T) {
		for _, ct := range []string{"application/json; charset=utf-8", "Application/JSON", "application/vnd.x+json"} {
			g.do(t, "POST", chat.path, chat.body, to(p, "Content-Type", ct)...).wantOK(t)
		}
	})
}
