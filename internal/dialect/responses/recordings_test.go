package responses_test

import (
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/responses"
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
	Request  struct{ Body json.RawMessage }
	Response struct {
		Status int
		Body   string
	}
}

// mustRecorded returns every exchange of this protocol.
func mustRecorded(t testing.TB) []recorded {
	t.Helper()
	if _, err := os.Stat(recordings); err != nil {
		t.Skipf("no recordings in %s", recordings)
	}
	files, err := filepath.Glob(filepath.Join(recordings, "*", "*", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []recorded
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var whole struct{ Exchanges []recorded }
		if json.Unmarshal(b, &whole) != nil {
			continue // index.json and the like
		}
		for _, e := range whole.Exchanges {
			if e.API == "responses" {
				e.file = strings.TrimPrefix(file, recordings)
				all = append(all, e)
			}
		}
	}
	if len(all) < 90 {
		t.Fatalf("%d exchanges recorded, want at least 90", len(all))
	}
	return all
}

// said is what a response says, as an independent reading finds it.
type said struct {
	Texts, Thoughts, Refusals, Calls, Others []string
	Cites                                    int
	Images, Signatures                       []string
	Stop                                     llm.StopReason
	Usage                                    llm.Usage
	Model                                    string
	Fault                                    string
}

// plainly reads a response object by decoding it.
func plainly(t *testing.T, body []byte) said {
	t.Helper()
	var r struct {
		Model, Status     string
		Error             *struct{ Message string }
		IncompleteDetails *struct{ Reason string } `json:"incomplete_details"`
		Output            []map[string]any
		Usage             *struct {
			Input        int64 `json:"input_tokens"`
			Output       int64 `json:"output_tokens"`
			InputDetails struct {
				Cached int64 `json:"cached_tokens"`
				Write  int64 `json:"cache_write_tokens"`
			} `json:"input_tokens_details"`
			OutputDetails struct {
				Reasoning int64 `json:"reasoning_tokens"`
			} `json:"output_tokens_details"`
		}
	}
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatal(err)
	}
	s := said{Model: r.Model, Stop: llm.StopEnd}
	for _, item := range r.Output {
		s.item(item)
	}
	switch {
	case r.Error != nil:
		s.Fault = r.Error.Message
	case r.Status == "incomplete" && r.IncompleteDetails.Reason == "content_filter":
		s.Stop = llm.StopFilter
	case r.Status == "incomplete":
		s.Stop = llm.StopLength
	case len(s.Calls) > 0:
		s.Stop = llm.StopTool
	case len(s.Refusals) > 0:
		s.Stop = llm.StopRefusal
	}
	if u := r.Usage; u != nil {
		s.Usage = llm.Usage{
			Known: true, Input: u.Input - u.InputDetails.Cached - u.InputDetails.Write, CachedInput: u.InputDetails.Cached,
			CacheWrite5m: u.InputDetails.Write, Output: u.Output - u.OutputDetails.Reasoning, Reasoning: u.OutputDetails.Reasoning,
		}
	}
	return s
}

func (s *said) item(item map[string]any) {
	str := func(v any) string { text, _ := v.(string); return text }
	texts := func(v any) string {
		list, _ := v.([]any)
		var out []string
		for _, e := range list {
			out = append(out, str(e.(map[string]any)["text"]))
		}
		return strings.Join(out, "\n\n")
	}
	switch typ := str(item["type"]); typ {
	case "message":
		list, _ := item["content"].([]any)
		for _, e := range list {
			part := e.(map[string]any)
			if str(part["type"]) == "refusal" {
				s.Refusals = append(s.Refusals, str(part["refusal"]))
				continue
			}
			s.Texts = append(s.Texts, str(part["text"]))
			cites, _ := part["annotations"].([]any)
			s.Cites += len(cites)
		}
	case "reasoning":
		for _, text := range []string{texts(item["summary"]), texts(item["content"])} {
			if text != "" {
				s.Thoughts = append(s.Thoughts, text)
			}
		}
		if sign := str(item["encrypted_content"]); sign != "" {
			s.Signatures = append(s.Signatures, sign)
		}
	case "function_call":
		s.Calls = append(s.Calls, str(item["call_id"])+" "+str(item["name"])+" "+str(item["arguments"]))
	case "custom_tool_call":
		s.Calls = append(s.Calls, str(item["call_id"])+" "+str(item["name"])+" "+str(item["input"]))
	case "image_generation_call":
		s.Images = append(s.Images, str(item["result"]))
	default:
		s.Others = append(s.Others, typ)
	}
}

