package vendorbatch

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"modelgate/internal/dialect"
)

// lineParts are the results of a line that was sent as several requests.
type lineParts struct {
	bodies  [][]byte
	missing int
}

// maxWaiting is how many lines may wait for their other parts: vendors return them
// next to each other.
const maxWaiting = 10_000

// join sets the response of a line of embeddings when all parts are there.
func (r *resultReader) join(res *Result, item *row, asked []byte) (bool, error) {
	if !item.split {
		return true, r.codec.response(res, item.body, asked)
	}
	n, _ := dialect.CountInputs(asked)
	p := r.parts[item.key]
	if p == nil {
		if len(r.parts) >= maxWaiting {
			return false, errors.New("too many lines are incomplete")
		}
		p = &lineParts{bodies: make([][]byte, n), missing: n}
		r.parts[item.key] = p
	}
	if item.part < 0 || item.part >= n || p.bodies[item.part] != nil {
		return false, errors.New("a part of the line is doubled")
	}
	if err := r.codec.response(res, item.body, asked); err != nil {
		return false, err
	}
	p.bodies[item.part] = slices.Clone(res.Body)
	if p.missing--; p.missing > 0 {
		return false, nil
	}
	delete(r.parts, item.key)
	joined, err := dialect.JoinEmbeddings(nil, p.bodies)
	if err != nil {
		return false, err
	}
	return true, r.codec.setResponse(res, joined)
}

// keyPrefix begins the keys of lines whose custom_id the vendor does not accept.
const keyPrefix = "modelgateline"

// keyOf returns the key that the vendor gets for a line: its custom_id, if fits accepts
// it. split is true if the line is sent as several requests; their keys have their
// number at the end.
func keyOf(line *Line, fits func(string) bool, split bool) string {
	if !split && fits(line.CustomID) && !strings.HasPrefix(line.CustomID, keyPrefix) {
		return line.CustomID
	}
	return keyPrefix + strconv.Itoa(line.Number)
}

// partKey returns the key of a part of a line.
func partKey(key string, part int) string { return key + "x" + strconv.Itoa(part) }

// setKey sets the key of a row from what the vendor returned.
func (r *row) setKey(key string) {
	r.key = key
	rest, ok := strings.CutPrefix(key, keyPrefix)
	if !ok {
		return
	}
	if at := strings.IndexByte(rest, 'x'); at > 0 {
		if part, err := strconv.Atoi(rest[at+1:]); err == nil {
			r.key, r.split, r.part = keyPrefix+rest[:at], true, part
		}
	}
}

// anyKey accepts every custom_id.
func anyKey(string) bool { return true }

// shortKey accepts keys of up to 64 letters, digits, hyphens and underscores.
func shortKey(s string) bool {
	return len(s) > 0 && len(s) <= 64 && !strings.ContainsFunc(s, func(c rune) bool {
		return !isAlphanumeric(c) && c != '-' && c != '_'
	})
}

// plainKey accepts keys of up to 64 letters and digits.
func plainKey(s string) bool {
	return len(s) > 0 && len(s) <= 64 && !strings.ContainsFunc(s, func(c rune) bool { return !isAlphanumeric(c) })
}

func isAlphanumeric(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
