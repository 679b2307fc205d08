package jsonedit

// Edit changes one top-level member of a document. Its names must be UTF-8.
type Edit struct {
	// Name is the member's name, unescaped.
	Name string
	// Value is the new value, which must be valid JSON. If it is nil and Rename
	// is empty, the member is deleted.
	Value []byte
	// Rename, if not empty, replaces the key. The value is kept unless Value is
	// set too.
	Rename string
}

func (e *Edit) deletes() bool { return len(e.Value) == 0 && e.Rename == "" }

// Apply appends the document with the edits made to dst, which must not overlap
// it. The Doc itself does not change, and names in edits are those of the
// scanned document; the last of several edits with a name wins.
//
// Every byte outside the edited members is unchanged. A new value replaces the
// old one, a new key the old key. A member that does not exist is appended at
// the end if its edit has a value and no Rename; other edits of such members
// change nothing. Deleting a member removes the white space and the comma after
// it, up to the next key; if it is the last member, the white space and the
// comma before it. A key is never duplicated: if the new name of a member is
// the name of another member of the result, the member is deleted instead of
// renamed.
func (d *Doc) Apply(dst []byte, edits ...Edit) []byte {
	if len(d.b) == 0 {
		return dst
	}
	s := splice{src: d.b, end: space(d.b, 0) + 1}
	for i := range d.n {
		m := d.at(i)
		e := editOf(edits, d.name(m))
		if e == nil {
			dst = s.keep(dst, m.key, m.end)
			continue
		}
		if e.deletes() || d.collides(edits, e) {
			s.drop(m.key, m.end)
			continue
		}
		dst = s.keep(dst, m.key, m.end)
		if e.Rename != "" {
			dst = AppendString(s.upTo(dst, m.key, m.keyEnd), e.Rename)
		}
		if len(e.Value) > 0 {
			dst = append(s.upTo(dst, m.value, m.end), e.Value...)
		}
	}
	dst = s.close(dst)
	for i := range edits {
		if e := &edits[i]; d.appends(edits, e) {
			dst = append(AppendString(s.comma(dst), e.Name), ':')
			dst = append(dst, e.Value...)
		}
	}
	return s.tail(dst)
}

// editOf returns the edit that applies to name, or nil.
func editOf[T string | []byte](edits []Edit, name T) *Edit {
	for i := len(edits) - 1; i >= 0; i-- {
		if edits[i].Name == string(name) {
			return &edits[i]
		}
	}
	return nil
}

// appends reports whether e applies and adds a member.
func (d *Doc) appends(edits []Edit, e *Edit) bool {
	return len(e.Value) > 0 && e.Rename == "" && editOf(edits, e.Name) == e && d.find(e.Name) < 0
}

// collides reports whether the new name in e is the name of another member.
func (d *Doc) collides(edits []Edit, e *Edit) bool {
	if e.Rename == "" || e.Rename == e.Name {
		return false
	}
	taken := d.find(e.Rename) >= 0
	if other := editOf(edits, e.Rename); other != nil {
		taken = taken && !other.deletes() && (other.Rename == "" || other.Rename == other.Name) || d.appends(edits, other)
	}
	return taken || d.renamedBefore(edits, e)
}

// renamedBefore reports whether an earlier edit has the same new name.
func (d *Doc) renamedBefore(edits []Edit, e *Edit) bool {
	for i := range edits {
		other := &edits[i]
		if other == e {
			return false
		}
		if other.Rename == e.Rename && editOf(edits, other.Name) == other && d.find(other.Name) >= 0 {
			return true
		}
	}
	return false
}

// splice copies an object or array while its items are kept, changed or
// dropped.
type splice struct {
	src []byte
	at  int // src[:at] has been handled
	gap int // start of the dropped items after the last kept one, 0 if none
	end int // end of the last kept item, or of the opening bracket
	cut int // end of the last dropped item
	any bool
}

// keep copies the item src[from:to], part of which may have been handled by
// upTo.
func (s *splice) keep(dst []byte, from, to int) []byte {
	if s.gap > 0 {
		dst = s.upTo(dst, s.gap, from)
		s.gap = 0
	}
	s.end, s.any = to, true
	return dst
}

// drop drops the item src[from:to].
func (s *splice) drop(from, to int) {
	if s.gap == 0 {
		s.gap = from
	}
	s.cut = to
}

// upTo copies up to from and skips src[from:to].
func (s *splice) upTo(dst []byte, from, to int) []byte {
	dst = append(dst, s.src[s.at:from]...)
	s.at = to
	return dst
}

// close copies up to the end of the last kept item and skips the items dropped
// after it.
func (s *splice) close(dst []byte) []byte {
	if s.gap > 0 {
		return s.upTo(dst, s.end, s.cut)
	}
	return s.upTo(dst, max(s.at, s.end), max(s.at, s.end))
}

// comma appends the comma before another item.
func (s *splice) comma(dst []byte) []byte {
	if s.any {
		return append(dst, ',')
	}
	s.any = true
	return dst
}

// tail copies what follows the items.
func (s *splice) tail(dst []byte) []byte { return append(dst, s.src[s.at:]...) }