// told is what a neutral answer says.
func told(r *llm.Response) said {
	c := r.Choices[0]
	s := said{Model: r.Model, Stop: c.Stop, Usage: r.Usage}
	for _, p := range c.Parts {
		switch part := p.(type) {
		case llm.Text:
			s.Texts = append(s.Texts, part.Text)
			s.Cites += len(part.Citations)
		case llm.Refusal:
			s.Refusals = append(s.Refusals, part.Text)
		case llm.Thinking:
			if part.Text != "" {
				s.Thoughts = append(s.Thoughts, part.Text)
			}
			if part.Signature.Value != "" {
				s.Signatures = append(s.Signatures, part.Signature.Value)
			}
		case llm.ToolCall:
			s.Calls = append(s.Calls, part.ID+" "+part.Name+" "+part.Arguments)
		case llm.Media:
			s.Images = append(s.Images, part.Data)
		case llm.Native:
			s.Others = append(s.Others, part.Type)
		}
	}
	return s
}

func target(r *recorded) dialect.RequestTarget {
	return dialecttest.TargetOf(r.Provider, "m")
}

func TestRecordedResponsesDecodeToTheirContent(t *testing.T) {
	n := 0
	for _, r := range mustRecorded(t) {
		if r.Stream || r.Response.Status != 200 {
			continue
		}
		n++
		want := plainly(t, []byte(r.Response.Body))
		got, err := responses.Dialect{}.DecodeResponse([]byte(r.Response.Body), nil, target(&r))
		if err != nil {
			t.Errorf("%s: %v", r.file, err)
			continue
		}
		if diff := cmp.Diff(want, told(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", r.file, diff)
		}
	}
	if n < 50 {
		t.Errorf("%d answers, want at least 50", n)
	}
}

// lastResponse is the response object of a stream's last event, with the items
// as the events gave them out, and the message of an error event.
func lastResponse(t *testing.T, stream string) (body []byte, fault string) {
	t.Helper()
	items := map[int]json.RawMessage{}
	for line := range strings.SplitSeq(stream, "\n") {
		data, ok := strings.CutPrefix(line, "data:")
		if !ok {
			continue
		}
		var e struct {
			Type     string
			Index    int `json:"output_index"`
			Item     json.RawMessage
			Response map[string]json.RawMessage
			Error    *struct{ Message string }
		}
		if json.Unmarshal([]byte(data), &e) != nil {
			continue
		}
		switch e.Type {
		case "response.output_item.done":
			items[e.Index] = e.Item
		case "error":
			if fault == "" {
				fault = e.Error.Message
			}
		case "response.completed", "response.incomplete", "response.failed":
			var output []json.RawMessage
			for i := range len(items) {
				output = append(output, items[i])
			}
			e.Response["output"], _ = json.Marshal(output)
			body, _ = json.Marshal(e.Response)
		}
	}
	return body, fault
}

// edited reports whether the deltas of a recording say something else than the
// whole texts: authors have shortened some.
func edited(stream string) bool {
	texts, whole := map[[2]int]string{}, map[[2]int]string{}
	for line := range strings.SplitSeq(stream, "\n") {
		var e struct {
			Type, Delta, Text string
			Output            int `json:"output_index"`
			Content           int `json:"content_index"`
		}
		data, _ := strings.CutPrefix(line, "data:")
		if json.Unmarshal([]byte(data), &e) != nil {
			continue
		}
		at := [2]int{e.Output, e.Content}
		switch e.Type {
		case "response.output_text.delta":
			texts[at] += e.Delta
		case "response.output_text.done":
			whole[at] = e.Text
		}
	}
	for at, text := range whole {
		if !strings.HasPrefix(text, texts[at]) {
			return true
		}
	}
	return false
}

func assembled(t *testing.T, r *recorded, from io.Reader) (*llm.Response, *llm.ProviderError, bool) {
	t.Helper()
	frames, err := dialecttest.ServerSentEvents(from)
	if err != nil {
		t.Fatal(err)
	}
	d := responses.Dialect{}.NewDecoder(nil, target(r))
	var events []llm.Event
	for _, frame := range frames {
		events = d.Decode(events, frame)
	}
	events = d.End(events)
	if why := dialecttest.CheckEventOrder(events); why != "" {
		t.Errorf("%s: %s", r.file, why)
	}
	var a dialect.Assembler
	for i := range events {
		a.Add(&events[i])
	}
	return a.Response()
}

// cuts returns a text in pieces of random length.
type cuts struct {
	text string
	r    *rand.Rand
}

func (c *cuts) Read(p []byte) (int, error) {
	if c.text == "" {
		return 0, io.EOF
	}
	n := min(1+c.r.IntN(700), len(p), len(c.text))
	copy(p, c.text[:n])
	c.text = c.text[n:]
	return n, nil
}

func TestRecordedStreamsDecodeToWhatTheySay(t *testing.T) {
	n := 0
	for _, r := range mustRecorded(t) {
		if !r.Stream || r.Response.Status != 200 {
			continue
		}
		body, fault := lastResponse(t, r.Response.Body)
		if edited(r.Response.Body) {
			continue
		}
		n++
		for name, reader := range map[string]io.Reader{
			"whole":         strings.NewReader(r.Response.Body),
			"byte by byte":  iotest.OneByteReader(strings.NewReader(r.Response.Body)),
			"cut at random": &cuts{r.Response.Body, rand.New(rand.NewPCG(1, 2))},
		} {
			got, failed, whole := assembled(t, &r, reader)
			switch {
			case fault != "":
				if failed == nil || failed.Message != fault || whole {
					t.Errorf("%s, %s: fault %v, whole %t, want %q", r.file, name, failed, whole, fault)
				}
			case body == nil:
				if whole || failed != nil {
					t.Errorf("%s, %s: whole %t with fault %v, but the recording has no last event", r.file, name, whole, failed)
				}
			case !whole:
				t.Errorf("%s, %s: not whole", r.file, name)
			default:
				if diff := cmp.Diff(plainly(t, body), told(got)); diff != "" {
					t.Errorf("%s, %s (-want +got):\n%s", r.file, name, diff)
				}
				same(t, r, body, got)
			}
		}
	}
	if n < 40 {
		t.Errorf("%d streams, want at least 40", n)
	}
}

// same compares a streamed response with the response object it ended in.
func same(t *testing.T, r recorded, body []byte, streamed *llm.Response) {
	t.Helper()
	whole, err := responses.Dialect{}.DecodeResponse(body, nil, target(&r))
	if err != nil {
		t.Errorf("%s: %v", r.file, err)
		return
	}
	options := append(dialecttest.Same(),
		cmpopts.IgnoreFields(llm.Response{}, "ID", "ServiceTier", "Created"), // some change them on the way
		cmpopts.IgnoreFields(llm.Thinking{}, "ID"),
		cmpopts.IgnoreFields(llm.Logprob{}, "Bytes"), cmpopts.EquateApprox(0, 1e-5)) // rounded in the end
	if diff := cmp.Diff(whole, streamed, options...); diff != "" {
		t.Errorf("%s: streamed, the response is another (-whole +streamed):\n%s", r.file, diff)
	}
}

func TestTapReadsRecordedResponses(t *testing.T) {
	for _, r := range mustRecorded(t) {
		tap := responses.Dialect{}.NewTap(api.Responses)
		if !r.Stream {
			tap.Body([]byte(r.Response.Body))
			seen := tap.Info()
			if r.Response.Status != 200 {
				if seen.Failed == "" || seen.Finished {
					t.Errorf("%s: Seen = %+v, want a failure", r.file, *seen)
				}
				continue
			}
			want := plainly(t, []byte(r.Response.Body))
			if seen.Model != want.Model || seen.Usage != want.Usage || !seen.Finished || !seen.Begun || seen.Finish == "" {
				t.Errorf("%s: Seen = %+v, want %+v", r.file, *seen, want)
			}
			continue
		}
		events := sse.NewReader(strings.NewReader(r.Response.Body), 1<<20)
		for e, err := events.Next(); err == nil; e, err = events.Next() {
			tap.Event(e)
		}
		seen := tap.Info()
		body, fault := lastResponse(t, r.Response.Body)
		if seen.Terminated != (body != nil) || seen.Failed != fault {
			t.Errorf("%s: Seen = %+v, want the end %t and the failure %q", r.file, *seen, body != nil, fault)
		}
		if body == nil || fault != "" {
			continue
		}
		if want := plainly(t, body); seen.Model != want.Model || seen.Usage != want.Usage || !seen.Begun || !seen.Finished {
			t.Errorf("%s: Seen = %+v, want %+v", r.file, *seen, want)
		}
	}
}

func TestRecordedRequestsPassAndComeBack(t *testing.T) {
	n := 0
	for _, r := range mustRecorded(t) {
		if len(r.Request.Body) == 0 || r.Request.Body[0] != '{' {
			continue
		}
		n++
		var d jsonedit.Doc
		if err := d.Scan(r.Request.Body); err != nil {
			t.Fatal(err)
		}
		if err := (responses.Dialect{}).Check(api.Responses, &d); err != nil {
			t.Errorf("%s: Check = %v", r.file, err)
		}
		req, err := responses.Dialect{}.DecodeRequest(r.Request.Body)
		if err != nil {
			refused, _ := errors.AsType[*apierr.Error](err)
			if !strings.Contains(string(r.Request.Body), `"`+refused.Param+`"`) && r.Response.Status == 200 {
				t.Errorf("%s: DecodeRequest = %v", r.file, err)
			}
			continue
		}
		body, fates, err := responses.Dialect{}.EncodeRequest(nil, req, dialecttest.TargetOf("openai", req.Model))
		if err != nil || len(fates) > 0 {
			t.Errorf("%s: EncodeRequest told %v, %v", r.file, fates, err)
		}
		if diff := cmp.Diff(canonical(t, r.Request.Body), canonical(t, body)); diff != "" {
			t.Errorf("%s came back otherwise (-want +got):\n%s", r.file, diff)
		}
	}
	if n < 60 {
		t.Errorf("%d requests recorded, want at least 60", n)
	}
}

// canonical decodes a request so that what means the same is equal.
func canonical(t *testing.T, body []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	if text, ok := v["input"].(string); ok {
		v["input"] = []any{map[string]any{"role": "user", "content": text}}
	}
	if v["stream"] == false {
		delete(v, "stream")
	}
	delete(v, "stream_options")
	if list, ok := v["include"].([]any); ok {
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	}
	dropNulls(v)
	for _, e := range v["input"].([]any) {
		item := e.(map[string]any)
		if item["type"] == "message" {
			delete(item, "type")
		}
		for _, name := range []string{"content", "output"} {
			if list, ok := item[name].([]any); ok && len(list) == 1 {
				if part := list[0].(map[string]any); part["text"] != nil && item["type"] != "reasoning" {
					item[name] = part["text"]
				}
			}
		}
	}
	return v
}

func dropNulls(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, m := range v {
			if list, ok := m.([]any); m == nil || ok && len(list) == 0 {
				delete(v, k)
				continue
			}
			dropNulls(m)
		}
	case []any:
		for _, e := range v {
			dropNulls(e)
		}
	}
}
