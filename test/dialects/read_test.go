package dialects

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"strconv"
	"strings"

	"modelgate/internal/testing/gatewaytest"
)

// clientView is a response in no protocol.
type clientView struct {
	pieces  []piece
	stop    string // in the client's protocol
	ended   bool   // by what ends a stream, or whole
	fault   string // an error, in a response's place or inside
	unsound string // what is wrong with the form of the response

	prompt, completion, cached, written int

	open  map[int]int            // of a stream: the piece of each block
	parts map[int]map[int]string // of a stream of the responses dialect: the text of each part of an item
}

// add appends a piece, or adds to the one of the same block.
func (h *clientView) at(block int, p piece) *piece {
	if i, ok := h.open[block]; ok {
		return &h.pieces[i]
	}
	if h.open == nil {
		h.open = map[int]int{}
	}
	h.open[block] = len(h.pieces)
	h.pieces = append(h.pieces, p)
	return &h.pieces[len(h.pieces)-1]
}

// last returns the piece that grows: the last, when it is of a kind.
func (h *clientView) last(k kind) *piece {
	if n := len(h.pieces); n == 0 || h.pieces[n-1].kind != k {
		h.pieces = append(h.pieces, piece{kind: k})
	}
	return &h.pieces[len(h.pieces)-1]
}

// all returns the text of all pieces of a kind.
func (h *clientView) all(k kind) string {
	var said strings.Builder
	for _, p := range h.pieces {
		if p.kind == k {
			said.WriteString(p.text)
		}
	}
	return said.String()
}

// calls returns the pieces that are calls.
func (h *clientView) calls() (list []piece) {
	for _, p := range h.pieces {
		if p.kind == call {
			list = append(list, p)
		}
	}
	return list
}

// A reader reads one protocol.
type reader struct {
	complete func(h *clientView, m object)
	frame    func(h *clientView, m object)
	// fault reads a response that is an error: its message, and whether the
	// body is of the protocol's shape.
	fault func(m object) (message string, sound bool)
}

// read reads a response.
func (r *reader) read(res gatewaytest.Response) (h clientView) {
	kind := res.Header.Get("Content-Type")
	switch {
	case strings.HasPrefix(kind, "text/event-stream"):
		return r.follow(eventData(string(res.Body)))
	case kind == "application/vnd.amazon.eventstream":
		return r.follow(binaryData(res.Body))
	}
	var m object
	if err := json.Unmarshal(res.Body, &m); err != nil {
		h.unsound = "not JSON: " + err.Error()
		return h
	}
	if res.Status >= 400 {
		sound := false
		if h.fault, sound = r.fault(m); !sound {
			h.unsound = "a foreign error: " + string(res.Body)
		}
		return h
	}
	r.complete(&h, m)
	h.ended = true
	return h
}

func (r *reader) follow(list []string, problem string) (h clientView) {
	h.unsound = problem
	for _, data := range list {
		if (h.ended || h.fault != "") && !strings.Contains(data, `"response.failed"`) {
			h.unsound = "after the end: " + data
		}
		if data == "[DONE]" {
			h.ended = true
			continue
		}
		var m object
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			h.unsound = "not JSON: " + data
			continue
		}
		r.frame(&h, m)
	}
	return h
}

// eventData returns the data of server-sent events. Where an event is named its
// data says the same type.
func eventData(body string) (list []string, problem string) {
	for block := range strings.SplitSeq(strings.ReplaceAll(body, "\r\n", "\n"), "\n\n") {
		name, data := "", ""
		for line := range strings.SplitSeq(block, "\n") {
			if v, ok := strings.CutPrefix(line, "event: "); ok {
				name = v
			}
			if v, ok := strings.CutPrefix(line, "data: "); ok {
				data += v
			}
		}
		var m struct {
			Type string `json:"type"`
		}
		if json.Unmarshal([]byte(data), &m) == nil && name != "" && m.Type != name {
			problem = "the event " + name + " holds a " + m.Type
		}
		if data != "" {
			list = append(list, data)
		}
	}
	return list, problem
}

// binaryData takes the messages of an event stream apart, checks their checksums
// and adds their type to their payload.
func binaryData(b []byte) (list []string, problem string) {
	for len(b) >= 16 {
		size, headers := int(binary.BigEndian.Uint32(b)), int(binary.BigEndian.Uint32(b[4:]))
		if size > len(b) || crc32.ChecksumIEEE(b[:8]) != binary.BigEndian.Uint32(b[8:]) ||
			crc32.ChecksumIEEE(b[:size-4]) != binary.BigEndian.Uint32(b[size-4:]) {
			return list, "a broken message"
		}
		var m object
		if err := json.Unmarshal(b[12+headers:size-4], &m); err != nil {
			return list, "a payload that is not JSON"
		}
		m[":type"] = headerText(b[12 : 12+headers])
		raw, _ := json.Marshal(m) // it was JSON
		list = append(list, string(raw))
		b = b[size:]
	}
	if len(b) > 0 {
		return list, "a message that is cut"
	}
	return list, ""
}

// headerText returns the event or exception type of a message.
func headerText(b []byte) (found string) {
	for len(b) > 1 {
		name := string(b[1 : 1+b[0]])
		b = b[1+b[0]:]
		size := int(binary.BigEndian.Uint16(b[1:])) // all are strings
		if name == ":event-type" || name == ":exception-type" {
			found = string(b[3 : 3+size])
		}
		b = b[3+size:]
	}
	return found
}

// get walks into a decoded value: names and indexes, parted by points.
func get(v any, path string) any {
	for step := range strings.SplitSeq(path, ".") {
		switch w := v.(type) {
		case map[string]any:
			v = w[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(w) {
				return nil
			}
			v = w[i]
		default:
			return nil
		}
	}
	return v
}

func str(v any, path string) string {
	s, _ := get(v, path).(string)
	return s
}

func num(v any, path string) int {
	f, _ := get(v, path).(float64)
	return int(f)
}

func list(v any, path string) []any {
	l, _ := get(v, path).([]any)
	return l
}

func asJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// isBase64 reports whether signatures are what their protocol takes.
func isBase64(s string) bool {
	_, err := base64.StdEncoding.DecodeString(s)
	return err == nil
}
