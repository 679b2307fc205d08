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

	"modelgate/internal/base/apierr"
	"modelgate/internal/records/reqlog"
)

// storable reports whether every database can store s in a text column: PostgreSQL
// rejects NUL and invalid UTF-8.
func storable(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// CheckLength returns an error for a field whose text does not have least to most
// characters.
func CheckLength(field, text string, least, most int) error {
	switch n := utf8.RuneCountInString(text); {
	case n >= least && n <= most:
		return nil
	case least > 0:
		return Invalid(field, "must be %d to %d characters long", least, most)
	}
	return Invalid(field, "must be at most %d characters long", most)
}

// checkText returns an error, naming the field, for a query that is ambiguous or for
// text that cannot be stored.
func checkText(r *http.Request, body []byte) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return apierr.New(apierr.Invalid, "the query is invalid: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		values := query[name]
		if len(values) > 1 {
			return Invalid(reqlog.Cut(strings.ToValidUTF8(name, "?"), maxParameter), "must be given once, not %d times", len(values))
		}
		if !storable(name) || !storable(strings.Join(values, "")) {
			return Invalid(strings.ToValidUTF8(name, "?"), "contains NUL or is not valid UTF-8")
		}
	}
	if !utf8.Valid(body) { // decoding would replace it
		return apierr.New(apierr.Invalid, "the request body is not valid UTF-8")
	}
	if !bytes.Contains(body, []byte(`\u0000`)) { // JSON has no other form of NUL
		return nil
	}
	var v any
	if json.Unmarshal(body, &v) != nil {
		return nil // decoding reports the error later
	}
	if field, found := findNUL("", v); found {
		return Invalid(field, "contains NUL")
	}
	return nil
}

// maxParameter is the limit of a query parameter's name in an error, in bytes.
const maxParameter = 64

// findNUL returns the path of a string with a NUL in a decoded value.
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
