package gemini_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/gemini"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

const recordings = "../../../../shared/recordings"

type recorded struct {
	file     string
	Provider string
	API      string
	Stream   bool
	Request  struct {
		URL  string
		Body json.RawMessage
	}
	Response struct {
		Status int
		Body   string
	}
}

// target is where the recorded request went.
func (r *recorded) target() dialect.RequestTarget {
	_, last, _ := strings.Cut(r.Request.URL, "/models/")
	model, _, _ := strings.Cut(last, ":")
	if r.Provider == "vertex" {
		return dialecttest.TargetOf("vertex-ai", model)
	}
	return dialecttest.TargetOf("google", model)
}

// mustRecorded returns every exchange of the APIs.
func mustRecorded(t *testing.T, apis ...string) []recorded {
	t.Helper()
	if _, err := os.Stat(recordings); err != nil {
		t.Skipf("no recordings in %s", recordings)
	}
	var all []recorded
	for _, api := range apis {
		files, err := filepath.Glob(filepath.Join(recordings, "*", api, "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var whole struct{ Exchanges []recorded }
			if err := json.Unmarshal(b, &whole); err != nil {
				t.Fatal(err)
			}
			for _, e := range whole.Exchanges {
				if e.API == api {
					e.file = strings.TrimPrefix(file, recordings)
					all = append(all, e)
				}
			}
		}
	}
	if len(all) == 0 {
		t.Fatalf("no exchanges recorded of %v", apis)
	}
	return all
}

func mustConversations(t *testing.T) []recorded {
	t.Helper()
	all := mustRecorded(t, "generate-content", "stream-generate-content")
	if len(all) < 140 {
		t.Fatalf("%d exchanges recorded, want at least 140", len(all))
	}
	return all
}

// streamed decodes a stream as it comes from src.
func streamed(t testing.TB, src io.Reader, r *llm.Request, to dialect.RequestTarget) (*llm.Response, *llm.ProviderError, bool) {
	t.Helper()
	dec := gemini.Dialect{}.NewDecoder(r, to)
	reader := sse.NewReader(src, 1<<20)
	var all dialect.Assembler
	for {
		e, err := reader.Next()
		events := []llm.Event(nil)
		switch {
		case err == io.EOF:
			events = dec.End(nil)
		case err != nil:
			t.Fatal(err)
		case e.Data != nil:
			events = dec.Decode(nil, e)
		}
		for i := range events {
			all.Add(&events[i])
		}
		if err == io.EOF {
			return all.Response()
		}
	}
}

// summary is what a reader wants of a response.
type summary struct {
	ID, Model  string
	Text       string
	Thoughts   string
	Calls      []call
	Natives    []string
	Signatures int
	Finish     string
	Usage      llm.Usage
}

type call struct {
	ID, Name string
	Args     any
}

func summaryOf(t *testing.T, r *llm.Response) summary {
	t.Helper()
	s := summary{ID: r.ID, Model: r.Model, Usage: r.Usage}
	c := r.Choices[0]
	s.Finish = c.NativeFinishReason
	for _, p := range c.Parts {
		switch p := p.(type) {
		case llm.Text:
			s.Text += p.Text
			s.Signatures += len(p.Signature.Value)
		case llm.Thinking:
			s.Thoughts += p.Text
			s.Signatures += len(p.Signature.Value)
		case llm.ToolCall:
			id := p.ID
			if strings.HasPrefix(id, "call_") {
				id = ""
			}
			s.Calls = append(s.Calls, call{id, p.Name, mustJSON(t, p.Arguments)})
			s.Signatures += len(p.Signature.Value)
		case llm.Native:
			s.Natives = append(s.Natives, p.Type)
			var raw struct{ ThoughtSignature string }
			if err := json.Unmarshal(p.Raw, &raw); err != nil {
				t.Fatal(err)
			}
			s.Signatures += len(raw.ThoughtSignature)
		default:
			t.Fatalf("a part of type %T", p)
		}
	}
	return s
}

func mustJSON(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%q is not JSON: %v", text, err)
	}
	return v
}

func TestRecordedResponsesDecodeToTheirContent(t *testing.T) {
	n := 0
	for _, r := range mustConversations(t) {
		if r.Response.Status != 200 {
			continue
		}
		n++
		want := plainly(t, r.Response.Body, r.Stream)
		if !r.Stream {
			res, err := gemini.Dialect{}.DecodeResponse([]byte(r.Response.Body), nil, r.target())
			if err != nil {
				t.Errorf("%s: %v", r.file, err)
				continue
			}
			if diff := cmp.Diff(want, summaryOf(t, res)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", r.file, diff)
			}
			continue
		}
		for name, src := range map[string]io.Reader{
			"whole":        strings.NewReader(r.Response.Body),
			"byte by byte": iotest.OneByteReader(strings.NewReader(r.Response.Body)),
		} {
			res, fault, whole := streamed(t, src, nil, r.target())
			if fault != nil || whole != (want.Finish != "") {
				t.Errorf("%s: fault %v, whole %t", r.file, fault, whole)
			}
			if diff := cmp.Diff(want, summaryOf(t, res)); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", r.file, name, diff)
			}
		}
	}
	if n < 140 {
		t.Errorf("%d answers, too few to show anything", n)
	}
}

