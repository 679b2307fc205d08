package converse_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/converse"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

const recordings = "../../../../shared/recordings"

type recorded struct {
	file    string
	API     string
	Request struct {
		URL  string
		Body json.RawMessage
	}
	Response struct {
		Status     int
		Body       *string
		BodyBase64 string `json:"body_base64"`
	}
}

// model is the model of the request's path.
func (r *recorded) model() string {
	_, rest, _ := strings.Cut(r.Request.URL, "/model/")
	id, _, _ := strings.Cut(rest, "/")
	id, _ = url.PathUnescape(id)
	return id
}

func (r *recorded) target() dialect.RequestTarget {
	return dialect.RequestTarget{Provider: "bedrock", Model: r.model()}
}

// mustRecorded returns every exchange of an API.
func mustRecorded(t *testing.T, kind string, least int) (all []recorded) {
	t.Helper()
	if _, err := os.Stat(recordings); err != nil {
		t.Skipf("no recordings in %s", recordings)
	}
	files, err := filepath.Glob(filepath.Join(recordings, "bedrock", "*", "*.json"))
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
			t.Fatalf("%s: %v", file, err)
		}
		for _, e := range whole.Exchanges {
			if e.API == kind {
				e.file = strings.TrimPrefix(file, recordings)
				all = append(all, e)
			}
		}
	}
	if len(all) < least {
		t.Fatalf("%d exchanges recorded, want at least %d", len(all), least)
	}
	return all
}

// said is what a response says, in plain words.
type said struct {
	Text, Thought, Signature string
	Calls                    []string // id, name and arguments
	Stop                     string
	In, Out, Read, Write     int
	Error                    string
}

type wireUsage struct{ InputTokens, OutputTokens, CacheReadInputTokens, CacheWriteInputTokens int }

func (s *said) count(u wireUsage) {
	s.In, s.Out, s.Read, s.Write = u.InputTokens, u.OutputTokens, u.CacheReadInputTokens, u.CacheWriteInputTokens
}

