package converse_test

import (
	"encoding/json"
	"testing"
)

// canonical takes out of a recorded request what says nothing.
func canonical(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, m := range v {
			m = canonical(m)
			if k == "input" || k == "properties" || k == "auto" || k == "any" || m != nil && m != "success" {
				out[k] = m
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		if len(v) == 0 {
			return nil
		}
		var out []any
		for _, e := range v {
			e := canonical(e)
			if n := len(out); n > 0 && joined(out[n-1], e) {
				continue
			}
			out = append(out, e)
		}
		return out
	}
	return v
}

// joined makes one message of two of the same role.
func joined(a, b any) bool {
	first, isMessage := a.(map[string]any)
	second, _ := b.(map[string]any)
	if !isMessage || first["role"] == nil || first["role"] != second["role"] {
		return false
	}
	first["content"] = append(first["content"].([]any), second["content"].([]any)...)
	return true
}

func mustCanonical(t *testing.T, body []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return canonical(v)
}