func TestTapReadsRecordedResponses(t *testing.T) {
	for _, r := range mustConversations(t) {
		if r.Response.Status != 200 {
			continue
		}
		want := plainly(t, r.Response.Body, r.Stream)
		tap := gemini.Dialect{}.NewTap(api.Generate)
		if r.Stream {
			events := sse.NewReader(strings.NewReader(r.Response.Body), 1<<20)
			for e, err := events.Next(); err == nil; e, err = events.Next() {
				tap.Event(e)
			}
		} else {
			tap.Body([]byte(r.Response.Body))
		}
		seen := tap.Info()
		begun := want.Text != "" || want.Thoughts != "" || want.Calls != nil || want.Natives != nil
		if seen.Model != want.Model || seen.Usage != want.Usage || seen.Finish != want.Finish ||
			seen.Begun != begun || seen.Finished != (want.Finish != "") || seen.Failed != "" {
			t.Errorf("%s: tap saw %+v, want %+v", r.file, *seen, want)
		}
	}
}

func TestRecordedErrorsAreForwardedUnchanged(t *testing.T) {
	n := 0
	for _, r := range mustConversations(t) {
		if r.Response.Status == 200 {
			continue
		}
		n++
		got := object(mustJSON(t, string(gemini.Dialect{}.ProviderError(nil, []byte(r.Response.Body), "google", r.Response.Status))))
		want := object(mustJSON(t, r.Response.Body))
		object(want["error"])["source"] = "provider"
		want["provider"] = "google"
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", r.file, diff)
		}
		tap := gemini.Dialect{}.NewTap(api.Generate)
		tap.Body([]byte(r.Response.Body))
		if tap.Info().Failed != text(object(want["error"])["message"]) {
			t.Errorf("%s: tap saw the failure %q", r.file, tap.Info().Failed)
		}
	}
	if n < 4 {
		t.Errorf("%d errors recorded, want at least 4", n)
	}
}

func TestRecordedRequestsMeanTheSameAfterTranslation(t *testing.T) {
	n := 0
	for _, r := range mustConversations(t) {
		if len(r.Request.Body) == 0 || bytes.Equal(r.Request.Body, []byte("null")) {
			continue
		}
		n++
		var doc jsonedit.Doc
		if err := doc.Scan(r.Request.Body); err != nil {
			t.Fatal(err)
		}
		if err := (gemini.Dialect{}).Check(api.Generate, &doc); err != nil {
			t.Errorf("%s: Check = %v", r.file, err)
		}
		req, err := gemini.Dialect{}.DecodeRequest(r.Request.Body)
		if err != nil {
			t.Errorf("%s: %v", r.file, err)
			continue
		}
		got, fates, err := gemini.Dialect{}.EncodeRequest(nil, req, r.target())
		if err != nil || fates != nil {
			t.Errorf("%s: fates %v, error %v", r.file, fates, err)
			continue
		}
		if diff := cmp.Diff(canonical(mustJSON(t, string(r.Request.Body)), ""), canonical(mustJSON(t, string(got)), "")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", r.file, diff)
		}
	}
	if n < 100 {
		t.Errorf("%d requests recorded, want at least 100", n)
	}
}

// canonical spells a request in one way: names of the protocol in camel case,
// lists where a single value is allowed, a tool of the provider for each element,
// media by their bytes.
func canonical(v any, at string) any {
	switch v := v.(type) {
	case []any:
		out := []any{}
		for _, e := range v {
			out = append(out, canonical(e, at+"[]"))
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k, inner := range v {
			name := k
			if !verbatim(at) {
				name = camel(k)
			}
			out[name] = canonical(inner, at+"."+name)
		}
		if at == ".tools" || at == ".contents" {
			return []any{out}
		}
		if data, ok := out["data"].(string); ok && strings.HasSuffix(at, ".inlineData") {
			b, err := base64.RawURLEncoding.DecodeString(strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(data))
			out["data"] = fmt.Sprint(b, err) // its bytes, in whichever alphabet
		}
		if at == ".systemInstruction" {
			delete(out, "role")
		}
		if object(out["generationConfig"]) != nil && len(object(out["generationConfig"])) == 0 {
			delete(out, "generationConfig")
		}
		if out["description"] == "" {
			delete(out, "description")
		}
		if schema, ok := out["responseSchema"]; ok {
			delete(out, "responseSchema")
			out["responseJsonSchema"] = lowered(schema)
		}
		return out
	}
	return v
}

// lowered is a schema with types in lower case.
func lowered(v any) any {
	b, _ := json.Marshal(v)
	for _, name := range []string{"OBJECT", "STRING", "ARRAY", "INTEGER", "NUMBER", "BOOLEAN"} {
		b = bytes.ReplaceAll(b, []byte(`"type":"`+name), []byte(`"type":"`+strings.ToLower(name)))
	}
	var out any
	_ = json.Unmarshal(b, &out)
	return out
}

// verbatim reports whether names at a path are the client's own.
func verbatim(at string) bool {
	for _, part := range []string{".args", ".functionResponse.response", ".parametersJsonSchema", ".parameters", ".responseJsonSchema", ".labels"} {
		if strings.Contains(at, part) {
			return true
		}
	}
	return false
}

func camel(s string) string {
	words := strings.Split(s, "_")
	for i := 1; i < len(words); i++ {
		words[i] = strings.ToUpper(words[i][:1]) + words[i][1:]
	}
	return strings.Join(words, "")
}
