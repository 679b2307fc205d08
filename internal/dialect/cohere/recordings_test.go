package cohere_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/cohere"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

const recordings = "../../../../shared/recordings"

type recorded struct {
	file     string
	API      string
	Request  struct{ Body json.RawMessage }
	Response struct {
		Status int
		Body   string
	}
}

func mustRecorded(t testing.TB, name string) (all []recorded) {
	t.Helper()
	if _, err := os.Stat(recordings); err != nil {
		t.Skipf("no recordings in %s", recordings)
	}
	files, _ := filepath.Glob(filepath.Join(recordings, "cohere", name, "*.json"))
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
			if e.API == name {
				e.file = filepath.Base(file)
				all = append(all, e)
			}
		}
	}
	if len(all) == 0 {
		t.Fatalf("no exchanges recorded of %s", name)
	}
	return all
}

// heard is what a recorded answer says, read without the codec.
type heard struct {
	ID, Text, Thinking, Finish string
	Calls                      []string
	Cited                      []string
	In, Cached, Out            int64
}

type plainResponse struct {
	ID      string
	Type    string
	Message plainMessage
	Finish  string `json:"finish_reason"`
	Usage   plainUsage
	Delta   struct {
		Message plainMessage
		Finish  string `json:"finish_reason"`
		Usage   plainUsage
	}
}

type plainMessage struct {
	Content   json.RawMessage
	ToolPlan  string          `json:"tool_plan"`
	ToolCalls json.RawMessage `json:"tool_calls"`
	Citations json.RawMessage
}

type plainUsage struct {
	Tokens struct {
		In  float64 `json:"input_tokens"`
		Out float64 `json:"output_tokens"`
	}
	Cached float64 `json:"cached_tokens"`
}

type plainCall struct {
	ID       string
	Function struct{ Name, Arguments string }
}

func (h *heard) message(m *plainMessage) {
	for _, b := range listOf[struct{ Text, Thinking string }](m.Content) {
		h.Text += b.Text
		h.Thinking += b.Thinking
	}
	h.Thinking += m.ToolPlan
	for _, c := range listOf[plainCall](m.ToolCalls) {
		if c.ID != "" {
			h.Calls = append(h.Calls, c.ID+" "+c.Function.Name+" ")
		}
		h.Calls[len(h.Calls)-1] += c.Function.Arguments
	}
	for _, c := range listOf[struct{ Text string }](m.Citations) {
		h.Cited = append(h.Cited, c.Text)
	}
}

// listOf reads a list, or the one element that streams have in its place.
func listOf[T any](raw json.RawMessage) (list []T) {
	if len(raw) > 0 && raw[0] == '{' {
		raw = []byte("[" + string(raw) + "]")
	}
	_ = json.Unmarshal(raw, &list)
	return list
}

func (h *heard) usage(u plainUsage) {
	h.Cached = int64(u.Cached)
	h.In, h.Out = int64(u.Tokens.In)-h.Cached, int64(u.Tokens.Out)
}

// plainly reads a recorded answer; in the recordings calls of a stream come one
// after the other.
func plainly(t *testing.T, body string) (h heard) {
	if !strings.HasPrefix(body, "event:") {
		var a plainResponse
		if err := json.Unmarshal([]byte(body), &a); err != nil {
			t.Fatal(err)
		}
		h.ID, h.Finish = a.ID, a.Finish
		h.message(&a.Message)
		h.usage(a.Usage)
		return h
	}
	for line := range strings.SplitSeq(body, "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		var a plainResponse
		if !ok || json.Unmarshal([]byte(data), &a) != nil {
			continue
		}
		h.message(&a.Delta.Message)
		switch a.Type {
		case "message-start":
			h.ID = a.ID
		case "message-end":
			h.Finish = a.Delta.Finish
			h.usage(a.Delta.Usage)
		}
	}
	return h
}

