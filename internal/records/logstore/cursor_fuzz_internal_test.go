package logstore

import "testing"

// FuzzTraceCursor reads cursors of clients: only what was issued is accepted,
// and only for the listing that issued it.
func FuzzTraceCursor(f *testing.F) {
	f.Add("", uint32(0))
	f.Add(traceCursor([16]byte{1, 2, 3}, 7), uint32(7))
	f.Add(traceCursor([16]byte{1, 2, 3}, 7), uint32(8))
	f.Fuzz(func(t *testing.T, text string, sum uint32) {
		last, err := readTraceCursor(text, sum)
		if err == nil && traceCursor(last, sum) != text {
			t.Errorf("readTraceCursor(%q, %d) = %v", text, sum, last)
		}
	})
}
