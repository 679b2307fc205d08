package vendorbatch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"mime"
	"mime/multipart"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/model/llm"
	"modelgate/internal/stateplane/vendorbatch"
	"modelgate/internal/stateplane/vendorcall"
)

// fakeVendor answers requests by "METHOD [service:]path?query", and records them.
type fakeVendor struct {
	t       *testing.T
	routes  map[string]string // bodies of responses; "!409 body" has a status, "^Header: value" a header
	calls   []string
	bodies  map[string]string
	headers map[string]http.Header
	down    map[string]error
	stream  map[string]func() io.ReadCloser
}

var services = []string{"", vendorcall.ServiceHost, vendorcall.ServiceBedrock, vendorcall.ServiceS3, vendorcall.ServiceGCS}

func newFake(t *testing.T, routes map[string]string) *fakeVendor {
	return &fakeVendor{t: t, routes: routes, bodies: map[string]string{}, headers: map[string]http.Header{}}
}

func (f *fakeVendor) Call(_ context.Context, r *vendorcall.Request) (*vendorcall.Response, error) {
	name := r.Path
	if !slices.Contains(services, r.Service) || r.Link != "" && r.Service+r.Path+r.Query != "" {
		f.t.Errorf("the request %+v has no valid address", r)
	}
	if r.Service != "" {
		name = r.Service + ":" + name
	}
	if r.Link != "" {
		name = r.Link
	}
	if r.Query != "" {
		name += "?" + r.Query
	}
	name = r.Method + " " + name
	f.calls = append(f.calls, name)
	f.headers[name] = r.Header
	if r.Body != nil {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if int64(len(data)) != r.Length {
			f.t.Errorf("%s: the body has %d bytes, and its length is %d", name, len(data), r.Length)
		}
		f.bodies[name] = string(data)
	}
	if err := f.down[name]; err != nil {
		return nil, err
	}
	if open := f.stream[name]; open != nil {
		return &vendorcall.Response{Status: 200, Header: http.Header{}, Body: open()}, nil
	}
	return reply(f.t, name, f.routes), nil
}

func reply(t *testing.T, name string, routes map[string]string) *vendorcall.Response {
	body, ok := routes[name]
	if !ok {
		t.Errorf("unexpected request %s", name)
		body = "!404 no such route"
	}
	res := &vendorcall.Response{Status: 200, Header: http.Header{}}
	if rest, ok := strings.CutPrefix(body, "!"); ok {
		if _, err := fmt.Sscanf(rest, "%d", &res.Status); err != nil {
			t.Fatal(err)
		}
		_, body, _ = strings.Cut(rest, " ")
	}
	for strings.HasPrefix(body, "^") {
		line, rest, _ := strings.Cut(body[1:], "\n")
		key, value, _ := strings.Cut(line, ": ")
		res.Header.Set(key, value)
		body = rest
	}
	res.Body = io.NopCloser(strings.NewReader(body))
	return res
}

// file returns the fields and the file of a form that was sent.
func (f *fakeVendor) file(name string) (fields map[string]string, content string) {
	f.t.Helper()
	return f.fileOf(name, "file")
}

func (f *fakeVendor) fileOf(name, member string) (fields map[string]string, content string) {
	f.t.Helper()
	_, params, err := mime.ParseMediaType(f.headers[name].Get("Content-Type"))
	if err != nil {
		f.t.Fatal(err)
	}
	fields = map[string]string{}
	r := multipart.NewReader(strings.NewReader(f.bodies[name]), params["boundary"])
	for {
		part, err := r.NextPart()
		if err == io.EOF {
			return fields, content
		}
		if err != nil {
			f.t.Fatal(err)
		}
		data, err := io.ReadAll(part)
		if err != nil {
			f.t.Fatal(err)
		}
		if part.FormName() == member {
			fields["filename"], content = part.FileName(), string(data)
		} else {
			fields[part.FormName()] = string(data)
		}
	}
}

