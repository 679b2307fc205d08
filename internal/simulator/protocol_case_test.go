package simulator_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// object is a decoded JSON object.
type object = map[string]any

// A question is a request in no protocol.
type question struct {
	system string
	user   string
	tools  []string // names; each takes a city
	tool   string   // the one that is chosen
	limit  int
	stops  []string
	schema bool
	think  bool
}

var simpleQuestion = question{user: "Say it"}

// parsed is a response in no protocol.
type parsed struct {
	text, refusal, thinking, sign string
	calls                         []readCall
	stop                          string
	prompt, completion, cached    int // prompt with all caches
	images                        int
	fault                         string // an error in the response
	ended                         bool   // a stream by what ends it
	broken                        int    // frames that are no JSON
	frames                        int
}

type readCall struct{ id, name, arguments string }

// A protocolCase is one protocol as a client of its provider speaks it.
type protocolCase struct {
	name   string
	path   func(model string, readStream bool) string
	body   func(q question) object
	header []string
	// where the model and the request for a stream are, if in the body
	inBody, streamInBody bool
	frames               func(body string) (list []string, clean bool)
	// readBody adds a complete response, readFrame a frame of a stream.
	readBody  func(h *parsed, m object)
	readFrame func(h *parsed, m object)
	// fault returns the message of an error of an HTTP answer.
	fault func(m object) string
	// stops are the words for the end, a limit, a stop sequence, tools, a refusal.
	stops [5]string
	// signs says that thinking carries a signature.
	signs bool
}

func fixedPath(path string) func(string, bool) string {
	return func(string, bool) string { return path }
}

// find walks into a decoded value: names and indexes, separated by points.
func find(v any, path string) any {
	for step := range strings.SplitSeq(path, ".") {
		switch w := v.(type) {
		case map[string]any:
			v = w[step]
		case []any:
			i := int(step[0] - '0')
			if i >= len(w) {
				return nil
			}
			v = w[i]
		default:
			return nil
		}
	}
	return v
}

func textAt(v any, path string) string {
	s, _ := find(v, path).(string)
	return s
}

func numberAt(v any, path string) int {
	f, _ := find(v, path).(float64)
	return int(f)
}

func listAt(v any, path string) []any {
	l, _ := find(v, path).([]any)
	return l
}

func asJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

var citySchema = object{"type": "object", "properties": object{"city": object{"type": "string"}}, "required": []any{"city"}, "additionalProperties": false}

// request returns the address and the body of a request.
func (g *protocolCase) request(model string, q question, readStream bool) (path, body string) {
	m := g.body(q)
	if g.inBody {
		m["model"] = model
	}
	if g.streamInBody {
		m["stream"] = readStream
		if !readStream {
			delete(m, "stream_options")
		}
	}
	return g.path(escaped(model), readStream), asJSON(m)
}

// escaped spells a name so that it stays one segment of a path.
func escaped(model string) string {
	return strings.NewReplacer("+", "%2B", "/", "%2F", "=", "%3D", ",", "%2C", "@", "%40", " ", "%20").Replace(model)
}

func (g *protocolCase) post(h *fixture, model string, q question, readStream bool) *response {
	h.t.Helper()
	path, body := g.request(model, q, readStream)
	return h.mustPost(path, body, g.header...)
}

// readComplete asks for a response in one piece and reads it.
func (g *protocolCase) readComplete(t *testing.T, h *fixture, model string, q question) parsed {
	t.Helper()
	a := g.post(h, model, q, false)
	if a.StatusCode != 200 || a.err != nil {
		t.Fatalf("%s: %d %s, %v", g.name, a.StatusCode, a.body, a.err)
	}
	return g.understand(t, a.body)
}

func (g *protocolCase) understand(t *testing.T, body string) (out parsed) {
	t.Helper()
	var m object
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatalf("%s: %v in %.300s", g.name, err, body)
	}
	g.readBody(&out, m)
	return out
}

// readStream asks for a stream and reads it.
func (g *protocolCase) readStream(t *testing.T, h *fixture, model string, q question) parsed {
	t.Helper()
	a := g.post(h, model, q, true)
	if a.StatusCode != 200 {
		t.Fatalf("%s: %d %s", g.name, a.StatusCode, a.body)
	}
	return g.follow(a.body)
}

// follow puts a stream together.
func (g *protocolCase) follow(body string) (out parsed) {
	list, clean := g.frames(body)
	if !clean {
		out.broken++
	}
	for _, data := range list {
		out.frames++
		var m object
		if data == "[DONE]" {
			out.ended = true
			out.frames--
		} else if json.Unmarshal([]byte(data), &m) != nil {
			out.broken++
		} else {
			g.readFrame(&out, m)
		}
	}
	return out
}

// eventData returns the data of server-sent events. Where an event is named
// its data must say the same type.
func eventData(body string) (list []string, clean bool) {
	clean = true
	for _, e := range events(body) {
		var m struct {
			Type string `json:"type"`
		}
		if json.Unmarshal([]byte(e.data), &m) == nil && e.name != "" && e.name != "message" && m.Type != e.name {
			clean = false
		}
		if e.data != "" {
			list = append(list, e.data)
		}
	}
	return list, clean
}

func lineData(body string) (list []string, clean bool) {
	for line := range strings.SplitSeq(strings.ReplaceAll(body, "\r\n", "\n"), "\n") {
		if line != "" {
			list = append(list, line)
		}
	}
	return list, true
}

func (h *parsed) call(i int) *readCall {
	for len(h.calls) <= i {
		h.calls = append(h.calls, readCall{})
	}
	return &h.calls[i]
}

func mustObject(t *testing.T, body string) (m object) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatalf("%v in %.300s", err, body)
	}
	return m
}
