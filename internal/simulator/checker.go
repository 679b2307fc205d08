package simulator

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A checker checks a decoded body and keeps the first mistake. For an invalid
// value its methods record the mistake and return a zero value; null counts as
// absent.
type checker struct {
	wrong   providerError
	unknown func(path, name string) providerError
}

func newChecker(p *protocol) *checker {
	c := &checker{unknown: unknownMember}
	if p != nil && p.unknown != nil {
		c.unknown = p.unknown
	}
	return c
}

func (c *checker) fail(path, format string, args ...any) {
	if c.wrong.kind == "" {
		c.wrong = invalid(path, path+": "+fmt.Sprintf(format, args...))
	}
}

// checkMembers records a mistake for members that are not listed.
func (c *checker) checkMembers(m map[string]any, path string, names ...string) {
	if path != "" {
		path += "."
	}
	for _, name := range sortedNames(m) {
		if !slices.Contains(names, name) && c.wrong.kind == "" {
			c.wrong = c.unknown(path, name)
		}
	}
}

// at returns the path of a member.
func at(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// nth returns the path of an element.
func nth(path string, i int) string { return path + "." + strconv.Itoa(i) }

func (c *checker) object(v any, path string) map[string]any {
	m, ok := v.(map[string]any)
	if !ok {
		c.fail(path, "Input should be a valid object")
	}
	return m
}

// child returns an object that may be absent.
func (c *checker) child(m map[string]any, name, path string) map[string]any {
	if m[name] == nil {
		return nil
	}
	return c.object(m[name], at(path, name))
}

// text returns a string that may be absent.
func (c *checker) text(m map[string]any, name, path string) string {
	if m[name] == nil {
		return ""
	}
	s, ok := m[name].(string)
	if !ok {
		c.fail(at(path, name), "Input should be a valid string")
	}
	return s
}

// short checks a string that may be absent: it has at most this many characters.
func (c *checker) short(m map[string]any, name, path string, most int) {
	if n := len([]rune(c.text(m, name, path))); n > most {
		c.fail(at(path, name),
			"Invalid '%s': string too long. Expected a string with maximum length %d, but got a string with length %d instead.", at(path, name),
			most, n)
	}
}

// needText returns a required string.
func (c *checker) needText(m map[string]any, name, path string) string {
	if m[name] == nil {
		c.fail(at(path, name), "Field required")
	}
	return c.text(m, name, path)
}

// filled returns a required, non-empty string.
func (c *checker) filled(m map[string]any, name, path string) string {
	s := c.needText(m, name, path)
	if s == "" {
		c.fail(at(path, name), "must not be empty")
	}
	return s
}

func (c *checker) list(m map[string]any, name, path string) []any {
	if m[name] == nil {
		return nil
	}
	l, ok := m[name].([]any)
	if !ok {
		c.fail(at(path, name), "Input should be a valid list")
	}
	return l
}

// needList returns a required, non-empty list.
func (c *checker) needList(m map[string]any, name, path string) []any {
	l := c.list(m, name, path)
	if len(l) == 0 {
		c.fail(at(path, name), "at least one element is required")
	}
	return l
}

func (c *checker) texts(m map[string]any, name, path string) []string {
	var out []string
	for i, v := range c.list(m, name, path) {
		s, ok := v.(string)
		if !ok {
			c.fail(nth(at(path, name), i), "Input should be a valid string")
		}
		out = append(out, s)
	}
	return out
}

func (c *checker) flag(m map[string]any, name, path string) bool {
	if m[name] == nil {
		return false
	}
	b, ok := m[name].(bool)
	if !ok {
		c.fail(at(path, name), "Input should be a valid boolean")
	}
	return b
}

// number returns a number from low to high, or nil if there is none.
func (c *checker) number(m map[string]any, name, path string, low, high float64) *float64 {
	if m[name] == nil {
		return nil
	}
	f, ok := m[name].(float64)
	if !ok || f < low || f > high {
		c.fail(at(path, name), "Input should be a number from %g to %g", low, high)
	}
	return &f
}

// integer returns an integer of at least low, or 0 if there is none.
func (c *checker) integer(m map[string]any, name, path string, low float64) int {
	if m[name] == nil {
		return 0
	}
	f, ok := m[name].(float64)
	if !ok || f < low || f != float64(int(f)) {
		c.fail(at(path, name), "Input should be an integer of at least %g", low)
	}
	return int(f)
}

// word returns a string that must be one of words.
func (c *checker) word(m map[string]any, name, path string, words ...string) string {
	s := c.text(m, name, path)
	if m[name] != nil && !slices.Contains(words, s) {
		c.fail(at(path, name), "Input should be %s", strings.Join(words, " or "))
	}
	return s
}

// base64 checks that a string is non-empty standard base64.
func (c *checker) base64(m map[string]any, name, path string) {
	s := c.filled(m, name, path)
	if _, err := base64.StdEncoding.DecodeString(s); err != nil {
		c.fail(at(path, name), "invalid base64 data")
	}
}

// bytes checks base64 as in the JSON of protocol buffers: also in the alphabet
// of URLs, and with or without padding.
func (c *checker) bytes(m map[string]any, name, path string) {
	s := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(c.filled(m, name, path), "="))
	if _, err := base64.RawStdEncoding.DecodeString(s); err != nil {
		c.fail(at(path, name), "Base64 decoding failed")
	}
}

// matches checks the spelling of a name or an id.
func (c *checker) matches(s, path string, pattern *regexp.Regexp) {
	if !pattern.MatchString(s) {
		c.fail(path, "String should match pattern '%s'", pattern)
	}
}

// one returns the only member of m that is one of names; none or several are a
// mistake.
func (c *checker) one(m map[string]any, path string, names ...string) string {
	found := ""
	for _, name := range names {
		if _, ok := m[name]; !ok {
			continue
		}
		if found != "" {
			c.fail(path, "only one of %s and %s can be set", found, name)
		}
		found = name
	}
	if found == "" {
		c.fail(path, "must have one of %s", strings.Join(names, ", "))
	}
	return found
}

// checkDataURL records a mistake for what is neither a URL nor a data: URL in
// base64.
func checkDataURL(c *checker, url, path string) {
	if strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://") {
		return
	}
	_, data, ok := strings.Cut(url, ";base64,")
	if !strings.HasPrefix(url, "data:") || !ok {
		c.fail(path, "Expected a base64-encoded data URL (e.g. 'data:image/png;base64,aW1n') or an address")
		return
	}
	c.base64(map[string]any{"data": data}, "data", path)
}