// text is an input in memory: lines of JSON.
type text string

func (s text) lines() iter.Seq2[vendorbatch.Line, error] {
	return func(yield func(vendorbatch.Line, error) bool) {
		offset := int64(0)
		for n := 1; offset < int64(len(s)); n++ {
			line, err := s.line(offset)
			if line.Number = n; !yield(line, err) {
				return
			}
			rest := strings.IndexByte(string(s[offset:]), '\n')
			offset += int64(rest) + 1
		}
	}
}

func (s text) line(offset int64) (vendorbatch.Line, error) {
	raw, _, _ := strings.Cut(string(s[offset:]), "\n")
	var v struct {
		CustomID string          `json:"custom_id"`
		URL      string          `json:"url"`
		Body     json.RawMessage `json:"body"`
	}
	err := json.Unmarshal([]byte(raw), &v)
	return vendorbatch.Line{Offset: offset, CustomID: v.CustomID, Method: "POST", URL: v.URL, Body: v.Body}, err
}

// inputOf returns an input with lines.
func inputOf(endpoint, model string, lines text) *vendorbatch.Input {
	return &vendorbatch.Input{Endpoint: endpoint, Window: "24h", Model: model, OwnID: "batch_own1", Lines: lines.lines, Line: lines.line}
}

const chatURL = "/v1/chat/completions"

// chatLines returns n lines with the ids a0, a1 ….
func chatLines(n int) text {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"custom_id":"a%d","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"number %d"}]}}`+"\n", i, i)
	}
	return text(b.String())
}

func mustVendor(t *testing.T, id string) *vendorbatch.Vendor {
	t.Helper()
	v, ok := vendorbatch.For(id)
	if !ok {
		t.Fatalf("For(%q) found no vendor", id)
	}
	return v
}

// mustResults returns the results of a batch as unified lines.
func mustResults(t *testing.T, v *vendorbatch.Vendor, c vendorcall.Caller, b *vendorbatch.Batch, in *vendorbatch.Input) (lines []string, all []vendorbatch.Result) {
	t.Helper()
	for r, err := range v.Results(t.Context(), c, b, in) {
		if err != nil {
			t.Fatal(err)
		}
		line := r.Append(nil)
		if !json.Valid(line) || bytes.ContainsAny(line, "\r\n") {
			t.Errorf("the result %q is not a line of JSON", line)
		}
		r.Body, r.Raw = bytes.Clone(r.Body), bytes.Clone(r.Raw)
		lines, all = append(lines, string(line)), append(all, r)
	}
	return lines, all
}

// describe returns what a result is: its custom_id and its status or code.
func describe(r *vendorbatch.Result) string {
	if r.Error != nil {
		return r.CustomID + " " + r.Error.Code
	}
	return fmt.Sprint(r.CustomID, " ", r.Status)
}

func describeAll(all []vendorbatch.Result) (list []string) {
	for i := range all {
		list = append(list, describe(&all[i]))
	}
	return list
}

// uploadSink reads uploads without holding them, and measures the heap while it does.
type uploadSink struct {
	*fakeVendor
	bytes, length int64
	largest       uint64
}

func (u *uploadSink) Call(ctx context.Context, r *vendorcall.Request) (*vendorcall.Response, error) {
	if r.Path != "/files" {
		return u.fakeVendor.Call(ctx, r)
	}
	u.length = r.Length
	buf := make([]byte, 32<<10)
	for step := 0; ; step++ {
		n, err := r.Body.Read(buf)
		if u.bytes += int64(n); step%400 == 0 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			u.largest = max(u.largest, m.HeapAlloc)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return &vendorcall.Response{Status: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"id":"file-1"}`))}, nil
}

func knownUsage(input, cached, output, reasoning int64) llm.Usage {
	return llm.Usage{Input: input, CachedInput: cached, Output: output, Reasoning: reasoning, Known: true}
}
