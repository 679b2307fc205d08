package logstore

import (
	"bytes"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"modelgate/internal/base/apierr"
	"modelgate/internal/records/reqlog"
)

// Limits of [Query].Text, in characters.
const (
	shortestText = 3
	longestText  = 256
)

func (q *Query) checkText() error {
	if n := utf8.RuneCountInString(q.Text); q.Text != "" && (n < shortestText || n > longestText) {
		return apierr.New(apierr.Invalid, "text must be %d to %d characters long", shortestText, longestText).WithParam("text")
	}
	return nil
}

// fold appends b with every character replaced by the smallest of those that differ
// only by case (see unicode.SimpleFold). Bytes that are not UTF-8 stay unchanged.
func fold(dst, b []byte) []byte {
	for i := 0; i < len(b); {
		if c := b[i]; c < utf8.RuneSelf {
			if 'a' <= c && c <= 'z' {
				c -= 'a' - 'A'
			}
			dst = append(dst, c)
			i++
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, b[i])
		} else {
			dst = utf8.AppendRune(dst, folded(r))
		}
		i += size
	}
	return dst
}

// folded returns the smallest of the characters that differ from r only by case.
func folded(r rune) rune {
	switch {
	case r < rune(len(alphabets())):
		return alphabets()[r]
	case r >= 0x2e80 && r < 0xa640, r >= 0xac00 && r < 0xfb00:
		return r // common scripts without case
	}
	return leastOf(r)
}

// alphabets caches the folded characters of two bytes: Latin, Greek, Cyrillic and
// others.
var alphabets = sync.OnceValue(func() *[0x800]rune {
	var list [0x800]rune
	for r := range rune(len(list)) {
		list[r] = leastOf(r)
	}
	return &list
})

func leastOf(r rune) rune {
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return least
}

// search searches for the text of a plan. It is not safe for concurrent use.
type search struct {
	text []byte // folded
	buf  []byte
}

func (s *search) in(b []byte) bool {
	s.buf = fold(s.buf[:0], b)
	return bytes.Contains(s.buf, s.text)
}

// inEntry searches an entry except its bodies.
func (s *search) inEntry(e *reqlog.Entry) bool {
	parts := []string{e.Model, e.Path, e.ErrorMessage}
	for k, v := range e.Metadata {
		parts = append(parts, k, v)
	}
	return s.in([]byte(strings.Join(parts, "\x00")))
}

func (s *search) inBodies(b *reqlog.Bodies) bool {
	return s.in(b.Request.Data) || s.in(b.Response.Data)
}

// bodiesCost is what reading bodies counts for in addition to their size, in bytes.
const bodiesCost = 1 << 10

// matchText adds to page the waiting entries that contain the text. It reads their
// bodies together, and ends the page when it is full or the limit is reached; the rest
// belongs to the next page.
func (s *scan) matchText(page *Page) error {
	list := s.waiting
	s.waiting = nil
	hold := make([]bool, len(list))
	var ids []reqlog.ID
	for i, e := range list {
		hold[i] = s.search.inEntry(e)
		if !hold[i] && e.Level == reqlog.LevelFull {
			ids = append(ids, e.ID)
		}
	}
	end, err := s.searchBodies(list, ids, hold)
	if err != nil {
		return err
	}
	for i, e := range list[:end] {
		if len(page.Entries) == s.plan.limit {
			end = i
			break
		}
		if hold[i] {
			page.Entries = append(page.Entries, e)
		}
	}
	if end < len(list) {
		s.cut = true
		page.Next = s.plan.cursor(list[end-1].ID)
	}
	return nil
}

// searchBodies sets hold for the entries of list whose bodies contain the text, and
// returns how many of list it checked. Ids are the ids of entries with bodies.
func (s *scan) searchBodies(list []*reqlog.Entry, ids []reqlog.ID, hold []bool) (int, error) {
	i := 0
	for p, err := range s.bodies(ids) {
		if err != nil {
			return 0, err
		}
		for list[i].ID != p.id {
			i++
		}
		s.bytes += bodiesCost
		b, err := parseBodies(p.data)
		if err != nil {
			s.damaged(block{last: p.id, first: p.id, entries: 1}, err)
			continue
		}
		s.bytes += b.Len()
		hold[i] = s.search.inBodies(b)
		if s.overLimit() {
			return i + 1, nil
		}
	}
	return len(list), nil
}
