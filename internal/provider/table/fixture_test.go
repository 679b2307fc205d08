package table_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"modelgate/api"
	"modelgate/internal/base/secret"
	"modelgate/internal/model/modeldata"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
)

// message is a section of a fixture: a head and a body. See testdata/README.md.
type message struct {
	first  string // method and address, or status
	header http.Header
	body   []byte
}

// fixture is a parsed file of testdata.
type fixture struct {
	config struct {
		Slug       string            `json:"slug"`
		Provider   string            `json:"provider"`
		APIKey     string            `json:"api_key"`
		CustomHost string            `json:"custom_host"`
		Options    map[string]string `json:"options"`
	}
	request, upstream, providerResponse, response message
}

func mustParse(t *testing.T, file string) *fixture {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range a.Files {
		names = append(names, f.Name)
	}
	if want := []string{"config", "request", "upstream", "reply", "response"}; !slices.Equal(names, want) {
		t.Fatalf("sections %q, want %q", names, want)
	}
	var f fixture
	dec := json.NewDecoder(bytes.NewReader(a.Files[0].Data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f.config); err != nil {
		t.Fatalf("config: %v", err)
	}
	for i, m := range []*message{&f.request, &f.upstream, &f.providerResponse, &f.response} {
		*m = mustMessage(t, a.Files[i+1].Data)
	}
	return &f
}

func mustMessage(t *testing.T, data []byte) message {
	t.Helper()
	r := textproto.NewReader(bufio.NewReader(bytes.NewReader(data)))
	first, err := r.ReadLine()
	if err != nil {
		t.Fatal(err)
	}
	header, err := r.ReadMIMEHeader()
	if err != nil {
		t.Fatalf("head of %q: %v", first, err)
	}
	body, err := io.ReadAll(r.R)
	if err != nil {
		t.Fatal(err)
	}
	return message{first, http.Header(header), body}
}

// decode reads a JSON body with numbers as they are spelled.
func decode(t *testing.T, body []byte) map[string]any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v map[string]any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("body %s: %v", body, err)
	}
	return v
}

var operations = map[string]api.Operation{
	"POST /v1/chat/completions": api.Chat,
	"POST /v1/embeddings":       api.Embeddings,
}

func TestEveryChatRowHasAFixture(t *testing.T) {
	for _, s := range table.All() {
		if _, chat := s.Path(api.Chat); !chat {
			continue
		}
		if _, err := os.Stat(filepath.Join("testdata", s.ID, "chat.txtar")); err != nil {
			t.Errorf("row %s offers chat and has no fixture: %v", s.ID, err)
		}
	}
}

func TestEveryFixtureBelongsToARow(t *testing.T) {
	for _, file := range fixtures(t) {
		id := filepath.Base(filepath.Dir(file))
		s, ok := table.Lookup(id)
		if !ok || s.ID != id {
			t.Errorf("%s: no row %q", file, id)
		}
	}
}

func fixtures(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestRowsBuildTheRequestsOfTheirFixtures(t *testing.T) {
	for _, file := range fixtures(t) {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".txtar"), func(t *testing.T) {
			f := mustParse(t, file)
			sent, want := decode(t, f.request.body), decode(t, f.upstream.body)
			model, _ := sent["model"].(string)
			settings := provider.Settings{
				Slug: f.config.Slug, Key: secret.New(f.config.APIKey),
				CustomHost: f.config.CustomHost, Options: f.config.Options,
			}
			spec, _ := table.Lookup(f.config.Provider)
			op := operations[f.request.first]
			if _, ok := spec.Path(op); !ok {
				op = spec.DialectFor(api.DialectChat, model).ConversationOperation()
			}
			req := mustRequest(t, f.config.Provider, settings, &provider.Call{
				Operation: op, Model: model,
				Header: http.Header{"Content-Type": f.request.header["Content-Type"]},
			})
			if got := req.Method + " " + address(req); got != f.upstream.first {
				t.Errorf("address\n got %s\nwant %s", got, f.upstream.first)
			}
			if diff := cmp.Diff(f.upstream.header, req.Header); diff != "" {
				t.Errorf("headers at the provider (-want +got):\n%s", diff)
			}
			if isTranslated(spec) {
				return // the body is the codec's
			}
			applyQuirks(t, spec, model, sent)
			applyShape(t, spec, settings, op, sent)
			if diff := cmp.Diff(want, sent); diff != "" {
				t.Errorf("body at the provider (-want +got):\n%s", diff)
			}
		})
	}
}