func compact(raw []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// wholePlainly reads a complete response by decoding it.
func wholePlainly(t *testing.T, body string) (s said) {
	var v struct {
		Message string
		Output  struct {
			Message struct {
				Content []struct {
					Text    string
					ToolUse *struct {
						ToolUseID, Name, Type string
						Input                 json.RawMessage
					}
					ReasoningContent struct {
						ReasoningText   struct{ Text, Signature string }
						RedactedContent string
					}
				}
			}
		}
		StopReason string
		Usage      wireUsage
	}
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	s.Stop, s.Error = v.StopReason, v.Message
	s.count(v.Usage)
	for _, c := range v.Output.Message.Content {
		s.Text += c.Text
		s.Thought += c.ReasoningContent.ReasoningText.Text
		s.Signature += c.ReasoningContent.ReasoningText.Signature + c.ReasoningContent.RedactedContent
		if u := c.ToolUse; u != nil && u.Type != "server_tool_use" {
			s.Calls = append(s.Calls, u.ToolUseID+" "+u.Name+" "+compact(u.Input))
		}
	}
	return s
}

// streamPlainly reads a stream by its lengths alone.
func streamPlainly(t *testing.T, raw []byte) (s said) {
	calls, order := map[int]*[3]string{}, []int{}
	for len(raw) > 0 {
		total, headers := binary.BigEndian.Uint32(raw), binary.BigEndian.Uint32(raw[4:])
		var v struct {
			Message           string
			ContentBlockIndex int
			Start             struct {
				ToolUse *struct{ ToolUseID, Name, Type string }
			}
			Delta struct {
				Text             string
				ToolUse          struct{ Input string }
				ReasoningContent struct{ Text, Signature, RedactedContent string }
			}
			StopReason string
			Usage      *wireUsage
		}
		if err := json.Unmarshal(raw[12+headers:total-4], &v); err != nil {
			t.Fatal(err)
		}
		raw = raw[total:]
		if v.Start.ToolUse != nil && v.Start.ToolUse.Type != "server_tool_use" {
			calls[v.ContentBlockIndex] = &[3]string{v.Start.ToolUse.ToolUseID, v.Start.ToolUse.Name, ""}
			order = append(order, v.ContentBlockIndex)
		}
		if c := calls[v.ContentBlockIndex]; c != nil {
			c[2] += v.Delta.ToolUse.Input
		}
		s.Text += v.Delta.Text
		s.Thought += v.Delta.ReasoningContent.Text
		s.Signature += v.Delta.ReasoningContent.Signature + v.Delta.ReasoningContent.RedactedContent
		s.Stop, s.Error = s.Stop+v.StopReason, s.Error+v.Message
		if v.Usage != nil {
			s.count(*v.Usage)
		}
	}
	for _, i := range order {
		s.Calls = append(s.Calls, calls[i][0]+" "+calls[i][1]+" "+compact([]byte(calls[i][2])))
	}
	return s
}

// decoded is what a decoded answer says.
func decoded(r *llm.Response) (s said) {
	for _, p := range r.Choices[0].Parts {
		switch p := p.(type) {
		case llm.Text:
			s.Text += p.Text
		case llm.Thinking:
			s.Thought += p.Text
			s.Signature += p.Signature.Value
		case llm.ToolCall:
			s.Calls = append(s.Calls, p.ID+" "+p.Name+" "+compact([]byte(p.Arguments)))
		}
	}
	s.Stop = r.Choices[0].NativeFinishReason
	u := r.Usage
	s.In, s.Out, s.Read, s.Write = int(u.Input), int(u.Output), int(u.CachedInput), int(u.CacheWrite5m+u.CacheWrite1h)
	return s
}

func TestRecordedResponsesAreReadCompletely(t *testing.T) {
	read := 0
	for _, r := range mustRecorded(t, "converse", 55) {
		want := wholePlainly(t, *r.Response.Body)
		tap := converse.Dialect{}.NewTap(api.Converse)
		tap.Body([]byte(*r.Response.Body))
		if r.Response.Status != 200 {
			if got := tap.Info().Failed; got != want.Error {
				t.Errorf("%s: the tap saw error %q, want %q", r.file, got, want.Error)
			}
			continue
		}
		read++
		request, _ := converse.Dialect{}.DecodeRequest(r.Request.Body)
		got, err := converse.Dialect{}.DecodeResponse([]byte(*r.Response.Body), request, r.target())
		if err != nil {
			t.Fatalf("%s: %v", r.file, err)
		}
		if diff := cmp.Diff(want, decoded(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", r.file, diff)
		}
		seen := tap.Info()
		if seen.Usage != got.Usage || seen.Finish != want.Stop || !seen.Finished || !seen.Begun {
			t.Errorf("%s: the tap saw %+v, want usage %+v and finish %q", r.file, seen, got.Usage, want.Stop)
		}
		again, err := converse.Dialect{}.DecodeResponse(converse.Dialect{}.EncodeResponse(nil, got, dialect.ResponseTarget{Request: request}), request, r.target())
		if diff := cmp.Diff(got, again, dialecttest.Same()...); diff != "" || err != nil {
			t.Errorf("%s: written again it is another (%v) (-want +got):\n%s", r.file, err, diff)
		}
	}
	if read < 45 {
		t.Errorf("%d answers, want at least 45", read)
	}
}

// pieces gives bytes out in pieces of random length.
type pieces struct {
	rest []byte
	r    *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.rest[:min(1+p.r.IntN(90), len(p.rest))])
	p.rest = p.rest[n:]
	return n, nil
}

// assembled decodes a stream and puts its response together.
func assembled(t *testing.T, list []sse.Event, request *llm.Request, to dialect.RequestTarget) (*llm.Response, *llm.ProviderError, bool) {
	t.Helper()
	d := converse.Dialect{}.NewDecoder(request, to)
	var a dialect.Assembler
	var events []llm.Event
	for _, frame := range list {
		events = d.Decode(events, frame)
	}
	events = d.End(events)
	if why := dialecttest.CheckEventOrder(events); why != "" {
		t.Fatal(why)
	}
	for i := range events {
		a.Add(&events[i])
	}
	return a.Response()
}

func TestRecordedStreamsAreReadWhole(t *testing.T) {
	read := 0
	for _, r := range mustRecorded(t, "converse-stream", 16) {
		if r.Response.Status != 200 {
			continue
		}
		read++
		raw, err := base64.StdEncoding.DecodeString(r.Response.BodyBase64)
		if err != nil {
			t.Fatal(err)
		}
		want := streamPlainly(t, raw)
		list, err := frames(&pieces{raw, rand.New(rand.NewPCG(1, uint64(read)))})
		if err != nil {
			t.Fatalf("%s: %v", r.file, err)
		}
		request, _ := converse.Dialect{}.DecodeRequest(r.Request.Body)
		got, fault, whole := assembled(t, list, request, r.target())
		if fault != nil || whole != (want.Stop != "") {
			t.Errorf("%s: fault %v, whole %t", r.file, fault, whole)
		}
		if len(got.Choices) > 0 {
			if diff := cmp.Diff(want, decoded(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", r.file, diff)
			}
		}
		tap := converse.Dialect{}.NewTap(api.Converse)
		for _, frame := range list {
			tap.Event(frame)
		}
		if seen := tap.Info(); seen.Usage != got.Usage || seen.Finish != want.Stop || seen.Failed != "" {
			t.Errorf("%s: the tap saw %+v, want usage %+v and finish %q", r.file, seen, got.Usage, want.Stop)
		}
		encoder := converse.Dialect{}.NewEncoder(dialect.ResponseTarget{Request: request})
		var stream []byte
		for e := range dialect.Replay(got) {
			stream = encoder.Encode(stream, &e)
		}
		list, err = frames(bytes.NewReader(stream))
		if err != nil {
			t.Fatal(err)
		}
		again, _, _ := assembled(t, list, request, r.target())
		if diff := cmp.Diff(got, again, dialecttest.Same()...); whole && diff != "" {
			t.Errorf("%s: written again it is another (-want +got):\n%s", r.file, diff)
		}
	}
	if read < 14 {
		t.Errorf("%d streams, want at least 14", read)
	}
}

func TestRecordedRequestsComeBackAsTheyWere(t *testing.T) {
	n := 0
	for _, r := range append(mustRecorded(t, "converse", 55), mustRecorded(t, "converse-stream", 16)...) {
		if len(r.Request.Body) == 0 || r.Request.Body[0] != '{' {
			continue
		}
		n++
		var doc jsonedit.Doc
		if err := doc.Scan(r.Request.Body); err != nil {
			t.Fatal(err)
		}
		if err := (converse.Dialect{}).Check(api.Converse, &doc); err != nil {
			t.Errorf("%s: Check = %v", r.file, err)
		}
		request, err := converse.Dialect{}.DecodeRequest(r.Request.Body)
		if err != nil {
			t.Errorf("%s: DecodeRequest = %v", r.file, err)
			continue
		}
		body, fates, err := converse.Dialect{}.EncodeRequest(nil, request, r.target())
		if err != nil || len(fates) > 0 {
			t.Errorf("%s (%s): EncodeRequest told %v and %v", r.file, r.model(), fates, err)
		}
		if diff := cmp.Diff(mustCanonical(t, r.Request.Body), mustCanonical(t, body)); diff != "" {
			t.Errorf("%s (%s) (-sent +written):\n%s", r.file, r.model(), diff)
		}
	}
	if n < 60 {
		t.Errorf("%d requests, want at least 60", n)
	}
}
