package route

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"modelgate/internal/apierr"
	"modelgate/internal/reqlog"
)

// storable reports whether every database keeps s in a column of text: PostgreSQL
// takes neither NUL nor what is not UTF-8.
func storable(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// checkText refuses a request with a query that has more than one reading, or with
// text which can't be stored, by the field that holds it.
func checkText(r *http.Request, body []byte) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return apierr.New(apierr.Invalid, "the query is invalid: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		values := query[name]
		if len(values) > 1 {
			return Invalid(reqlog.Cut(strings.ToValidUTF8(name, "?"), maxParameter), "must be given once, not %d times; separate the values of a list with commas", len(values))
		}
		if !storable(name) || !storable(strings.Join(values, "")) {
			return Invalid(strings.ToValidUTF8(name, "?"), "holds a NUL or is not UTF-8")
		}
	}
	if !bytes.Contains(body, []byte(`\u0000`)) { // JSON has no other NUL, and decoding mends UTF-8
		return nil
	}
	var v any
	if json.Unmarshal(body, &v) != nil {
		return nil // refused later, with what is wrong
	}
	if field, found := findNUL("", v); found {
		return Invalid(field, "holds a NUL")
	}
	return nil
}

// maxParameter bounds the name of a query parameter in an error, in bytes.
const maxParameter = 64

// findNUL returns the path of a text with a NUL in a decoded value.
func findNUL(path string, v any) (field string, found bool) {
	switch v := v.(type) {
	case string:
		return path, !storable(v)
	case []any:
		for i := range v {
			if field, found = findNUL(fmt.Sprintf("%s[%d]", path, i), v[i]); found {
				return field, true
			}
		}
	case map[string]any:
		for name, inner := range v {
			if !storable(name) {
				return strings.TrimPrefix(path+".", "."), true
			}
			if field, found = findNUL(strings.TrimPrefix(path+"."+name, "."), inner); found {
				return field, true
			}
		}
	}
	return "", false
}