// isTranslated reports whether requests for s are encoded again in its dialect.
func isTranslated(s *provider.Spec) bool {
	return s.Dialect != api.DialectChat && s.Dialects == nil
}

// applyQuirks changes body as the fields of s say that the gateway does.
func applyQuirks(t *testing.T, s *provider.Spec, model string, body map[string]any) {
	t.Helper()
	rule := s.Rule(model)
	for _, field := range slices.Concat(s.Drop, rule.Drop) {
		delete(body, field)
	}
	for field, r := range s.Limits {
		clamp(t, body, field, r)
	}
	for _, names := range []map[string]string{s.Rename, rule.Rename} {
		for from, to := range names {
			if v, ok := body[from]; ok {
				delete(body, from)
				body[to] = v
			}
		}
	}
}

// applyShape changes body as the target's shape for op says.
func applyShape(t *testing.T, s *provider.Spec, settings provider.Settings, op api.Operation, body map[string]any) {
	t.Helper()
	target, err := provider.NewTarget(s, settings)
	if err != nil {
		t.Fatal(err)
	}
	shape := target.BodyRules[op]
	for _, field := range shape.Drop {
		delete(body, field)
	}
	for field, text := range shape.Set {
		if _, sent := body[field]; !sent {
			body[field] = decode(t, []byte(`{"v":`+text+`}`))["v"]
		}
	}
}

func clamp(t *testing.T, body map[string]any, field string, r provider.Range) {
	t.Helper()
	n, ok := body[field].(json.Number)
	if !ok {
		return
	}
	v, err := n.Float64()
	if err != nil {
		t.Fatalf("%s = %s: %v", field, n, err)
	}
	if v < r.Min || v > r.Max {
		spelled, err := json.Marshal(min(max(v, r.Min), r.Max))
		if err != nil {
			t.Fatal(err)
		}
		body[field] = json.Number(spelled)
	}
}

// An announced change and a changed body go together, except for what the address
// says already.
func TestFixturesAnnounceWhatTheyChange(t *testing.T) {
	for _, file := range fixtures(t) {
		f := mustParse(t, file)
		spec, ok := table.Lookup(f.config.Provider)
		if ok && isTranslated(spec) {
			continue
		}
		asked := decode(t, f.request.body)
		if ok {
			for _, name := range spec.BodyRules[api.Chat].Drop {
				delete(asked, name)
			}
		}
		changed := !cmp.Equal(asked, decode(t, f.upstream.body))
		if announced := f.response.header.Get("X-Gateway-Params") != ""; announced != changed {
			t.Errorf("%s: body changed: %t, announced: %t", file, changed, announced)
		}
	}
}

func TestEveryQuirkOfAChatRowIsInItsFixture(t *testing.T) {
	for _, s := range table.All() {
		if _, chat := s.Path(api.Chat); !chat {
			continue
		}
		f := mustParse(t, filepath.Join("testdata", s.ID, "chat.txtar"))
		changes := len(s.Drop)+len(s.Rename)+len(s.Limits) > 0 || slices.ContainsFunc(s.Models, func(m modeldata.Model) bool { return len(m.Drop)+len(m.Rename) > 0 })
		if announced := f.response.header.Get("X-Gateway-Params") != ""; changes && !announced && s.ID != "azure-openai" {
			t.Errorf("row %s changes fields and its fixture shows none", s.ID)
		}
	}
}

func TestFixturesAreWellFormed(t *testing.T) {
	for _, file := range fixtures(t) {
		f := mustParse(t, file)
		if _, known := operations[f.request.first]; !known {
			t.Errorf("%s: request %q is of no known operation", file, f.request.first)
		}
		if want := "@" + f.config.Slug; f.request.header.Get("X-Gateway-Provider") != want {
			t.Errorf("%s: request does not name %s", file, want)
		}
		for _, m := range []message{f.providerResponse, f.response} {
			if m.first != "200" {
				t.Errorf("%s: status %q, want 200", file, m.first)
			}
			switch kind := m.header.Get("Content-Type"); kind {
			case "application/json":
				decode(t, m.body)
			case "text/event-stream":
				if !bytes.HasSuffix(m.body, []byte("\n\n")) {
					t.Errorf("%s: the last event of the stream has no end", file)
				}
			default:
				t.Errorf("%s: content type %q", file, kind)
			}
		}
	}
}
