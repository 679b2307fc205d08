package conformance

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestEveryRequestIsRecorded(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, nil)
	broken := newProvider(t, says(503, "text/plain", "down"))
	dead, srv := startProvider(nil)
	srv.Close()
	for _, tt := range []struct {
		name, method, target, body string
		header                     []string
		status                     float64
		source                     string
	}{
		{"a pass-through call", "DELETE", "/v1/things/1?a=1", "", to(p), 200, ""},
		{"a chat completion", "POST", modelRoutes[0].path, modelRoutes[0].body, to(p), 200, ""},
		{"a provider's error", "GET", "/v1/things/2", "", to(broken), 503, "provider"},
		{"a refused body", "POST", modelRoutes[0].path, `{}`, to(p), 400, "gateway"},
		{"a refused method", "PATCH", "/v1/things/3", "", to(p), 405, "gateway"},
		{"a request without a key", "POST", "/v1/things/4", "", to(p)[2:], 401, "gateway"},
		{"a provider that is not there", "POST", modelRoutes[0].path, modelRoutes[0].body, to(dead), 502, "gateway"},
		{"a refused host", "GET", "/v1/things/5", "", to(&provider{url: "http://10.0.0.1"}), 400, "gateway"},
	} {
		prove(t, "S-022", tt.name, func(t *testing.T) {
			got := g.do(t, tt.method, tt.target, tt.body, tt.header...)
			if float64(got.status) != tt.status {
				t.Fatalf("status %d, want %v: %.200s", got.status, tt.status, got.body)
			}
			path, _, _ := strings.Cut(tt.target, "?")
			e := g.entry(t, got)
			if e["method"] != tt.method || e["path"] != path || fmt.Sprint(e["status"]) != fmt.Sprint(tt.status) {
				t.Errorf("recorded %v %v %v, want %s %s %v", e["method"], e["path"], e["status"], tt.method, path, tt.status)
			}
			source, _ := at(e, "error", "source").(string)
			if source != tt.source {
				t.Errorf("recorded error %v, want one of source %q", e["error"], tt.source)
			}
		})
	}
	prove(t, "S-022", "tokens, times and bytes are in the entry", func(t *testing.T) {
		got := g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p)...).fine(t)
		e := g.entry(t, got)
		if fmt.Sprint(at(e, "usage", "total_tokens")) != "9" || e["provider"] != "openai-compatible" || e["model"] != "m-1" ||
			fmt.Sprint(e["request_bytes"]) != strconv.Itoa(len(modelRoutes[0].body)) || fmt.Sprint(e["response_bytes"]) != strconv.Itoa(len(got.body)) {
			t.Errorf("entry = %v", e)
		}
	})
	prove(t, "S-043", "the log is listed", func(t *testing.T) {
		list := g.do(t, "GET", "/v1/logs?limit=2", "", "x-gateway-api-key", bootstrapKey).fine(t).object(t)
		if data, _ := list["data"].([]any); len(data) != 2 || list["object"] != "list" || list["has_more"] != true {
			t.Errorf("log = %.300v, want a list of two with more behind", list)
		}
	})
}

var requestsTotal = regexp.MustCompile(`(?m)^modelgate_requests_total\{[^}]*\} (\S+)$`)

// counted returns how many requests the metrics have seen.
func (g *gateway) counted(t *testing.T, label string) float64 {
	t.Helper()
	res, err := client.Get(g.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET /metrics: status %d, %v", res.StatusCode, err)
	}
	sum := 0.0
	for _, m := range requestsTotal.FindAllStringSubmatch(string(text), -1) {
		if n, err := strconv.ParseFloat(m[1], 64); err == nil && strings.Contains(m[0], label) {
			sum += n
		}
	}
	return sum
}

func TestEveryRequestIsCounted(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, nil)
	broken := newProvider(t, says(503, "text/plain", "down"))
	for _, tt := range []struct {
		name   string
		call   func(t *testing.T) reply
		status string
	}{
		{"a pass-through call", func(t *testing.T) reply { return g.do(t, "GET", "/v1/things", "", to(p)...) }, "200"},
		{"a chat completion", func(t *testing.T) reply { return g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p)...) }, "200"},
		{"a provider's error", func(t *testing.T) reply { return g.do(t, "GET", "/v1/things", "", to(broken)...) }, "503"},
		{"a refusal", func(t *testing.T) reply { return g.do(t, "POST", modelRoutes[0].path, `{}`, to(p)...) }, "400"},
		{"a request without a key", func(t *testing.T) reply { return g.do(t, "GET", "/v1/things", "") }, "401"},
	} {
		prove(t, "S-023", tt.name, func(t *testing.T) {
			label := `status="` + tt.status + `"`
			settled, rests := -1.0, 0
			eventually(t, "the metrics rest", func() bool {
				if now := g.counted(t, ""); now != settled {
					settled, rests = now, 0
				}
				rests++
				return rests == 5
			})
			before := g.counted(t, label)
			tt.call(t)
			eventually(t, "the count of "+label+" has risen by one", func() bool { return g.counted(t, label) == before+1 })
			if n := g.counted(t, ""); n != settled+1 {
				t.Errorf("all counts = %v, want %v", n, settled+1)
			}
		})
	}
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
				p.none(t)
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
			p.none(t)
		})
	}
	prove(t, "S-253 S-258", "an escaped name is the name", func(t *testing.T) {
		p.forget()
		body := `{"mod\u0065l":"m",` + talk + `}`
		g.do(t, "POST", chat.path, body, to(p)...).fine(t)
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
			g.do(t, "POST", chat.path, chat.body, to(p, "Content-Type", ct)...).fine(t)
		}
	})
}

