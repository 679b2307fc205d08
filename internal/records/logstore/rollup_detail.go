package logstore

import (
	"encoding/binary"
	"strings"
)

// detailMark begins the string with the details of a stored set. It is longer than the
// strings of keys, so none of them can be taken for it.
var detailMark = "\x00details 1" + strings.Repeat("\x00", maxText)

// sketches are the encoded durations of stored totals; empty without any.
type sketches struct{ latencies, firstTokens []byte }

// addTo adds the sketches to s.
func (at sketches) addTo(s *Totals) error {
	if err := s.Latencies.mergeStored(at.latencies); err != nil {
		return err
	}
	if len(at.firstTokens) == 0 {
		return nil
	}
	return s.FirstTokens.mergeStored(at.firstTokens)
}

// appendDetails encodes the details of totals: the strings of the key from ByErrorCode on
// as numbers of c, the number and sum of first tokens, and uvarint length and bytes of
// their sketch.
func appendDetails(dst []byte, c *encoder, k *groupKey, s *Totals) []byte {
	for _, t := range k.texts[ByErrorCode:] {
		dst = binary.AppendUvarint(dst, c.number(t))
	}
	dst = binary.AppendVarint(dst, s.Begun)
	dst = binary.AppendVarint(dst, s.firstToken)
	var sketch []byte
	if s.Begun > 0 {
		sketch = s.FirstTokens.append(nil)
	}
	dst = binary.AppendUvarint(dst, uint64(len(sketch)))
	return append(dst, sketch...)
}

// detailReader reads the details of totals in their order. The zero detailReader, of a
// set without details, reads empty ones.
type detailReader struct {
	reader
	there bool
}

// detailsOf returns the details of the stored set whose strings r has.
func detailsOf(r *reader) detailReader {
	if len(r.strings) == 0 {
		return detailReader{}
	}
	text, ok := strings.CutPrefix(r.strings[len(r.strings)-1], detailMark)
	if !ok {
		return detailReader{}
	}
	return detailReader{reader{b: []byte(text), strings: r.strings}, true}
}

// firstTokens are the times to the first token of stored totals.
type firstTokens struct {
	begun, sum int64
	sketch     []byte
}

// read sets the details of k to those of the next totals.
func (d *detailReader) read(k *groupKey) (f firstTokens) {
	for i := int(ByErrorCode); i < numFields; i++ {
		k.texts[i] = ""
		if d.there {
			k.texts[i] = d.ref()
		}
	}
	if d.there {
		f = firstTokens{d.varint(), d.varint(), d.take(d.count(1))}
	}
	return f
}
