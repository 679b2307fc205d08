package security

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf16"
)

// spelling is one way to ask for the model bad.
type spelling struct {
	name, method, target, kind, body string
	header                           []string // next to those of the provider
}

// listed returns a gateway with a managed provider @some that allows the model
// good, and a key for it.
func listed(t *testing.T, upstream string, provider string) (g *gateway, key string) {
	t.Helper()
	g = launch(t, options{})
	g.create(t, rootKey, "/v1/integrations", fmt.Sprintf(`{"name":"n","slug":"some","ai_provider_id":%q,"key":%q,"configurations":{"custom_host":%q}}`, provider, storedKey, upstream), "id")
	g.as(t, rootKey, "PUT", "/v1/integrations/some/models", `{"allow_all_models":false,"models":[{"slug":"good","enabled":true},{"slug":"off","enabled":false}]}`).ok(t)
	return g, g.key(t, rootKey, "default", []string{"completions.write"}, "")
}

func chatOf(more string) string {
	return `{"messages":[{"role":"user","content":"hello"}],` + more + `}`
}

// inUTF16 returns text in UTF-16 with a byte order mark.
func inUTF16(text string, order binary.ByteOrder) string {
	var b bytes.Buffer
	for _, u := range append([]uint16{0xfeff}, utf16.Encode([]rune(text))...) {
		binary.Write(&b, order, u)
	}
	return b.String()
}

func zipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, text)
	z.Close()
	return b.String()
}

const formKind = "multipart/form-data; boundary=x"

// field is a field of a form with the boundary x.
func field(name, value string) string {
	return "--x\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n"
}

