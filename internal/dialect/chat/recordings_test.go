package chat_test

import (
	"encoding/json"
	"io"
	"maps"
	"math"
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
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

const recordings = "../../../../shared/recordings"

var recordedOperations = map[string]api.Operation{
	"chat-completions": api.Chat,
	"completions":      api.Completions,
	"embeddings":       api.Embeddings,
	"images":           api.Images,
	"audio":            api.AudioTranscriptions,
}

type recorded struct {
	file     string
	op       api.Operation
	Provider string
	API      string
	Request  struct{ Body json.RawMessage }
	Response struct {
		Status int
		Body   string
	}
}

// mustRecorded returns every exchange of the APIs of this dialect.
func mustRecorded(t *testing.T) []recorded {
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
			if op, ok := recordedOperations[e.API]; ok {
				e.file, e.op = strings.TrimPrefix(file, recordings), op
				all = append(all, e)
			}
		}
	}
	if len(all) < 300 {
		t.Fatalf("%d exchanges recorded, want at least 300", len(all))
	}
	return all
}

func (r *recorded) streamed() bool {
	return strings.HasPrefix(r.Response.Body, "data:") || strings.HasPrefix(r.Response.Body, ":") || strings.HasPrefix(r.Response.Body, "event:")
}

// readAll runs a response through a tap as it comes from r.
func readAll(t testing.TB, op api.Operation, r io.Reader) dialect.ResponseInfo {
	t.Helper()
	tap := chat.Dialect{}.NewTap(op)
	events := sse.NewReader(r, 1<<20)
	for {
		e, err := events.Next()
		if err == io.EOF {
			return *tap.Info()
		}
		if err != nil {
			t.Fatal(err)
		}
		tap.Event(e)
	}
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

func TestTapReadsRecordedResponses(t *testing.T) {
	var streams, bodies, withUsage int
	for _, r := range mustRecorded(t) {
		want := plainly(r.op, r.Response.Body, r.streamed())
		if want.Usage.Known {
			withUsage++
		}
		if !r.streamed() {
			bodies++
			tap := chat.Dialect{}.NewTap(r.op)
			tap.Body([]byte(r.Response.Body))
			if diff := cmp.Diff(want, *tap.Info(), uncounted); diff != "" {
				t.Errorf("%s (-want +got):\n%s", r.file, diff)
			}
			continue
		}
		streams++
		for name, reader := range map[string]io.Reader{
			"whole":          strings.NewReader(r.Response.Body),
			"byte by byte":   iotest.OneByteReader(strings.NewReader(r.Response.Body)),
			"cut at random":  &cuts{r.Response.Body, rand.New(rand.NewPCG(1, 2))},
			"cut once again": &cuts{r.Response.Body, rand.New(rand.NewPCG(3, 4))},
		} {
			if diff := cmp.Diff(want, readAll(t, r.op, reader), uncounted); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", r.file, name, diff)
			}
		}
	}
	t.Logf("%d streams, %d bodies, %d with usage", streams, bodies, withUsage)
	if streams < 60 || bodies < 200 || withUsage < 250 {
		t.Errorf("%d streams, %d bodies, %d with usage: too few to show anything", streams, bodies, withUsage)
	}
}

func TestCheckPassesWhatClientsSent(t *testing.T) {
	n := 0
	for _, r := range mustRecorded(t) {
		if len(r.Request.Body) == 0 || r.Request.Body[0] != '{' || r.op == api.AudioTranscriptions {
			continue
		}
		n++
		err := checkBody(t, r.op, string(r.Request.Body))
		switch {
		case strings.Contains(string(r.Request.Body), `"max_tokens":-1`) || strings.Contains(string(r.Request.Body), `"max_tokens": -1`):
			if outcome(err) != "max_tokens"+valueOf { // the provider refused it too
				t.Errorf("%s: Check = %v, want max_tokens refused", r.file, err)
			}
		case r.op == api.Embeddings && !strings.Contains(string(r.Request.Body), `"input"`):
			if outcome(err) != "input"+missingOf { // a provider's own form
				t.Errorf("%s: Check = %v, want input missing", r.file, err)
			}
		case err != nil:
			t.Errorf("%s: Check = %v (param %s), want none", r.file, err, err.Param)
		}
	}
	if n < 200 {
		t.Errorf("%d requests recorded, want at least 200", n)
	}
}

