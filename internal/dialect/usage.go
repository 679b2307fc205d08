package dialect

import (
	"bytes"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// maxCount is the largest plausible count of tokens of one response. Sums of counts
// below it do not overflow.
const maxCount = 1 << 32

// Counter reads the counts of a usage report. The zero value has read none.
type Counter struct {
	// Known is true if a count was read.
	Known bool
	// Invalid is true if a value was read that is not a count: negative, too large, written
	// with an exponent or a fraction, or not a number.
	Invalid bool
}

// Read returns a count. It is 0 if v is missing, null or no count.
func (c *Counter) Read(v jsonedit.Value) int64 {
	if v.IsNull() {
		return 0
	}
	n, ok := parseCount(v)
	c.Known, c.Invalid = c.Known || ok, c.Invalid || !ok
	return n
}

// ReadMember returns the count that a member of an object has, as Read does.
func (c *Counter) ReadMember(object jsonedit.Value, name string) int64 {
	v, _ := object.Get(name)
	return c.Read(v)
}

// Add adds what another counter has read.
func (c *Counter) Add(o Counter) {
	c.Known, c.Invalid = c.Known || o.Known, c.Invalid || o.Invalid
}

// Mark records in u whether its counts are valid.
func (c *Counter) Mark(u *llm.Usage) {
	u.Known, u.Invalid = c.Known && !c.Invalid, c.Invalid
}

// parseCount returns the value of an integer from 0 to maxCount. Its fraction may be
// zeros, as some languages write numbers.
func parseCount(v jsonedit.Value) (int64, bool) {
	if v.Kind() != jsonedit.Number {
		return 0, false
	}
	digits, zeros, _ := bytes.Cut(v.Raw(), []byte{'.'})
	n := int64(0)
	for _, c := range digits {
		if c-'0' > 9 {
			return 0, false
		}
		if n = n*10 + int64(c-'0'); n > maxCount {
			return 0, false
		}
	}
	return n, len(digits) > 0 && len(bytes.TrimRight(zeros, "0")) == 0
}
