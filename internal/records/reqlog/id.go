package reqlog

import (
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"time"
)

// ID is a time-ordered UUID (version 7, RFC 9562): it sorts by the millisecond in which
// it was created.
type ID [16]byte

// NewID returns a new id for an exchange that began at t. Ids are unique but not
// secret.
func NewID(t time.Time) ID {
	var id ID
	ms := uint64(t.UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	hi, lo := rand.Uint32(), rand.Uint64()
	id[6], id[7] = 0x70|byte(hi>>8)&0x0f, byte(hi)
	for i := range 8 {
		id[8+i] = byte(lo >> (8 * i))
	}
	id[8] = 0x80 | id[8]&0x3f
	return id
}

// Time returns the millisecond in which the id was created.
func (id ID) Time() time.Time {
	var ms int64
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms)
}

// Span returns the default id of the exchange's span: the last 16 hexadecimal digits,
// which are not all zero.
func (id ID) Span() string { return hex.EncodeToString(id[8:]) }

// String returns the usual form, 8-4-4-4-12 hexadecimal digits.
func (id ID) String() string {
	var b [36]byte
	hex.Encode(b[0:8], id[0:4])
	hex.Encode(b[9:13], id[4:6])
	hex.Encode(b[14:18], id[6:8])
	hex.Encode(b[19:23], id[8:10])
	hex.Encode(b[24:36], id[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

var errBadID = errors.New("a request id must be a UUID: 8-4-4-4-12 hexadecimal digits")

// ParseID parses the output of [ID.String].
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, errBadID
	}
	if _, err := hex.Decode(id[:], []byte(s[0:8]+s[9:13]+s[14:18]+s[19:23]+s[24:])); err != nil {
		return ID{}, errBadID
	}
	return id, nil
}