// plainly reads a response by decoding it, without regard to speed.
func plainly(op api.Operation, body string, streamed bool) dialect.ResponseInfo {
	p := &plain{conversation: op == api.Chat || op == api.Completions, numbers: map[string]int64{}, reasons: map[int]string{}}
	if !streamed {
		var v map[string]any
		if json.Unmarshal([]byte(body), &v) != nil {
			return dialect.ResponseInfo{Begun: true, Finished: !p.conversation}
		}
		p.object(v)
		if !p.conversation && p.seen.Failed == "" {
			p.seen.Begun, p.seen.Finished = true, true
		}
		if list, ok := v["data"].([]any); ok && op == api.Images {
			p.seen.Images = int64(len(list))
		}
		if usage, _ := v["usage"].(map[string]any); usage["type"] == "duration" {
			seconds, _ := usage["seconds"].(float64)
			p.seen.AudioMillis = int64(seconds * 1000)
		}
		if seconds, ok := v["duration"].(float64); ok {
			p.seen.AudioMillis = max(p.seen.AudioMillis, int64(math.Round(seconds*1000)))
		}
		if op == api.Embeddings && p.seen.Usage.Total() == 0 {
			p.seen.Usage.Known = false
		}
		return p.seen
	}
	for line := range strings.SplitSeq(body, "\n") {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:")
		if !ok {
			continue
		}
		if strings.TrimSpace(data) == "[DONE]" {
			p.seen.Terminated = true
			continue
		}
		var v map[string]any
		if json.Unmarshal([]byte(data), &v) == nil {
			p.object(v)
		}
	}
	return p.seen
}

type plain struct {
	conversation bool
	seen         dialect.ResponseInfo
	numbers      map[string]int64
	reasons      map[int]string
}

func (p *plain) object(v map[string]any) {
	if m, _ := v["model"].(string); p.seen.Model == "" {
		p.seen.Model = m
	}
	if tier, ok := v["service_tier"].(string); ok {
		if p.seen.Tier = tier; slices.Contains([]string{"default", "standard", "auto"}, tier) {
			p.seen.Tier = ""
		}
	}
	if e, ok := v["error"].(map[string]any); ok {
		p.seen.Failed = e["message"].(string)
	}
	for i, c := range list(v["choices"]) {
		p.choice(i, c.(map[string]any))
	}
	p.seen.Finish = p.reasons[0]
	p.seen.Finished = len(p.reasons) > 0
	for _, reason := range p.reasons {
		p.seen.Finished = p.seen.Finished && reason != ""
	}
	if u, ok := v["usage"].(map[string]any); ok {
		p.flatten("", u)
	}
	if g, ok := v["x_groq"].(map[string]any); ok {
		if u, ok := g["usage"].(map[string]any); ok {
			p.flatten("", u)
		}
	}
	p.usage()
}

func list(v any) []any { l, _ := v.([]any); return l }

func (p *plain) choice(i int, c map[string]any) {
	if index, ok := c["index"].(float64); ok {
		i = int(index)
	}
	reason, _ := c["finish_reason"].(string)
	if p.reasons[i] == "" {
		p.reasons[i] = reason
	}
	message := map[string]any{"text": c["text"]}
	for _, name := range []string{"delta", "message"} {
		m, _ := c[name].(map[string]any)
		maps.Copy(message, m)
	}
	for k, v := range message {
		b, _ := json.Marshal(v)
		if k != "role" && k != "channel" && k != "annotations" && len(b) > 2 && string(b) != "null" {
			p.seen.Begun = true
		}
	}
}

// flatten keeps the largest of each number under its path.
func (p *plain) flatten(path string, v map[string]any) {
	for k, v := range v {
		switch v := v.(type) {
		case float64:
			p.numbers[path+k] = max(p.numbers[path+k], int64(v))
		case map[string]any:
			p.flatten(path+k+".", v)
		}
	}
}

func (p *plain) usage() {
	n := p.numbers
	prompt, completion, total := n["prompt_tokens"]+n["input_tokens"], n["completion_tokens"]+n["output_tokens"], n["total_tokens"]
	if len(n) == 0 || prompt+completion+total == 0 && n["seconds"] > 0 {
		return
	}
	in, out := "prompt_tokens_details.", "completion_tokens_details."
	u := llm.Usage{
		Known:        true,
		CachedInput:  max(n[in+"cached_tokens"], n["cached_tokens"], n["num_cached_tokens"], n["prompt_cache_hit_tokens"]),
		CacheWrite5m: n[in+"cache_write_tokens"],
		InputAudio:   n[in+"audio_tokens"],
		OutputAudio:  n[out+"audio_tokens"],
		Reasoning:    n[out+"reasoning_tokens"],
	}
	switch hidden := total - prompt - completion; {
	case hidden > 0 && p.conversation:
		u.Reasoning = max(u.Reasoning, hidden)
		completion += hidden
	case hidden > 0:
		prompt += hidden
	}
	u.Input = prompt - u.CachedInput - u.CacheWrite5m - u.InputAudio
	u.Output = completion - u.Reasoning - u.OutputAudio
	p.seen.Usage = u
}

// uncounted leaves out what has tests of its own.
var uncounted = cmpopts.IgnoreFields(dialect.ResponseInfo{}, "Written", "Blank")
