package vendorbatch_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/vendorbatch"
)

// What the vendor charges for is priced, also if its response is of no use.
func TestFailedResponsesHaveTheirUsage(t *testing.T) {
	row := func(stop, content string) string {
		return `{"recordId":"a0","modelOutput":{"output":{"message":{"role":"assistant","content":[` + content + `]}},"stopReason":"` + stop +
			`","usage":{"inputTokens":7,"outputTokens":2,"totalTokens":9}}}`
	}
	in := bedrockInput(1)
	b := &vendorbatch.Batch{ID: "b", InputFileID: "s3://bkt/in.jsonl", Output: "s3://bkt/out/", Status: completed}
	for name, line := range map[string]string{"failed": row("malformed_model_output", `{"text":"x"}`), "empty": row("", "")} {
		fake := newFake(t, map[string]string{"GET s3:/bkt/out/in.jsonl.out": line})
		_, all := mustResults(t, mustVendor(t, "bedrock"), fake, b, in)
		if len(all) != 1 || describe(&all[0]) != "a0 invalid_result" || all[0].Usage.Prompt() != 7 || all[0].Body != nil {
			t.Errorf("%s: the results are %+v", name, all)
		}
	}
}

func TestResponsesWithoutAFinishReasonGetOne(t *testing.T) {
	fake := newFake(t, map[string]string{
		"GET /download/v1beta/files/o:download?alt=media": `{"key":"a0","response":{"candidates":[{"content":{"role":"model","parts":[{"text":"Hi"}]}}]}}`,
	})
	b := &vendorbatch.Batch{ID: "b", Output: "files/o", Status: completed}
	for endpoint, want := range map[string]string{chatURL: `"finish_reason":"stop"`, "/v1/messages": `"stop_reason":"end_turn"`} {
		in := inputOf(endpoint, "gemini-2.5-flash", chatLines(1))
		in.Line = nil
		_, all := mustResults(t, mustVendor(t, "google"), fake, b, in)
		if len(all) != 1 || !strings.Contains(string(all[0].Body), want) {
			t.Errorf("%s: the result is %s, want %s", endpoint, all[0].Body, want)
		}
	}
}

func TestOutputLimitsAreThoseOfTheModel(t *testing.T) {
	const object = "POST gcs:/upload/storage/v1/b/bkt/o?name=modelgate%2Fbatch_own1%2Finput.jsonl&uploadType=media"
	fake := newFake(t, map[string]string{object: "", "POST /v1/projects/p1/locations/europe-west4/batchPredictionJobs": vertexJob})
	in := vertexInput(1)
	lines := text(`{"custom_id":"a","body":{"model":"x","max_tokens":9000000,"labels":{"team":"red","modelgate_line":"other"},"messages":[{"role":"user","content":"hi"}]}}` + "\n")
	in.Lines, in.Line = lines.lines, lines.line
	if _, err := mustVendor(t, "vertex-ai").Create(t.Context(), fake, in); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"maxOutputTokens":65536`, `"labels":{"team":"red","modelgate_line":"modelgateline1"}`} {
		if sent := fake.bodies[object]; !strings.Contains(sent, want) {
			t.Errorf("the object %s lacks %s", sent, want)
		}
	}
}

func TestFullMetadataIsSentUnchanged(t *testing.T) {
	fake := newFake(t, map[string]string{"POST /files": `{"id":"f"}`, "POST /batches": openAIBatch})
	in := inputOf(chatURL, "m", chatLines(1))
	in.Metadata = map[string]string{}
	for i := range 16 {
		in.Metadata[fmt.Sprint("k", i)] = "v"
	}
	if _, err := mustVendor(t, "openai").Create(t.Context(), fake, in); err != nil {
		t.Fatal(err)
	}
	if sent := fake.bodies["POST /batches"]; strings.Count(sent, `":"v"`) != 16 || strings.Contains(sent, "modelgate_record") {
		t.Errorf("the batch is created with %s", sent)
	}
}

