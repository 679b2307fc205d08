package gemini_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func jsonText(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// partsOf returns the parts of the first candidate of a response.
func partsOf(t *testing.T, body []byte) []any {
	t.Helper()
	candidates := list(object(mustJSON(t, string(body)))["candidates"])
	if len(candidates) == 0 {
		return nil
	}
	return list(object(object(candidates[0])["content"])["parts"])
}

// streamedParts returns the parts of all frames, as clients gather them.
func streamedParts(t *testing.T, stream []byte) (all []any) {
	t.Helper()
	for frame := range strings.SplitSeq(string(stream), "\r\n\r\n") {
		if data, ok := strings.CutPrefix(frame, "data: "); ok {
			all = append(all, partsOf(t, []byte(data))...)
		}
	}
	return all
}