func spellings() []spelling {
	const chat, other, audio = "/v1/chat/completions", "/v1/other", "/v1/audio/transcriptions"
	const json = "application/json"
	bad := `{"model":"bad"}`
	config := func(c string) []string { return []string{"x-gateway-provider", "", "x-gateway-config", c} }
	list := []spelling{
		{"the model itself", "POST", chat, json, chatOf(`"model":"bad"`), nil},
		{"in capitals", "POST", chat, json, chatOf(`"model":"GOOD"`), nil},
		{"with a space", "POST", chat, json, chatOf(`"model":"good "`), nil},
		{"with a variant", "POST", chat, json, chatOf(`"model":"good:online"`), nil},
		{"name in capitals", "POST", chat, json, chatOf(`"model":"good","Model":"bad"`), nil},
		{"name in other capitals", "POST", chat, json, chatOf(`"model":"good","MODEL":"bad"`), nil},
		{"name in capitals first", "POST", chat, json, chatOf(`"mOdel":"bad","model":"good"`), nil},
		{"twice", "POST", chat, json, chatOf(`"model":"good","model":"bad"`), nil},
		{"twice, escaped", "POST", chat, json, chatOf(`"model":"good","mod\u0065l":"bad"`), nil},
		{"escaped", "POST", chat, json, chatOf(`"mod\u0065l":"bad"`), nil},
		{"list of fallbacks", "POST", chat, json, chatOf(`"model":"good","models":["good","bad"]`), nil},
		{"list of fallbacks with a long s", "POST", chat, json, chatOf(`"model":"good","model\u017f":["bad"]`), nil},
		{"list of objects", "POST", chat, json, chatOf(`"model":"good","fallbacks":[{"model":"bad"}]`), nil},
		{"list of objects without a model", "POST", chat, json, chatOf(`"model":"good","fallbacks":[{"good":["bad"]}]`), nil},
		{"default fallbacks", "POST", chat, json, chatOf(`"model":"good","fallbacks":"default"`), nil},
		{"fallback_models", "POST", chat, json, chatOf(`"model":"good","fallback_models":["bad"]`), nil},
		{"model of a tool", "POST", chat, json, chatOf(`"model":"good","tools":[{"type":"function","function":{"name":"f"},"model":"bad"}]`), nil},
		{"model of a plugin", "POST", chat, json, chatOf(`"model":"good","plugins":[{"id":"p","model":"bad"}]`), nil},
		{"preset", "POST", chat, json, chatOf(`"model":"good","preset":"bad"`), nil},
		{"extra_body", "POST", chat, json, chatOf(`"model":"good","extra_body":{"model":"bad"}`), nil},
		{"model_id", "POST", chat, json, chatOf(`"model":"good","model_id":"bad"`), nil},
		{"modelId", "POST", chat, json, chatOf(`"model":"good","modelId":"bad"`), nil},
		{"engine", "POST", chat, json, chatOf(`"model":"good","engine":"bad"`), nil},
		{"deployment_id", "POST", chat, json, chatOf(`"model":"good","deployment_id":"bad"`), nil},
		{"with a control character", "POST", chat, json, chatOf(`"model":"good","model\u0000":"bad"`), nil},
		{"in the query", "POST", chat + "?model=bad", json, chatOf(`"model":"good"`), nil},
		{"twice in the query", "POST", chat + "?model=good&model=bad", json, chatOf(`"model":"good"`), nil},
		{"tool of responses", "POST", "/v1/responses", json, `{"model":"good","input":"hi","tools":[{"type":"image_generation","model":"bad"}]}`, nil},
		{"prompt of responses without a model", "POST", "/v1/responses", json, `{"prompt":{"id":"p"},"input":"hi"}`, nil},
		{"messages, advisor tool", "POST", "/v1/messages", json, `{"model":"good","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"advisor_20260301","name":"advisor","model":"bad"}]}`, nil},
		{"moderation without a model", "POST", "/v1/moderations", json, `{"input":"hi"}`, nil},

		{"passed through", "POST", other, json, bad, nil},
		{"passed through, capitals", "POST", other, json, `{"model":"good","Model":"bad"}`, nil},
		{"passed through, capitals alone", "POST", other, json, `{"Model":"bad"}`, nil},
		{"passed through, twice", "POST", other, json, `{"model":"good","model":"bad"}`, nil},
		{"passed through, no type", "POST", other, "", bad, nil},
		{"passed through, text", "POST", other, "text/plain", bad, nil},
		{"passed through, +json", "POST", other, "application/vnd.api+json", bad, nil},
		{"passed through, unreadable type", "POST", other, ";;", bad, nil},
		{"passed through, audio type", "POST", other, "audio/wav", bad, nil},
		{"passed through, octets", "POST", other, "application/octet-stream", bad, nil},
		{"passed through, JSON as a form", "POST", other, "application/x-www-form-urlencoded", bad, nil},
		{"passed through, JSON as multipart", "POST", other, formKind, bad, nil},
		{"passed through, after spaces", "POST", other, "text/plain", " \r\n\t" + bad, nil},
		{"passed through, byte order mark", "POST", other, json, "\ufeff" + bad, nil},
		{"passed through, UTF-16 LE", "POST", other, json, inUTF16(bad, binary.LittleEndian), nil},
		{"passed through, UTF-16 BE", "POST", other, "text/plain; charset=utf-16", inUTF16(bad, binary.BigEndian), nil},
		{"passed through, trailing comma", "POST", other, json, `{"model":"bad",}`, nil},
		{"passed through, comments", "POST", other, json, `/* x */{"model":"bad"}`, nil},
		{"passed through, single quotes", "POST", other, json, `{'model':'bad'}`, nil},
		{"passed through, YAML", "POST", other, "application/yaml", "model: bad\n", nil},
		{"passed through, protocol buffers", "POST", other, "application/x-protobuf", "\x0a\x03bad", nil},
		{"passed through, an array", "POST", other, json, `[{"model":"bad"}]`, nil},
		{"passed through, object", "POST", other, json, `{"model":{"id":"bad"}}`, nil},
		{"passed through, number", "POST", other, json, `{"model":7}`, nil},
		{"passed through, none", "POST", other, json, `{"assistant_id":"asst_1"}`, nil},
		{"passed through, no body", "POST", other, "", "", nil},
		{"passed through, PUT", "PUT", other, json, bad, nil},
		{"passed through, version", "POST", "/v1/predictions", json, `{"model":"good","version":"bad"}`, nil},
		{"passed through, gzip", "POST", other, json, zipped(bad), []string{"Content-Encoding", "gzip"}},
		{"passed through, said to be gzip", "POST", other, json, bad, []string{"Content-Encoding", "gzip"}},
		{"passed through, 2 MB", "POST", other, json, `{"x":"` + strings.Repeat("x", 2<<20) + `","model":"bad"}`, nil},
		{"passed through, nested deep", "POST", other, json, strings.Repeat(`{"x":`, 30) + bad + strings.Repeat("}", 30), nil},
		{"passed through, session", "POST", "/v1/realtime/sessions", json, `{"session":{"model":"bad"}}`, nil},
		{"passed through, transcription of a session", "POST", "/v1/realtime/sessions", json, `{"model":"good","input_audio_transcription":{"model":"bad"}}`, nil},
		{"passed through, batch of a file", "POST", "/v1/batches", json, `{"model":"good","input_file_id":"file-1","endpoint":"/v1/chat/completions"}`, nil},
		{"passed through, batch of several files", "POST", "/v1/batch/jobs", json, `{"model":"good","input_files":["file-1"],"endpoint":"/v1/chat/completions"}`, nil},
		{"passed through, batch of a blob", "POST", "/v1/batches?model=good", json, `{"input_blob":"https://blobs.example/in.jsonl","endpoint":"/v1/chat/completions"}`, nil},
		{"passed through, agent", "POST", "/v1/agents/completions?model=good", json, `{"agent_id":"ag_1"}`, nil},
		{"passed through, conversation of an agent", "POST", "/v1/conversations", json, `{"agent_id":"ag_1","inputs":"x"}`, nil},
		{"passed through, tool that the provider runs", "POST", other, json, `{"model":"good","tools":[{"type":"openrouter:image_generation","parameters":{"model":"bad"}}]}`, nil},
		{"passed through, run", "POST", "/v1/threads/t/runs", json, `{"assistant_id":"asst_1"}`, nil},
		{"passed through, query", "GET", "/v1/realtime?model=bad", "", "", nil},
		{"passed through, query in capitals", "GET", "/v1/realtime?MODEL=bad", "", "", nil},
		{"passed through, query with semicolons", "GET", "/v1/realtime?x=1;model=bad", "", "", nil},
		{"passed through, query with an encoded name", "GET", "/v1/realtime?mod%65l=bad", "", "", nil},
		{"passed through, query as a list", "GET", "/v1/realtime?model[]=bad", "", "", nil},
		{"passed through, query and body", "POST", other + "?model=bad", json, `{"model":"good"}`, nil},
		{"passed through, path of a deployment", "POST", "/v1/openai/deployments/bad/chat/completions", json, `{"model":"good"}`, nil},
		{"passed through, path of a model", "POST", "/v1/models/bad:predict", json, `{"model":"good"}`, nil},
		{"passed through, encoded path of a model", "POST", "/v1/models/b%61d:predict", json, `{"model":"good"}`, nil},
		{"passed through, path of an engine", "POST", "/v1/engines/bad/completions", json, `{"model":"good"}`, nil},
		{"passed through, path of a publisher", "POST", "/v1/projects/p/locations/l/publishers/google/models/bad:rawPredict", json, `{"model":"good"}`, nil},
		{"passed through, trailing slash", "POST", other + "/", json, chatOf(`"model":"bad"`), nil},
		{"passed through, header", "POST", other, json, `{"model":"good"}`, []string{"azureml-model-deployment", "bad"}},
		{"passed through, urlencoded", "POST", other, "application/x-www-form-urlencoded", "model=good&model=bad", nil},
		{"passed through, urlencoded in capitals", "POST", other, "application/x-www-form-urlencoded", "Model=bad", nil},

		{"form", "POST", audio, formKind, field("model", "bad") + field("file", "f") + "--x--", nil},
		{"form, twice", "POST", audio, formKind, field("model", "good") + field("model", "bad") + "--x--", nil},
		{"form, capitals", "POST", audio, formKind, field("model", "good") + field("Model", "bad") + "--x--", nil},
		{"form, list", "POST", audio, formKind, field("model", "good") + field("model[]", "bad") + "--x--", nil},
		{"form, decoy before the first boundary", "POST", audio, formKind, "Content-Disposition: form-data; name=\"model\"\r\n\r\ngood\r\n" + field("model", "bad") + "--x--", nil},
		{"form, decoy in a field", "POST", audio, formKind, field("prompt", "name=\"model\"\r\n\r\ngood\r\n") + field("model", "bad") + "--x--", nil},
		{"form, decoy in a file", "POST", audio, formKind, "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"name=\"\r\n\r\nname=\"model\"\r\n\r\ngood\r\n" + field("model", "bad") + "--x--", nil},
		{"form, quoted boundary", "POST", audio, `multipart/form-data; boundary="x"`, field("model", "bad") + "--x--", nil},
		{"form, two boundaries", "POST", audio, `multipart/form-data; boundary=y; boundary=x`, field("model", "bad") + "--x--", nil},
		{"form, extended boundary", "POST", audio, `multipart/form-data; boundary*=utf-8''x`, field("model", "bad") + "--x--", nil},
		{"form, a filename", "POST", audio, formKind, "--x\r\nContent-Disposition: form-data; name=\"model\"; filename=\"m\"\r\n\r\nbad\r\n--x--", nil},
		{"form, two names", "POST", audio, formKind, field(`prompt"; name="model`, "bad") + field("model", "good") + "--x--", nil},
		{"form, base64", "POST", audio, formKind, "--x\r\nContent-Disposition: form-data; name=\"model\"\r\nContent-Transfer-Encoding: base64\r\n\r\ngood\r\n--x--", nil},
		{"form, line feeds", "POST", audio, formKind, "--x\nContent-Disposition: form-data; name=\"model\"\n\nbad\n--x--", nil},
		{"form, part after the end", "POST", audio, formKind, field("model", "good") + "--x--\r\n" + field("model", "bad") + "--x--", nil},
		{"form, JSON in a field", "POST", audio, formKind, field("model", "good") + field("config", `{"model":"bad"}`) + "--x--", nil},
		{"form, late", "POST", audio, formKind, field("file", strings.Repeat("f", 8000)) + field("model", "bad") + "--x--", nil},
		{"form, none", "POST", audio, formKind, field("file", "f") + "--x--", nil},
		{"form, compressed", "POST", audio, formKind, zipped(field("model", "bad") + "--x--"), []string{"Content-Encoding", "gzip"}},
		{"form passed through", "POST", "/v1/files", formKind, field("model", "bad") + "--x--", nil},
		{"form passed through, related", "POST", other, "multipart/related; boundary=x", "--x\r\nContent-Type: application/json\r\n\r\n" + bad + "\r\n--x--", nil},

		{"override to another", "POST", chat, json, chatOf(`"model":"good"`), config(`{"provider":"@some","override_params":{"model":"bad"}}`)},
		{"override in capitals", "POST", chat, json, chatOf(`"model":"good"`), config(`{"provider":"@some","override_params":{"Model":"bad"}}`)},
		{"override of fallbacks", "POST", chat, json, chatOf(`"model":"good"`), config(`{"provider":"@some","override_params":{"models":["bad"]}}`)},
		{"override that is not a string", "POST", chat, json, chatOf(`"model":"good"`), config(`{"provider":"@some","override_params":{"model":{"id":"bad"}}}`)},
		{"default in capitals", "POST", chat, json, chatOf(`"model":"good"`), config(`{"provider":"@some","default_params":{"MODEL":"bad"}}`)},
		{"override hides the model of a form", "POST", audio, formKind, field("model", "bad") + "--x--", config(`{"provider":"@some","override_params":{"model":"good"}}`)},
		{"override hides the model of a body that passes", "POST", other, "application/x-www-form-urlencoded", "model=bad", config(`{"provider":"@some","override_params":{"model":"good"}}`)},
		{"override hides a compressed body", "POST", other, json, zipped(bad), append(config(`{"provider":"@some","override_params":{"model":"good"}}`), "Content-Encoding", "gzip")},
		{"drop of the model", "POST", other, json, `{"model":"good"}`, config(`{"provider":"@some","drop_params":["model"]}`)},
		{"provider in the model", "POST", chat, json, chatOf(`"model":"@some/bad"`), []string{"x-gateway-provider", ""}},
		{"virtual key", "POST", chat, json, chatOf(`"model":"bad"`), []string{"x-gateway-provider", "", "x-gateway-virtual-key", "some"}},
		{"fallback tree", "POST", chat, json, chatOf(`"model":"good","models":["bad"]`), config(`{"strategy":{"mode":"fallback"},"targets":[{"provider":"@some"},{"provider":"@some"}]}`)},
	}
	return list
}

