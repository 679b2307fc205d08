package route

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// Optional is a field of an update: if absent it leaves the stored value, null clears
// it, and a value replaces it.
type Optional[T any] struct {
	Set   bool // the request has the field
	Null  bool // and it is null
	Value T
}

// UnmarshalJSON implements json.Unmarshaler; it is called only for fields that are
// present.
func (m *Optional[T]) UnmarshalJSON(b []byte) error {
	m.Set = true
	if bytes.Equal(bytes.TrimSpace(b), []byte("null")) {
		m.Null = true
		return nil
	}
	return json.Unmarshal(b, &m.Value)
}

// Set returns a field that is set to v.
func Set[T any](v T) Optional[T] { return Optional[T]{Set: true, Value: v} }

// SetOrNull returns a field that is set to what v points to, or to null if v is nil.
func SetOrNull[T any](v *T) Optional[T] {
	if v == nil {
		return Optional[T]{Set: true, Null: true}
	}
	return Set(*v)
}

// Schema implements huma.SchemaProvider.
func (Optional[T]) Schema(r huma.Registry) *huma.Schema {
	s := *r.Schema(reflect.TypeFor[T](), true, "")
	if s.Ref == "" {
		s.Nullable = true
	}
	return &s
}

// Or returns the new value, the zero value if the field is null, and old if the request
// does not have it.
func (m Optional[T]) Or(old T) T {
	if !m.Set {
		return old
	}
	return m.Value
}

// Empty is the empty response body.
type Empty struct{}

// List is a page of a list with the number of all entries.
type List[T any] struct {
	Object string `json:"object" doc:"Always list"`
	Total  int    `json:"total"`
	Data   []T    `json:"data"`
	PageInfo

	declared int // of Total, on the first page in addition to its size
}

// AddDeclared adds n objects to the total that the first page has in addition to its
// size, because the settings file declares them.
func (l *List[T]) AddDeclared(n int) *List[T] {
	l.Total, l.declared = l.Total+n, n
	return l
}

// SetPage sets whether pages follow the one of this number and size.
func (l *List[T]) SetPage(number, size int) { l.Set(number, size, l.Total-l.declared) }

// ListOf returns a list of data.
func ListOf[T any](data []T, total int) *List[T] {
	if data == nil {
		data = []T{}
	}
	return &List[T]{Object: "list", Total: total, Data: data}
}

// OrNull returns nil for an empty string.
func OrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Time is a time in ISO 8601, UTC with milliseconds; zero is null.
type Time time.Time

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	if time.Time(t).IsZero() {
		return []byte("null"), nil
	}
	return []byte(time.Time(t).UTC().Format(`"2006-01-02T15:04:05.000Z"`)), nil
}

// Schema implements huma.SchemaProvider.
func (Time) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Nullable: true}
}

// JSON is JSON of a request or a row, kept unchanged.
type JSON json.RawMessage

// MarshalJSON implements json.Marshaler.
func (j JSON) MarshalJSON() ([]byte, error) { return json.RawMessage(j).MarshalJSON() }

// UnmarshalJSON implements json.Unmarshaler.
func (j *JSON) UnmarshalJSON(b []byte) error { *j = append((*j)[:0], b...); return nil }

// Schema implements huma.SchemaProvider: any value.
func (JSON) Schema(huma.Registry) *huma.Schema { return &huma.Schema{} }

var notSlug = regexp.MustCompile(`[^a-z0-9]+`)

// NewSlug generates a slug from a name: the prefix, unless it is empty, up to six
// characters of the name, and six random digits.
func NewSlug(prefix, name string) string {
	short := strings.Trim(notSlug.ReplaceAllString(strings.ToLower(name), "-"), "-")
	if len(short) > 6 {
		short = strings.Trim(short[:6], "-")
	}
	var b [3]byte
	rand.Read(b[:]) // never fails: crypto/rand aborts the program instead
	parts := []string{prefix, short, hex.EncodeToString(b[:])}
	var used []string
	for _, p := range parts {
		if p != "" {
			used = append(used, p)
		}
	}
	return strings.Join(used, "-")
}
