package simulator_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"image/png"
	"io"
	"math"
	"mime/multipart"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/simulator"
)

func (a *response) mustDecodeInto(t *testing.T, v any) {
	t.Helper()
	if a.err != nil {
		t.Fatal(a.err)
	}
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		t.Fatalf("decoding %.300q: %v", a.body, err)
	}
}

func TestCompletionsAnswerEveryPrompt(t *testing.T) {
	h := mustServe(t, simulator.Options{Tokens: 8})
	for _, tt := range []struct {
		name, prompt  string
		prompts, used int
		first         string
	}{
		{"a text", `"Tell me"`, 1, 2, "echo: Tell me and so the simulat"},
		{"texts", `["Tell me","More"]`, 2, 3, "echo: Tell me and so the simulat"},
		{"tokens", `[1,2,3]`, 1, 3, "echo: 3 tokens and so the simula"},
		{"lists of tokens", `[[1,2,3],[4]]`, 2, 4, "echo: 3 tokens and so the simula"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := `{"model":"m","logprobs":1,"prompt":` + tt.prompt + `}`
			c := h.mustPost("/v1/completions", body).mustDecode(t)
			if c.Object != "text_completion" || len(c.Choices) != tt.prompts || c.Choices[0].Text != tt.first || c.Usage.Prompt != tt.used || c.Usage.Completion != 8*tt.prompts {
				t.Errorf("answer = %+v, usage %+v", c, c.Usage)
			}
			if got := strings.Join(c.Choices[0].Logprobs.Tokens, ""); got != tt.first || c.Choices[0].Logprobs.Offsets[1] != 4 {
				t.Errorf("logprobs = %+v", c.Choices[0].Logprobs)
			}
			s := gather(t, h.mustPost("/v1/completions", `{"stream":true,"stream_options":{"include_usage":true},`+body[1:]).body)
			if s.text[0] != tt.first || *s.usage != *c.Usage || s.finish[tt.prompts-1] != "stop" || !s.done {
				t.Errorf("stream = %+v", s)
			}
		})
	}
	t.Run("echo", func(t *testing.T) {
		c := h.mustPost("/v1/completions", `{"model":"m","prompt":"Ho","echo":true,"max_tokens":2}`).mustDecode(t)
		if c.Choices[0].Text != "Hoecho: Ho" || *c.Choices[0].Finish != "length" {
			t.Errorf("choice = %+v", c.Choices[0])
		}
	})
	t.Run("cut", func(t *testing.T) {
		a := h.mustPost("/v1/completions", `{"model":"m+cut=3","prompt":"Ho","stream":true}`)
		if s := gather(t, a.body); s.frames != 3 || s.done || a.err == nil {
			t.Errorf("%d frames, %v", s.frames, a.err)
		}
	})
}

func TestEmbeddingsAreUnitVectorsThatFollowTheInput(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	type list struct {
		Data []struct {
			Index     int
			Embedding []float32
		}
		Usage usage
	}
	var one, many list
	h.mustPost("/v1/embeddings", `{"model":"e","input":"hello","dimensions":64}`).mustDecodeInto(t, &one)
	h.mustPost("/embeddings", `{"model":"e","input":["other","hello",""],"dimensions":64}`).mustDecodeInto(t, &many)
	var named struct{ ID string }
	if h.mustPost("/embeddings", `{"model":"e","input":"hello"}`).mustDecodeInto(t, &named); named.ID == "" { // Mistral's client requires one
		t.Error("the response has no id")
	}
	v := one.Data[0].Embedding
	if len(v) != 64 || !slices.Equal(v, many.Data[1].Embedding) || slices.Equal(v, many.Data[0].Embedding) || many.Data[2].Index != 2 {
		t.Errorf("vectors %v and %+v", v, many.Data)
	}
	if !slices.Equal(v, simulator.Vector("hello", 64)) {
		t.Error("Vector says another vector")
	}
	var sum float64
	for _, f := range v {
		sum += float64(f) * float64(f)
	}
	if math.Abs(sum-1) > 1e-4 || one.Usage.Prompt != 2 || many.Usage.Total != 4 {
		t.Errorf("length² = %f, usage %+v, %+v", sum, one.Usage, many.Usage)
	}
	var packed struct{ Data []struct{ Embedding string } }
	h.mustPost("/v1/embeddings", `{"model":"e","input":"hello","dimensions":64,"encoding_format":"base64"}`).mustDecodeInto(t, &packed)
	raw, err := base64.StdEncoding.DecodeString(packed.Data[0].Embedding)
	if err != nil || len(raw) != 256 || math.Float32frombits(binary.LittleEndian.Uint32(raw[8:])) != v[2] {
		t.Errorf("base64: %d bytes, %v", len(raw), err)
	}
}