// spelled sends a request to the managed provider @some, if it names no other.
func (g *gateway) spelled(t *testing.T, key string, s spelling) response {
	t.Helper()
	header := []string{"x-gateway-api-key", key}
	if len(s.header) < 2 || s.header[0] != "x-gateway-provider" {
		header = append(header, "x-gateway-provider", "@some")
	}
	for i := 0; i < len(s.header); i += 2 {
		if s.header[i+1] != "" {
			header = append(header, s.header[i:i+2]...)
		}
	}
	if s.kind != "" || s.body != "" {
		header = append(header, "Content-Type", s.kind)
	}
	return g.do(t, s.method, s.target, s.body, header...)
}

func TestModelsThatAreNotAllowedReachNoProvider(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	g, key := listed(t, p.url, "openai-compatible")
	send := func(t *testing.T, s spelling) response { return g.spelled(t, key, s) }
	for _, s := range spellings() {
		attack(t, "escalation", "allow-list: "+s.name, func(t *testing.T) {
			p.reset()
			got := send(t, s)
			if got.status != http.StatusForbidden && got.status != http.StatusBadRequest || !strings.Contains(string(got.body), "message") {
				t.Errorf("status %d: %.300s", got.status, got.body)
			}
			if got.status == http.StatusForbidden && !strings.Contains(string(got.body), "AB03") {
				t.Errorf("the refusal has no AB03: %.300s", got.body)
			}
			for _, r := range p.seen() {
				t.Errorf("the provider received %s %s with %.200q", r.method, r.target, r.body)
			}
		})
	}
	for _, s := range []spelling{
		{"the model", "POST", "/v1/chat/completions", "application/json", chatOf(`"model":"good"`), nil},
		{"data about models", "POST", "/v1/chat/completions", "application/json", chatOf(`"model":"good","metadata":{"model":"bad"},"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"model":{"type":"string","default":"bad"}}}}}]`), nil},
		{"messages", "POST", "/v1/messages", "application/json", `{"model":"good","max_tokens":9,"messages":[{"role":"user","content":"{\"model\":\"bad\"}"}]}`, nil},
		{"passed through", "POST", "/v1/other", "application/json", `{"model":"good"}`, nil},
		{"passed through as text", "POST", "/v1/other", "text/plain", `{"model":"good"}`, nil},
		{"passed through, 2 MB", "POST", "/v1/other", "application/json", `{"x":"` + strings.Repeat("x", 2<<20) + `","model":"good"}`, nil},
		{"passed through, listing", "GET", "/v1/things?limit=3", "", "", nil},
		{"passed through, a resource", "POST", "/v1/vector_stores", "application/json", `{"name":"n"}`, nil},
		{"passed through, path", "POST", "/v1/openai/deployments/good/chat/completions", "application/json", `{"messages":[]}`, nil},
		{"passed through, audio", "POST", "/v1/listen?model=good", "audio/wav", "RIFF\x00\x00", nil},
		{"form", "POST", "/v1/audio/transcriptions", formKind, field("model", "good") + field("prompt", "[applause]") + field("file", strings.Repeat("f", 200_000)) + "--x--\r\n", nil},
		{"form of a file", "POST", "/v1/files", formKind, field("purpose", "user_data") + field("file", strings.Repeat("f", 200_000)) + "--x--\r\n", nil},
		{"override to one that is allowed", "POST", "/v1/chat/completions", "application/json", chatOf(`"model":"bad"`), []string{"x-gateway-provider", "", "x-gateway-config", `{"provider":"@some","override_params":{"model":"good"}}`}},
	} {
		attack(t, "escalation", "allow-list, legitimate: "+s.name, func(t *testing.T) {
			p.reset()
			send(t, s).ok(t)
			if seen := p.seen(); len(seen) != 1 || s.header == nil && s.target != "/v1/messages" && string(seen[0].body) != s.body {
				t.Errorf("the provider received %d requests, want one with the body as sent", len(seen))
			}
		})
	}
}

