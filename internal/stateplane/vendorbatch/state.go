package vendorbatch

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// states maps the states of a vendor, in upper case, to those of clients.
type states map[string]Status

// set sets the status of b from the vendor's. A state that is not in the table is in
// progress, and marked: it may be new.
func (s states) set(b *Batch, state string) {
	status, ok := s[strings.ToUpper(state)]
	if !ok {
		status = InProgress
	}
	b.Status, b.VendorStatus, b.UnknownStatus = status, state, !ok
}

// unixTime is a time in a vendor's response: seconds or milliseconds, or text as of
// RFC 3339. Null and unreadable times are zero.
type unixTime int64

// UnmarshalJSON implements json.Unmarshaler.
func (t *unixTime) UnmarshalJSON(data []byte) error {
	*t = 0
	text := string(bytes.Trim(data, `"`))
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		if n >= 1e11 { // milliseconds: seconds of this size are in the year 5138
			n /= 1000
		}
		if n > 0 && n < 1e11 {
			*t = unixTime(n)
		}
		return nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} { // the latter without a zone
		if parsed, err := time.Parse(layout, text); err == nil {
			*t = unixTime(max(parsed.Unix(), 0))
			break
		}
	}
	return nil
}

// count is a number in a vendor's response, also as text. An unreadable one is zero.
type count int64

// UnmarshalJSON implements json.Unmarshaler.
func (c *count) UnmarshalJSON(data []byte) error {
	n, err := strconv.ParseInt(string(bytes.Trim(data, `"`)), 10, 64)
	if *c = 0; err == nil && n > 0 {
		*c = count(n)
	}
	return nil
}

// textMap is an object whose members are read as strings.
type textMap map[string]string

// UnmarshalJSON implements json.Unmarshaler.
func (m *textMap) UnmarshalJSON(data []byte) error {
	var all map[string]any
	if json.Unmarshal(data, &all) != nil || len(all) == 0 {
		return nil
	}
	*m = make(textMap, len(all))
	for name, v := range all {
		if text, ok := v.(string); ok {
			(*m)[name] = text
		}
	}
	return nil
}

// setEnd sets the time at which b reached its status, if it has ended.
func (b *Batch) setEnd(at unixTime) {
	switch b.Status {
	case Completed:
		b.CompletedAt = int64(at)
	case Failed:
		b.FailedAt = int64(at)
	case Expired:
		b.ExpiredAt = int64(at)
	case Cancelled:
		b.CancelledAt = int64(at)
	}
}
