package tools

import (
	"encoding/json"
	"strings"

	"modelgate/internal/base/secret"
)

// sealed is how a box begins what it seals.
const sealed = "sealed:v1:"

// sealJSON returns a value, whose parts are JSON, as text that only the gateway reads and
// writes. The prefix says what it is.
func sealJSON(box *secret.Box, prefix string, v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // its parts are JSON
	}
	return prefix + strings.TrimPrefix(box.Seal(secret.New(string(raw))), sealed)
}

// openJSON reads what [sealJSON] returned into v, and reports whether the text is such a one of at
// most limit bytes.
func openJSON(box *secret.Box, prefix, text string, limit int, v any) bool {
	text, ok := strings.CutPrefix(text, prefix)
	if !ok || len(text) > limit {
		return false
	}
	raw, err := box.Open(sealed + text)
	return err == nil && json.Unmarshal([]byte(raw.Reveal()), v) == nil
}
