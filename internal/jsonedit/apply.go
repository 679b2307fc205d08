package jsonedit

// Edit changes one top-level member of a document. Its names must be UTF-8.
type Edit struct {
	// Name is the member's name, unescaped.
	Name string
	// Value is the new value, which must be valid JSON. When it is nil and Rename
	// is empty the member is deleted.
	Value []byte
	// Rename, when not empty, replaces the key. The value is kept unless Value is
	// given too.
	Rename string
}

func (e *Edit) deletes() bool { return len(e.Value) == 0 && e.Rename == "" }

// Apply appends the document with the edits made to dst, which must not overlap
// it. The Doc itself stays as it was scanned, and names in edits are those of
// that document; where two edits have the same name, the later counts.
//
// Every byte outside the edited members stays as it is. A new value takes the
// place of the old one, a new key that of the old key. A member that is absent is
// appended as the last when its edit has a value and no Rename; other edits of
// absent members change nothing. A deleted member takes with it the white space
// and the comma after it, up to the next key; when no member follows that stays,
// the white space and the comma before it. A key never comes to stand twice: a
// member is deleted instead of renamed when its new name is already that of
// another member of the result.
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
	return s.rest(dst)
}

// editOf returns the edit that counts for name, or nil.
func editOf[T string | []byte](edits []Edit, name T) *Edit {
	for i := len(edits) - 1; i >= 0; i-- {
		if edits[i].Name == string(name) {
			return &edits[i]
		}
	}
	return nil
}

// appends reports whether e counts and adds a member.
func (d *Doc) appends(edits []Edit, e *Edit) bool {
	return len(e.Value) > 0 && e.Rename == "" && editOf(edits, e.Name) == e && d.find(e.Name) < 0
}

// collides reports whether the name that e gives is that of another member.
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

// renamedBefore reports whether an earlier edit gives the same new name.
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

// splice copies an object or array while its items are kept, changed or dropped.
type splice struct {
	src []byte
	at  int // src[:at] is dealt with
	gap int // where the dropped items after the last kept one begin, 0 when none
	end int // where the last kept item ends, or the opening bracket
	cut int // where the last dropped item ends
	any bool
}

// keep says that the item src[from:to] stays, perhaps changed by upTo.
func (s *splice) keep(dst []byte, from, to int) []byte {
	if s.gap > 0 {
		dst = s.upTo(dst, s.gap, from)
		s.gap = 0
	}
	s.end, s.any = to, true
	return dst
}

// drop says that the item src[from:to] goes.
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

// close copies up to the end of the last item that stays and skips those
// dropped after it.
func (s *splice) close(dst []byte) []byte {
	if s.gap > 0 {
		return s.upTo(dst, s.end, s.cut)
	}
	return s.upTo(dst, max(s.at, s.end), max(s.at, s.end))
}

// comma appends the comma before a further item.
func (s *splice) comma(dst []byte) []byte {
	if s.any {
		return append(dst, ',')
	}
	s.any = true
	return dst
}

// rest copies what follows the items.
func (s *splice) rest(dst []byte) []byte { return append(dst, s.src[s.at:]...) }