func TestOperationsRefuseWhatIsMissing(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	for _, tt := range []struct{ name, path, body, param string }{
		{"no prompt", "/v1/completions", `{"model":"m"}`, "prompt"},
		{"no model", "/v1/completions", `{"prompt":"x"}`, "model"},
		{"a prompt that is an object", "/v1/completions", `{"model":"m","prompt":{}}`, "prompt"},
		{"no input", "/v1/embeddings", `{"model":"m"}`, "input"},
		{"an empty input", "/v1/embeddings", `{"model":"m","input":""}`, "input"},
		{"no embedding model", "/v1/embeddings", `{"input":"x"}`, "model"},
		{"no dimensions", "/v1/embeddings", `{"model":"m","input":"x","dimensions":0}`, "dimensions"},
		{"an unknown format", "/v1/embeddings", `{"model":"m","input":"x","encoding_format":"hex"}`, "encoding_format"},
		{"no picture", "/v1/images/generations", `{"model":"m"}`, "prompt"},
		{"eleven pictures", "/v1/images/generations", `{"prompt":"x","n":11}`, "n"},
		{"no voice", "/v1/audio/speech", `{"model":"m","input":"x"}`, "voice"},
		{"an unknown sound", "/v1/audio/speech", `{"model":"m","input":"x","voice":"v","response_format":"midi"}`, "response_format"},
		{"nothing to check", "/v1/moderations", `{}`, "input"},
		{"no JSON", "/v1/moderations", `{"input":`, ""},
		{"no form", "/v1/audio/transcriptions", `{}`, ""},
		{"no upload", "/v1/files", `{}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := h.mustPost(tt.path, tt.body)
			if e := a.mustDecode(t).Error; a.StatusCode != 400 || e == nil || deref(e.Param) != tt.param {
				t.Errorf("%d %s, want 400 about %q", a.StatusCode, a.body, tt.param)
			}
		})
	}
}

func TestImagesSpeechModerationsAndModels(t *testing.T) {
	h := mustServe(t, simulator.Options{Models: []string{"org/one", "two"}})
	t.Run("images", func(t *testing.T) {
		var got struct {
			Data []struct {
				URL string `json:"url"`
				B64 string `json:"b64_json"`
			}
		}
		h.mustPost("/v1/images/generations", `{"prompt":"a fox","n":2,"response_format":"b64_json"}`).mustDecodeInto(t, &got)
		raw, _ := base64.StdEncoding.DecodeString(got.Data[1].B64)
		if _, err := png.Decode(bytes.NewReader(raw)); err != nil || len(got.Data) != 2 || got.Data[0].B64 == got.Data[1].B64 {
			t.Errorf("images %+v: %v", got, err)
		}
		h.mustPost("/v1/images/generations", `{"prompt":"a fox"}`).mustDecodeInto(t, &got)
		if !strings.HasPrefix(got.Data[0].URL, "https://") {
			t.Errorf("images %+v", got)
		}
	})
	t.Run("speech", func(t *testing.T) {
		want, _ := io.ReadAll(simulator.Bytes(0, 5*256))
		a := h.mustPost("/v1/audio/speech", `{"model":"m","input":"hello","voice":"v","response_format":"wav"}`)
		if a.body != string(want) || a.Header.Get("Content-Type") != "audio/wav" {
			t.Errorf("%d bytes of %s", len(a.body), a.Header.Get("Content-Type"))
		}
	})
	t.Run("moderations", func(t *testing.T) {
		var got struct {
			Results []struct {
				Flagged    bool
				Categories map[string]bool
			}
		}
		h.mustPost("/v1/moderations", `{"input":["peace",{"type":"text","text":"violence"}]}`).mustDecodeInto(t, &got)
		if len(got.Results) != 2 || got.Results[0].Flagged || !got.Results[1].Flagged || !got.Results[1].Categories["violence"] {
			t.Errorf("results %+v", got)
		}
	})
	t.Run("models", func(t *testing.T) {
		var got struct{ Data []struct{ ID string } }
		h.mustSend("GET", "/v1/models", "").mustDecodeInto(t, &got)
		one := h.mustSend("GET", "/v1/models/org/one", "")
		if len(got.Data) != 2 || got.Data[1].ID != "two" || mustParse(t, one.body).ID != "org/one" {
			t.Errorf("models %+v, one %s", got, one.body)
		}
		if a := h.mustSend("GET", "/v1/models/three", ""); a.StatusCode != 404 {
			t.Errorf("an unknown model has status %d", a.StatusCode)
		}
	})
}

// form returns a multipart body and its content type.
func form(t *testing.T, content []byte, fields ...string) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		w.WriteField(fields[i], fields[i+1])
	}
	if content != nil {
		part, err := w.CreateFormFile("file", "a \"file\".wav")
		if err != nil {
			t.Fatal(err)
		}
		part.Write(content)
	}
	w.Close()
	return b.String(), w.FormDataContentType()
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func TestTranscriptionsSayWhichFileArrived(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	content := bytes.Repeat([]byte("sound"), 1000)
	for _, path := range []string{"/v1/audio/transcriptions", "/audio/translations"} {
		body, kind := form(t, content, "model", "w")
		var got struct {
			Text string
			File struct {
				Name, SHA256 string
				Size         int
			}
		}
		h.mustSend("POST", path, body, "Content-Type", kind).mustDecodeInto(t, &got)
		if got.File.Size != 5000 || got.File.SHA256 != sum(content) || got.File.Name != `a "file".wav` || !strings.Contains(got.Text, sum(content)) {
			t.Errorf("%s: %+v", path, got)
		}
	}
	body, kind := form(t, content, "model", "w", "response_format", "text")
	if a := h.mustSend("POST", "/v1/audio/transcriptions", body, "Content-Type", kind); !strings.HasPrefix(a.body, "file a") {
		t.Errorf("text = %q", a.body)
	}
	body, kind = form(t, content, "model", "w", "stream", "true")
	list := events(h.mustSend("POST", "/v1/audio/transcriptions", body, "Content-Type", kind).body)
	if last := list[len(list)-1]; len(list) < 3 || !strings.Contains(last.data, "transcript.text.done") || !strings.Contains(last.data, sum(content)) {
		t.Errorf("stream %+v", list)
	}
	body, kind = form(t, content, "model", "w+status=429")
	if a := h.mustSend("POST", "/v1/audio/transcriptions", body, "Content-Type", kind); a.StatusCode != 429 {
		t.Errorf("a fault in the model field gives %d", a.StatusCode)
	}
	body, kind = form(t, nil, "model", "w")
	if a := h.mustSend("POST", "/v1/audio/transcriptions", body, "Content-Type", kind); a.StatusCode != 400 {
		t.Errorf("no file gives %d", a.StatusCode)
	}
}

func TestFilesAreKeptUntilDeletedOrCrowdedOut(t *testing.T) {
	h := mustServe(t, simulator.Options{MaxFiles: 1000})
	type file struct {
		ID, Filename, Purpose, SHA256 string
		Bytes                         int
	}
	upload := func(n int) (f file) {
		t.Helper()
		body, kind := form(t, bytes.Repeat([]byte{'x'}, n), "purpose", "batch")
		h.mustSend("POST", "/v1/files", body, "Content-Type", kind).mustDecodeInto(t, &f)
		return f
	}
	list := func() (ids []string) {
		t.Helper()
		var got struct{ Data []file }
		h.mustSend("GET", "/v1/files", "").mustDecodeInto(t, &got)
		for _, f := range got.Data {
			ids = append(ids, f.ID)
		}
		return ids
	}
	first, second := upload(400), upload(500)
	if first.Bytes != 400 || first.Purpose != "batch" || first.SHA256 != sum(bytes.Repeat([]byte{'x'}, 400)) || first.ID == second.ID {
		t.Errorf("uploads %+v, %+v", first, second)
	}
	if got := list(); !slices.Equal(got, []string{second.ID, first.ID}) {
		t.Errorf("list = %v", got)
	}
	if a := h.mustSend("GET", "/v1/files/"+first.ID+"/content", ""); a.body != strings.Repeat("x", 400) {
		t.Errorf("content = %d bytes", len(a.body))
	}
	third := upload(300)
	if got := list(); !slices.Equal(got, []string{third.ID, second.ID}) {
		t.Errorf("after a third the list = %v", got)
	}
	if a := h.mustSend("DELETE", "/files/"+second.ID, ""); a.StatusCode != 200 || !strings.Contains(a.body, `"deleted":true`) {
		t.Errorf("delete: %d %s", a.StatusCode, a.body)
	}
	for _, path := range []string{"/v1/files/" + first.ID, "/v1/files/" + second.ID, "/v1/files/" + second.ID + "/content"} {
		if a := h.mustSend("GET", path, ""); a.StatusCode != 404 {
			t.Errorf("GET %s = %d, want 404", path, a.StatusCode)
		}
	}
	large := upload(2000)
	if a := h.mustSend("GET", "/v1/files/"+large.ID+"/content", ""); large.Bytes != 2000 || a.StatusCode != 404 {
		t.Errorf("a file over the limit: %+v, content %d", large, a.StatusCode)
	}
}

func TestUnknownPathsAreEchoed(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	const odd = "/v1/x%2Fy/../z?b=2&a=1&b=1&c=%20"
	for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH"} {
		var got simulator.Echo
		h.mustSend(method, odd, "body", "X-Odd", "yes").mustDecodeInto(t, &got)
		if got.Method != method || got.URI != odd || got.Headers.Get("X-Odd") != "yes" || got.Size != 4 || got.BodySHA256 != sum([]byte("body")) {
			t.Errorf("%s: %+v", method, got)
		}
	}
	for _, response := range []string{"100KB;seed=7;type=video/x;status=206", "100KB;seed=7;type=video/x;status=206;chunked"} {
		a := h.mustSend("GET", "/v1/videos/1", "", simulator.HeaderResponse, response)
		want, _ := io.ReadAll(simulator.Bytes(7, 100e3))
		if a.err != nil || a.body != string(want) || a.StatusCode != 206 || a.Header.Get("Content-Type") != "video/x" {
			t.Errorf("%s: %d bytes, %d %v %v", response, len(a.body), a.StatusCode, a.Header, a.err)
		}
		if chunked := a.ContentLength < 0; chunked != strings.HasSuffix(response, "chunked") {
			t.Errorf("%s: length %d", response, a.ContentLength)
		}
	}
	cut := h.mustSend("GET", "/v1/videos/1", "", simulator.HeaderResponse, "100KB", simulator.HeaderFault, "cut=5000")
	if len(cut.body) != 5000 || cut.err == nil {
		t.Errorf("cut=5000: %d bytes, %v", len(cut.body), cut.err)
	}
	for _, response := range []string{"many", "5;colour=red", "5;status=99"} {
		if a := h.mustSend("GET", "/v1/videos/1", "", simulator.HeaderResponse, response); a.StatusCode != 400 {
			t.Errorf("%s: status %d, want 400", response, a.StatusCode)
		}
	}
	if a := h.mustSend("HEAD", "/v1/videos/1", "", simulator.HeaderResponse, "10"); a.ContentLength != 10 || a.body != "" {
		t.Errorf("HEAD: length %d, body %q", a.ContentLength, a.body)
	}
}
