package simulator_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/simulator"
	"modelgate/internal/testing/recorder"
)

// A house is a simulator on a socket.
type fixture struct {
	t   *testing.T
	sim *recorder.Recorder
	url string
	key []string // header of every request
}

func mustServe(t *testing.T, opts simulator.Options) *fixture {
	t.Helper()
	return mustRecord(t, recorder.Options{Options: opts})
}

func mustRecord(t *testing.T, opts recorder.Options) *fixture {
	t.Helper()
	sim := recorder.New(opts)
	server := httptest.NewServer(sim)
	t.Cleanup(server.Close)
	return &fixture{t: t, sim: sim, url: server.URL}
}

// A response is what a client got; err is what went wrong while the body was
// read.
type response struct {
	*http.Response
	body string
	err  error
}

// send sends a request with a client that follows no redirect and unpacks
// nothing. The error is that of the request itself.
func (h *fixture) send(method, path, body string, header ...string) (*response, error) {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	header = append(slices.Clone(h.key), header...)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableCompression: true, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return &response{Response: resp, body: string(got), err: err}, nil
}

// mustSend is ask where the request itself must succeed.
func (h *fixture) mustSend(method, path, body string, header ...string) *response {
	h.t.Helper()
	a, err := h.send(method, path, body, header...)
	if err != nil {
		h.t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

func (h *fixture) mustPost(path, body string, header ...string) *response {
	h.t.Helper()
	return h.mustSend(http.MethodPost, path, body, append(header, "Content-Type", "application/json")...)
}

func plain(model string) string {
	return `{"model":"` + model + `","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Say it"}]}`
}

func streamBody(model string) string {
	return `{"stream":true,"stream_options":{"include_usage":true},` + plain(model)[1:]
}

// completion is a chat completion or one chunk of it, as clients decode it.
type completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage"`
	Error   *failure `json:"error"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

type failure struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

type choice struct {
	Index    int       `json:"index"`
	Text     string    `json:"text"`
	Message  message   `json:"message"`
	Delta    message   `json:"delta"`
	Finish   *string   `json:"finish_reason"`
	Logprobs *logprobs `json:"logprobs"`
}

type message struct {
	Role    string      `json:"role"`
	Content string      `json:"content"`
	Call    *namedEvent `json:"function_call"`
	Calls   []struct {
		Index    int        `json:"index"`
		ID       string     `json:"id"`
		Function namedEvent `json:"function"`
	} `json:"tool_calls"`
}

type namedEvent struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type logprobs struct {
	Content []struct {
		Token string `json:"token"`
		Bytes []int  `json:"bytes"`
		Top   []struct {
			Token string `json:"token"`
		} `json:"top_logprobs"`
	} `json:"content"`
	Tokens  []string `json:"tokens"`
	Offsets []int    `json:"text_offset"`
}

func (a *response) mustDecode(t *testing.T) completion {
	t.Helper()
	if a.err != nil {
		t.Fatalf("reading the body: %v", a.err)
	}
	return mustParse(t, a.body)
}

func mustParse(t *testing.T, text string) (c completion) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatalf("decoding %.200q: %v", text, err)
	}
	return c
}

// An event is what stands between two blank lines.
type event struct {
	name, data string
	comments   int
	ended      bool // by a blank line
}

// events reads a stream by the letter: it keeps an event that no blank line
// ends and marks it.
func events(body string) (list []event) {
	lines := bufio.NewScanner(strings.NewReader(strings.TrimPrefix(body, "\ufeff")))
	lines.Buffer(nil, 64<<20)
	var e event
	for lines.Scan() { // which takes LF and CR LF
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case lines.Text() == "":
			e.ended = true
			list = append(list, e)
			e = event{}
		case field == "":
			e.comments++
		case field == "data":
			e.data += value
		case field == "event":
			e.name = value
		}
	}
	if e != (event{}) {
		list = append(list, e)
	}
	return list
}

// content is a stream put together again.
type content struct {
	frames  int // events but [DONE]
	text    map[int]string
	finish  map[int]string
	args    map[int]string // by call of the first choice
	names   map[int]string
	usage   *usage
	errors  int
	broken  int // events that are no JSON
	done    bool
	roleAt1 bool
}

func gather(t *testing.T, body string) content {
	t.Helper()
	s := content{text: map[int]string{}, finish: map[int]string{}, args: map[int]string{}, names: map[int]string{}}
	for i, e := range events(body) {
		if e.data == "[DONE]" {
			s.done = true
			continue
		}
		s.frames++
		var c completion
		if json.Unmarshal([]byte(e.data), &c) != nil {
			s.broken++
			continue
		}
		if c.Error != nil {
			s.errors++
		}
		if c.Usage != nil {
			s.usage = c.Usage
		}
		for _, ch := range c.Choices {
			s.roleAt1 = s.roleAt1 || i == 0 && ch.Delta.Role == "assistant"
			s.add(ch)
		}
	}
	return s
}

func (s *content) add(ch choice) {
	s.text[ch.Index] += ch.Delta.Content + ch.Text
	if ch.Finish != nil {
		s.finish[ch.Index] = *ch.Finish
	}
	for _, call := range ch.Delta.Calls {
		s.names[call.Index] += call.Function.Name
		s.args[call.Index] += call.Function.Arguments
	}
	if ch.Delta.Call != nil {
		s.names[0] += ch.Delta.Call.Name
		s.args[0] += ch.Delta.Call.Arguments
	}
}