// TestModelsInBatchesOfMessagesReachNoProvider has a provider that has such batches, and a list
// of models.
func TestModelsInBatchesOfMessagesReachNoProvider(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	g, key := listed(t, p.url, "anthropic")
	const body = `{"requests":[{"custom_id":"1","params":{"model":"good"}},{"custom_id":"2","params":{"model":"MODEL"}}]}`
	send := func(t *testing.T, model string) response {
		p.reset()
		return g.spelled(t, key, spelling{"", "POST", "/v1/messages/batches", "application/json", strings.Replace(body, "MODEL", model, 1), nil})
	}
	attack(t, "escalation", "allow-list: a row of a batch of messages", func(t *testing.T) {
		send(t, "bad").refused(t, http.StatusForbidden, "AB03")
		for _, r := range p.seen() {
			t.Errorf("the provider received %s %s with %.200q", r.method, r.target, r.body)
		}
		if send(t, "good"); len(p.seen()) != 1 {
			t.Errorf("the provider received %d requests of a batch that is allowed", len(p.seen()))
		}
	})
}

// otherModels are the spellings that name models other than bad.
var otherModels = []string{"in capitals", "with a space", "with a variant", "default fallbacks"}

func TestDisabledModelsReachNoProvider(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	g, key := listed(t, p.url, "openai-compatible")
	g.as(t, rootKey, "PUT", "/v1/integrations/some/models", `{"allow_all_models":true,"models":[{"slug":"bad","enabled":false}]}`).ok(t)
	g.as(t, rootKey, "DELETE", "/v1/integrations/some/models?slugs=off", "").ok(t)
	list := slices.DeleteFunc(spellings(), func(s spelling) bool { return slices.Contains(otherModels, s.name) })
	for _, model := range []string{"BAD", " bad ", "bad:online", "bad:a:b", "models/bad", "models/Bad"} {
		list = append(list, spelling{"spelled " + strconv.Quote(model), "POST", "/v1/chat/completions", "application/json", chatOf(`"model":` + strconv.Quote(model)), nil})
	}
	for _, s := range list {
		attack(t, "escalation", "disabled model: "+s.name, func(t *testing.T) {
			p.reset()
			got := g.spelled(t, key, s)
			if got.status != http.StatusForbidden && got.status != http.StatusBadRequest || got.status == http.StatusForbidden && !strings.Contains(string(got.body), "AB03") {
				t.Errorf("status %d: %.300s", got.status, got.body)
			}
			for _, r := range p.seen() {
				t.Errorf("the provider received %s %s with %.200q", r.method, r.target, r.body)
			}
		})
	}
	attack(t, "escalation", "disabled model: in the list of models", func(t *testing.T) {
		lists := newProvider(t, func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"object":"list","data":[{"id":"bad"},{"id":"BAD:online"},{"id":"any"}]}`)
		})
		g, _ := listed(t, lists.url, "openai-compatible")
		g.as(t, rootKey, "PUT", "/v1/integrations/some/models", `{"allow_all_models":true,"models":[{"slug":"bad","enabled":false}]}`).ok(t)
		body := strings.ToLower(string(g.as(t, rootKey, "GET", "/v1/models", "").ok(t).body))
		if !strings.Contains(body, `"@some/any"`) || strings.Contains(body, "/bad") {
			t.Errorf("the list has a disabled model: %s", body)
		}
	})
	for _, s := range []spelling{
		{"another model", "POST", "/v1/chat/completions", "application/json", chatOf(`"model":"any"`), nil},
		{"a longer name", "POST", "/v1/chat/completions", "application/json", chatOf(`"model":"bad-2"`), nil},
		{"passed through", "POST", "/v1/other", "application/json", `{"model":"any"}`, nil},
		{"form", "POST", "/v1/audio/transcriptions", formKind, field("model", "any") + field("file", "f") + "--x--\r\n", nil},
	} {
		attack(t, "escalation", "disabled model, legitimate: "+s.name, func(t *testing.T) {
			p.reset()
			if g.spelled(t, key, s).ok(t); len(p.seen()) != 1 {
				t.Errorf("the provider received %d requests, want one", len(p.seen()))
			}
		})
	}
}

func TestDisabledModelsStayDisabledByWhoRanksHigher(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	manager := g.member(t, "manager", "member", `[{"id":"default","role":"manager"}]`)
	g.create(t, rootKey, "/v1/integrations", `{"name":"n","slug":"own","ai_provider_id":"openai","key":"k","workspace_id":"default"}`, "id")
	g.as(t, rootKey, "PUT", "/v1/integrations/own/models", `{"models":[{"slug":"dear","enabled":false,"is_custom":true}],"allow_all_models":true}`).ok(t)
	attack(t, "escalation", "a manager enables a model that an admin disabled", func(t *testing.T) {
		g.as(t, manager, "PUT", "/v1/integrations/own/models?workspace_id=default", `{"models":[{"slug":"dear","enabled":true}]}`).refused(t, http.StatusForbidden, "models")
	})
	attack(t, "escalation", "a manager deletes a model that an admin disabled", func(t *testing.T) {
		g.as(t, manager, "DELETE", "/v1/integrations/own/models?workspace_id=default&slugs=dear", "").refused(t, http.StatusForbidden, "models")
	})
	attack(t, "escalation", "a manager disables another model", func(t *testing.T) {
		g.as(t, manager, "PUT", "/v1/integrations/own/models?workspace_id=default", `{"models":[{"slug":"other","enabled":false}]}`).refused(t, http.StatusForbidden, "models")
	})
}

// TestLateModelsOfAStreamedFormAreCaught sends forms whose first bytes are
// allowed and looks at what the provider got to the end.
func TestLateModelsOfAStreamedFormAreCaught(t *testing.T) {
	var complete, began atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began.Add(1)
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			complete.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"text":"hi"}`)
	}))
	defer server.Close()
	g, key := listed(t, server.URL+"/v1", "openai-compatible")
	large := field("model", "good") + field("file", strings.Repeat("f", 3<<20))
	for name, body := range map[string]string{
		"a second model":            large + field("model", "bad") + "--x--\r\n",
		"a second model, capitals":  large + field("MODEL", "bad") + "--x--\r\n",
		"a model without an end":    large + "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nbad",
		"a part after the end":      large + "--x--\r\n" + field("model", "bad") + "--x--",
		"a boundary after a feed":   large + "--x\r\nContent-Disposition: form-data; name=\"p\"\r\n\r\nx\n--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nbad\r\n--x--",
		"JSON with a model":         large + field("config", `{"model":"bad"}`) + "--x--\r\n",
		"a header with a line feed": large + "--x\r\nContent-Disposition: form-data; name=\"model\"\n\nbad\r\n--x--\r\n",
	} {
		for way, config := range map[string]string{
			"":                   "",
			", through a config": `{"provider":"@some"}`,
			", through a tree":   `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@some"},{"provider":"@some"}]}`,
		} {
			attack(t, "bodies", "form with "+name+way, func(t *testing.T) {
				complete.Store(0)
				header := []string{"x-gateway-api-key", key, "x-gateway-provider", "@some", "Content-Type", formKind}
				if config != "" {
					header = []string{"x-gateway-api-key", key, "x-gateway-config", config, "Content-Type", formKind}
				}
				got := g.do(t, "POST", "/v1/audio/transcriptions", body, header...)
				if got.status == http.StatusOK || !strings.Contains(string(got.body), "AB03") {
					t.Errorf("status %d: %.300s", got.status, got.body)
				}
				if complete.Load() != 0 {
					t.Error("the provider received the complete body")
				}
			})
		}
	}
	attack(t, "bodies", "a large form takes little memory", func(t *testing.T) {
		complete.Store(0)
		body := field("model", "good") + field("file", strings.Repeat("f", 100<<20)) + "--x--\r\n"
		rose := g.peakMemory(t, func() {
			g.do(t, "POST", "/v1/audio/transcriptions", body, "x-gateway-api-key", key, "x-gateway-provider", "@some", "Content-Type", formKind).ok(t)
		})
		if rose > 32<<20 || complete.Load() != 1 {
			t.Errorf("memory rose by %d MB for a form of 100 MB, %d arrived", rose>>20, complete.Load())
		}
	})
}

// TestPathsThatAreModelsAreCheckedAsModels uses a provider whose paths name the
// model, where one in the body is a decoy.
func TestPathsThatAreModelsAreCheckedAsModels(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	g, key := listed(t, p.url, "fal-ai")
	for _, target := range []string{"/v1/fal-ai/bad", "/v1/bad", "/v1/run/bad", "/v1/x/good"} {
		attack(t, "escalation", "allow-list: POST "+target+" with a decoy", func(t *testing.T) {
			p.reset()
			g.do(t, "POST", target, `{"model":"good","prompt":"p"}`, "x-gateway-api-key", key, "x-gateway-provider", "@some").refused(t, http.StatusForbidden, "AB03", "cannot be known")
			if len(p.seen()) != 0 {
				t.Error("the provider received the request")
			}
		})
	}
	attack(t, "escalation", "allow-list, legitimate: a path that is an allowed model", func(t *testing.T) {
		p.reset()
		g.do(t, "POST", "/v1/good", `{"prompt":"p"}`, "x-gateway-api-key", key, "x-gateway-provider", "@some").ok(t)
	})
}