func TestTimesAreSeconds(t *testing.T) {
	for given, want := range map[string]int64{
		"1711471533": 1711471533, "1711471533000": 1711471533, `"1711471533"`: 1711471533, `"2024-03-26T16:45:33.999Z"`: 1711471533,
		`"2024-03-26T17:45:33+01:00"`: 1711471533, `"2024-03-26T16:45:33"`: 1711471533, "null": 0, `"soon"`: 0, "-5": 0, "1e300": 0, "{}": 0,
	} {
		b, err := mustVendor(t, "openai").Get(t.Context(), newFake(t, map[string]string{"GET /batches/b": `{"id":"b","created_at":` + given + `}`}), "b")
		if err != nil || b.CreatedAt != want {
			t.Errorf("%s: %+v, %v, want %d", given, b, err, want)
		}
	}
}

// zeros is an endless stream of spaces with a length.
type zeros int64

func (z *zeros) Read(p []byte) (int, error) {
	n := min(int64(len(p)), int64(*z))
	if *z -= zeros(n); n == 0 {
		return 0, io.EOF
	}
	for i := range n {
		p[i] = ' '
	}
	return int(n), nil
}

func (z *zeros) Close() error { return nil }

func TestEndlessResponsesAreErrors(t *testing.T) {
	fake := newFake(t, nil)
	fake.stream = map[string]func() io.ReadCloser{
		"GET /batches/b":         func() io.ReadCloser { z := zeros(65 << 20); return &z },
		"GET /files/out/content": func() io.ReadCloser { z := zeros(65 << 20); return &z },
	}
	v := mustVendor(t, "openai")
	if _, err := v.Get(t.Context(), fake, "b"); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("Get(65 MB) = %v", err)
	}
	n := 0
	for _, err := range v.Results(t.Context(), fake, &vendorbatch.Batch{ID: "b", OutputFileID: "out", Status: completed}, inputOf(chatURL, "m", chatLines(1))) {
		if n++; err == nil || !strings.Contains(err.Error(), "64 MiB") {
			t.Errorf("Results(a line of 65 MB) = %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d results, want an error", n)
	}
	long := `{"id":"` + strings.Repeat("x", 2000) + `"}`
	if _, err := v.Get(t.Context(), newFake(t, map[string]string{"GET /batches/b": long}), "b"); apierr.From(err).Kind != apierr.UpstreamFailed {
		t.Errorf("Get(a long id) = %v", err)
	}
}

// cut is a stream that breaks off.
type cut struct{ io.Reader }

func (c cut) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (c cut) Close() error { return nil }

func TestResultsThatBreakOffEndInAnError(t *testing.T) {
	fake := newFake(t, nil)
	fake.stream = map[string]func() io.ReadCloser{"GET /files/out/content": func() io.ReadCloser {
		return cut{strings.NewReader(`{"custom_id":"a0","response":{"status_code":200,"body":{"choices":[]}}}` + "\n" + `{"custom_id":"a1","resp`)}
	}}
	var got []string
	for r, err := range mustVendor(t, "openai").Results(t.Context(), fake, &vendorbatch.Batch{ID: "b", OutputFileID: "out", Status: completed},
		inputOf(chatURL, "m", chatLines(3))) {
		if err != nil {
			got = append(got, "error")
			continue
		}
		got = append(got, describe(&r))
	}
	if diff := cmp.Diff([]string{"a0 200", "error"}, got); diff != "" {
		t.Error(diff)
	}
}

// Doubled results are found without the lines, too, as of a file that only the vendor
// has.
func TestDoublesAreFoundWithoutTheLines(t *testing.T) {
	line := `{"custom_id":"a0","response":{"status_code":200,"body":{"choices":[]}}}` + "\n"
	fake := newFake(t, map[string]string{"GET /files/out/content": line + line})
	_, all := mustResults(t, mustVendor(t, "openai"), fake, &vendorbatch.Batch{ID: "b", OutputFileID: "out", Status: completed},
		&vendorbatch.Input{Endpoint: chatURL, FileID: "f"})
	if diff := cmp.Diff([]string{"a0 200", "a0 duplicate_result"}, describeAll(all)); diff != "" {
		t.Error(diff)
	}
}