func TestNothingIsSentUnasked(t *testing.T) {
	g, _ := start(t)
	prove(t, "S-471", "there is no route for webhooks", func(t *testing.T) {
		for _, path := range []string{"/webhooks", "/webhook", "/events", "/hooks"} {
			if got := g.do(t, "POST", path, `{}`, "x-gateway-api-key", bootstrapKey); got.status != http.StatusNotFound {
				t.Errorf("POST %s = %d, want 404", path, got.status)
			}
		}
	})
	prove(t, "S-471 S-516", "two hundred requests make two hundred calls and meet no quota", func(t *testing.T) {
		p := newProvider(t, nil)
		for i := range 200 {
			r := modelRoutes[i%len(modelRoutes)]
			if got := g.do(t, "POST", r.path, r.body, to(p)...); got.status != http.StatusOK {
				t.Fatalf("request %d: status %d, want 200", i, got.status)
			}
		}
		g.entry(t, g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p)...))
		if n := len(p.requests()); n != 201 {
			t.Errorf("the provider was called %d times, want 201", n)
		}
	})
}

func TestBodiesHaveALimit(t *testing.T) {
	g := launchFor(t, "version: 1\nlimits: {json_body: 4 KB, upload_body: 16 KB}\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	p := newProvider(t, nil)
	chat := func(size int) string {
		const frame = `{"model":"m","messages":[{"role":"user","content":""}]}`
		return strings.Replace(frame, `""`, `"`+strings.Repeat("x", size-len(frame))+`"`, 1)
	}
	for _, tt := range []struct {
		name, path, contentType string
		body                    string
		fits                    bool
	}{
		{"JSON of 4096 bytes", "/v1/chat/completions", "application/json", chat(4096), true},
		{"JSON of 4097 bytes", "/v1/chat/completions", "application/json", chat(4097), false},
		{"an upload of 16384 bytes", "/v1/files", "application/octet-stream", strings.Repeat("x", 16384), true},
		{"an upload of 16385 bytes", "/v1/files", "application/octet-stream", strings.Repeat("x", 16385), false},
	} {
		for _, how := range []string{"announced", "in chunks"} {
			prove(t, "S-517", tt.name+" "+how, func(t *testing.T) {
				p.forget()
				req := g.request(t, "POST", tt.path, strings.NewReader(tt.body), to(p, "Content-Type", tt.contentType)...)
				if how == "in chunks" {
					req.ContentLength, req.Body = -1, io.NopCloser(strings.NewReader(tt.body))
				}
				got := send(t, req)
				if tt.fits {
					got.fine(t)
					if n := len(p.only(t).body); n != len(tt.body) {
						t.Errorf("the provider got %d bytes, want %d", n, len(tt.body))
					}
					return
				}
				got.refused(t, http.StatusRequestEntityTooLarge)
				p.none(t)
			})
		}
	}
	prove(t, "S-517", "one that lies about its length reaches nobody", func(t *testing.T) {
		p.forget()
		req := g.request(t, "POST", "/v1/chat/completions", strings.NewReader(chat(200)), to(p, "Content-Type", "application/json")...)
		req.ContentLength = 300
		res, err := client.Do(req)
		if err == nil {
			res.Body.Close()
			if res.StatusCode < 400 {
				t.Errorf("status %d, want a refusal", res.StatusCode)
			}
		}
		p.none(t)
	})
}

func TestCommands(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		code int
	}{
		{"an unknown command", []string{"frobnicate"}, 2},
		{"an unknown flag", []string{"serve", "--colour", "red"}, 2},
		{"no command", nil, 2},
		{"help", []string{"help"}, 0},
		{"a settings file that is not there", []string{"serve", "--config", "absent.yaml", "--data", scratch + "/none"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, errText, code := command(t, tt.args...)
			if code != tt.code {
				t.Errorf("modelgate %v: exit %d, want %d: %s%s", tt.args, code, tt.code, out, errText)
			}
			if code == 1 && strings.Count(strings.TrimSpace(errText), "\n") != 0 {
				t.Errorf("modelgate %v said %q, want one line", tt.args, errText)
			}
		})
	}
	t.Run("a port that is taken", func(t *testing.T) {
		g, _ := start(t)
		taken := strings.TrimPrefix(g.root, "http://")
		_, errText, code := command(t, "serve", "--data", t.TempDir(), "--listen", taken, "--admin-listen", "off")
		if code != 1 || !strings.Contains(errText, taken) || strings.Count(strings.TrimSpace(errText), "\n") != 0 {
			t.Errorf("exit %d, said %q, want 1 and one line that names the address", code, errText)
		}
	})
	t.Run("the version", func(t *testing.T) {
		out, _, code := command(t, "version")
		if code != 0 || !strings.HasPrefix(out, "modelgate ") {
			t.Errorf("exit %d, said %q", code, out)
		}
	})
}
