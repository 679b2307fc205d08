package vendorbatch_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/stateplane/vendorbatch"
)

// generated is a stream of n lines that are made while they are read.
type generated struct {
	n, at int
	line  func(i int) string
	rest  string
}

func (g *generated) Read(p []byte) (int, error) {
	if g.rest == "" {
		if g.at == g.n {
			return 0, io.EOF
		}
		g.rest = g.line(g.at) + "\n"
		g.at++
	}
	n := copy(p, g.rest)
	g.rest = g.rest[n:]
	return n, nil
}

func (g *generated) Close() error { return nil }

// Results of 100,000 lines of 500 bytes are read with the memory of a few lines and
// the ids of all.
func TestResultsAreStreamedInBoundedMemory(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 10_000
	}
	padding := strings.Repeat("x", 500)
	fake := newFake(t, nil)
	fake.stream = map[string]func() io.ReadCloser{"GET /messages/batches/b/results": func() io.ReadCloser {
		return &generated{n: n, line: func(i int) string {
			return fmt.Sprintf(`{"custom_id":"c%d","result":{"type":"succeeded","message":{"id":"m","type":"message","role":"assistant","model":"claude-sonnet-4-5",`+
				`"content":[{"type":"text","text":%q}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}}}`, n-1-i, padding)
		}}
	}}
	in := &vendorbatch.Input{Endpoint: chatURL, Model: "claude-sonnet-4-5", Lines: repeated(n, oneMessage)}
	b := &vendorbatch.Batch{ID: "b", Status: completed, Output: "b"}
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	results, largest, out := 0, uint64(0), []byte(nil)
	for r, err := range mustVendor(t, "anthropic").Results(t.Context(), fake, b, in) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Failed() || r.Usage.Output != 2 {
			t.Fatalf("the result %d is %s", results, r.Append(nil))
		}
		out = r.Append(out[:0])
		if results++; results%10_000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			largest = max(largest, now.HeapAlloc)
		}
	}
	if results != n {
		t.Errorf("%d results, want %d", results, n)
	}
	if grown := int64(largest) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("reading the results needed %d MB", grown>>20)
	}
}

// The upload of an input is made while it is sent.
func TestInputsAreUploadedInBoundedMemory(t *testing.T) {
	n := 20_000
	if testing.Short() {
		n = 5000
	}
	body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 2000) + `"}]}`
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	reader := uploadSink{fakeVendor: newFake(t, map[string]string{"POST /batches": openAIBatch})}
	in := &vendorbatch.Input{Endpoint: chatURL, Model: "other", Lines: repeated(n, body)}
	if _, err := mustVendor(t, "openai").Create(t.Context(), &reader, in); err != nil {
		t.Fatal(err)
	}
	if reader.bytes != reader.length || reader.bytes < int64(n)*2000 {
		t.Errorf("%d bytes of %d were sent", reader.bytes, reader.length)
	}
	if grown := int64(reader.largest) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("the upload needed %d MB", grown>>20)
	}
}

// A result comes back for each line, with its own content, in whatever order the vendor
// has them, and whatever the custom ids look like.
func TestLinesComeBackOneToOne(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.OneOf(rapid.StringMatching(`[a-zA-Z0-9_:./ é"-]{1,70}`), rapid.StringMatching(`modelgateline[0-9]x?[0-9]?`)),
			1, 12, rapid.ID[string]).Draw(r, "ids")
		var lines text
		for i, id := range ids {
			lines += text(fmt.Sprintf(`{"custom_id":%s,"url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"of %d"}]}}`+"\n",
				jsonedit.AppendString(nil, id), i))
		}
		in := inputOf(chatURL, "claude-sonnet-4-5", lines)
		fake := newFake(t, map[string]string{"POST /messages/batches": anthropicEnded})
		v := mustVendor(t, "anthropic")
		if _, err := v.Create(t.Context(), fake, in); err != nil {
			r.Fatal(err)
		}
		fake.routes["GET /messages/batches/b/results"] = echo(r, fake.bodies["POST /messages/batches"], rapid.Int64().Draw(r, "seed"))
		seen := map[string]bool{}
		for res, err := range v.Results(t.Context(), fake, &vendorbatch.Batch{ID: "b", Status: completed, Output: "b"}, in) {
			if err != nil {
				r.Fatal(err)
			}
			if res.Failed() || seen[res.CustomID] {
				r.Fatalf("the result is %s", res.Append(nil))
			}
			seen[res.CustomID] = true
			for i, id := range ids {
				if id == res.CustomID && !strings.Contains(string(res.Body), fmt.Sprintf(`"content":"of %d"`, i)) {
					r.Fatalf("the result of line %d is %s", i, res.Body)
				}
			}
		}
		for _, id := range ids {
			if !seen[id] {
				r.Fatalf("line %q has no result", id)
			}
		}
		if len(seen) != len(ids) {
			r.Fatalf("%d results of %d lines", len(seen), len(ids))
		}
	})
}

// echo answers each request of Anthropic's format with its own text, in random order.
func echo(r *rapid.T, body string, seed int64) string {
	v, err := jsonedit.ParseValue([]byte(body))
	if err != nil {
		r.Fatal(err)
	}
	var lines []string
	requests, _ := v.Get("requests")
	for request := range requests.Elements() {
		params, _ := request.Get("params")
		messages, _ := params.Get("messages")
		said := ""
		for m := range messages.Elements() {
			content, _ := m.Get("content")
			said = string(content.Raw())
			if content.Kind() == jsonedit.Array {
				for part := range content.Elements() {
					text, _ := part.Get("text")
					said = string(text.Raw())
				}
			}
		}
		id, _ := request.Get("custom_id")
		lines = append(lines, fmt.Sprintf(`{"custom_id":%s,"result":{"type":"succeeded","message":{"id":"m","type":"message","role":"assistant","model":"m",`+
			`"content":[{"type":"text","text":%s}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}}}`, id.Raw(), said))
	}
	rand.New(rand.NewPCG(uint64(seed), 1)).Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	return strings.Join(lines, "\n")
}
