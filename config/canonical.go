package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// Canonical returns the canonical form of a config: two texts with the same
// meaning have the same form. Names are the wire names, sorted; numbers and
// strings have one spelling; lists of statuses are sorted; credentials are
// replaced by their SHA-256, so that the bytes may be hashed, compared and
// stored.
func (c *Config) Canonical() []byte {
	return c.encode(writer{})
}

// Reveal returns the canonical form with the credentials themselves. Parse
// accepts it. Only the order of members of free-form objects is lost; to store
// a config unchanged, seal the original text.
func (c *Config) Reveal() []byte {
	return c.encode(writer{reveal: true})
}

// MarshalJSON writes the canonical form, without credentials.
func (c *Config) MarshalJSON() ([]byte, error) { return c.Canonical(), nil }

// String returns the canonical form, without credentials.
func (c *Config) String() string { return string(c.Canonical()) }

func (c *Config) encode(w writer) []byte {
	w.nodes = nodes
	return []byte(canonicalText(w.nodes.write(w, c)))
}

func canonicalText(v value) string {
	var b bytes.Buffer
	v.writeTo(&b)
	return b.String()
}

// writer holds the settings for writing a node.
type writer struct {
	nodes  *shape[Config]
	reveal bool
}

// secret returns a credential in the requested form.
func (w writer) secret(s string) string {
	if w.reveal {
		return s
	}
	return fingerprint(s)
}

// writeTo writes v in canonical form.
func (v value) writeTo(b *bytes.Buffer) {
	switch v.kind {
	case isObject:
		v.writeMembers(b)
	case isArray:
		b.WriteByte('[')
		for i, item := range v.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.writeTo(b)
		}
		b.WriteByte(']')
	case isString:
		writeText(b, v.text)
	case isNumber:
		b.WriteString(canonicalNumber(v.text))
	case isBool:
		b.WriteString(v.text)
	default:
		b.WriteString("null")
	}
}

func (v value) writeMembers(b *bytes.Buffer) {
	sorted := slices.Clone(v.members)
	slices.SortFunc(sorted, func(m, n member) int { return cmp.Compare(m.name, n.name) })
	b.WriteByte('{')
	for i, m := range sorted {
		if i > 0 {
			b.WriteByte(',')
		}
		writeText(b, m.name)
		b.WriteByte(':')
		m.value.writeTo(b)
	}
	b.WriteByte('}')
}

// writeText writes s as a JSON string without the escapes meant for HTML.
func writeText(b *bytes.Buffer, s string) {
	var quoted bytes.Buffer
	e := json.NewEncoder(&quoted)
	e.SetEscapeHTML(false)
	// Encoding a string to memory cannot fail.
	_ = e.Encode(s)
	b.Write(bytes.TrimSuffix(quoted.Bytes(), []byte("\n")))
}

// canonicalNumber returns one spelling for equal numbers without rounding: 1.0,
// 1 and 10e-1 are "1". Large ids keep all their digits, unlike in a float64.
func canonicalNumber(literal string) string {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(literal), "e")
	shift := 0
	if exponent != "" {
		n, err := strconv.Atoi(exponent)
		if err != nil || n > 1<<30 || n < -1<<30 {
			return literal
		}
		shift = n
	}
	negative := strings.HasPrefix(mantissa, "-")
	integer, fraction, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	shift -= len(fraction)
	digits := strings.TrimLeft(integer+fraction, "0")
	if digits == "" {
		return "0"
	}
	short := strings.TrimRight(digits, "0")
	shift += len(digits) - len(short)
	s := place(short, shift)
	if negative {
		return "-" + s
	}
	return s
}

// place writes digits × 10^shift without an exponent, unless that would take
// more than 21 places before or after the point.
func place(digits string, shift int) string {
	point := len(digits) + shift // places before the point
	switch {
	case shift > 0 && point > 21, point <= 0 && shift < -21:
		return digits + "e" + strconv.Itoa(shift)
	case shift >= 0:
		return digits + strings.Repeat("0", shift)
	case point > 0:
		return digits[:point] + "." + digits[point:]
	}
	return "0." + strings.Repeat("0", -point) + digits
}