func hear(r *llm.Response) heard {
	c := r.Choices[0]
	h := heard{ID: r.ID, Finish: c.NativeFinishReason, In: r.Usage.Input, Cached: r.Usage.CachedInput, Out: r.Usage.Output}
	for _, p := range c.Parts {
		switch p := p.(type) {
		case llm.Text:
			h.Text += p.Text
			for _, cite := range p.Citations {
				h.Cited = append(h.Cited, cite.Text)
			}
		case llm.Thinking:
			h.Thinking += p.Text
		case llm.ToolCall:
			h.Calls = append(h.Calls, p.ID+" "+p.Name+" "+p.Arguments)
		}
	}
	return h
}

func TestReadsRecordedResponses(t *testing.T) {
	streams, bodies := 0, 0
	for _, r := range mustRecorded(t, "chat-v2") {
		want := plainly(t, r.Response.Body)
		if !strings.HasPrefix(r.Response.Body, "event:") {
			bodies++
			got, err := cohere.Dialect{}.DecodeResponse([]byte(r.Response.Body), nil, target)
			if err != nil {
				t.Errorf("%s: %v", r.file, err)
				continue
			}
			if diff := cmp.Diff(want, hear(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", r.file, diff)
			}
			continue
		}
		streams++
		for name, reader := range map[string]io.Reader{
			"whole": strings.NewReader(r.Response.Body), "byte by byte": iotest.OneByteReader(strings.NewReader(r.Response.Body)),
		} {
			frames, err := dialecttest.ServerSentEvents(reader)
			if err != nil {
				t.Fatal(err)
			}
			d := cohere.Dialect{}.NewDecoder(nil, target)
			var events []llm.Event
			for _, f := range frames {
				events = d.Decode(events, f)
			}
			events = d.End(events)
			var a dialect.Assembler
			for i := range events {
				a.Add(&events[i])
			}
			got, fault, whole := a.Response()
			if why := dialecttest.CheckEventOrder(events); why != "" || fault != nil || !whole {
				t.Errorf("%s, %s: order %q, fault %v, whole %t", r.file, name, why, fault, whole)
			}
			if diff := cmp.Diff(want, hear(got)); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", r.file, name, diff)
			}
		}
	}
	if streams < 4 || bodies < 12 {
		t.Errorf("%d streams and %d bodies recorded: too few to show anything", streams, bodies)
	}
}

func TestReadsRecordedVectorsAndRanks(t *testing.T) {
	n := 0
	for _, r := range mustRecorded(t, "embed") {
		if r.Response.Status != 200 {
			continue
		}
		n++
		var want struct {
			Embeddings struct{ Float json.RawMessage }
		}
		var got struct {
			Data []struct{ Embedding json.RawMessage }
		}
		b, err := form(t, api.Embeddings).Response(nil, []byte(r.Response.Body), []byte(`{}`), embedder)
		if err != nil || json.Unmarshal(b, &got) != nil || json.Unmarshal([]byte(r.Response.Body), &want) != nil {
			t.Fatalf("%s: %v", r.file, err)
		}
		list := make([]json.RawMessage, len(got.Data))
		for i := range got.Data {
			list[i] = got.Data[i].Embedding
		}
		vectors, err := json.Marshal(list)
		if err != nil || !bytes.Equal(compact(vectors), compact(want.Embeddings.Float)) {
			t.Errorf("%s: the vectors differ", r.file)
		}
	}
	for _, r := range mustRecorded(t, "rerank") {
		n++
		var want, got struct {
			Results []struct {
				Index int
				Score float64 `json:"relevance_score"`
			}
		}
		b, err := form(t, api.Rerank).Response(nil, []byte(r.Response.Body), []byte(`{}`), embedder)
		if err != nil || json.Unmarshal(b, &got) != nil || json.Unmarshal([]byte(r.Response.Body), &want) != nil {
			t.Fatalf("%s: %v", r.file, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", r.file, diff)
		}
	}
	if n < 5 {
		t.Errorf("%d answers recorded, want at least 5", n)
	}
}

func compact(b []byte) []byte {
	var out bytes.Buffer
	_ = json.Compact(&out, b)
	return out.Bytes()
}
