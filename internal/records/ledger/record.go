package ledger

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/records/reqlog"
)

// A record begins with a header of 16 bytes, numbers little-endian:
//
//	0   4  CRC-32C of everything that follows, started with the segment's seed
//	4   4  length of the record including the header
//	8   4  position of the record in its segment
//	12  1  kind
//	13  1  version of the kind's format
//	14  2  number of the attempt; zero for rows
//
// A record at another position, or in another segment, is invalid. Remains of a deleted
// file on the disk are therefore not mistaken for records.
const headSize = 16

// Kinds of records.
const (
	kindIntent = 1
	kindSettle = 2
	kindRow    = 3
)

// recordVersion is the format version of all kinds.
const recordVersion = 1

// Sizes of records. An intent is longer if it has counters.
const (
	intentSize = 256
	settleSize = 192
)

// maxCounters is the limit of the counters of an intent, in bytes. Those beyond it
// are not recorded.
const maxCounters = 64 << 10

// maxRow is the limit of a row's record, in bytes.
const maxRow = 8 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendHead appends the header of a record of size bytes, without its checksum.
func appendHead(dst []byte, kind byte, size int, offset int64, attempt uint16) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(size))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(offset))
	dst = append(dst, kind, recordVersion)
	return binary.LittleEndian.AppendUint16(dst, attempt)
}

// seal writes the checksum of a complete record.
func seal(record []byte, seed uint32) {
	binary.LittleEndian.PutUint32(record, crc32.Update(seed, castagnoli, record[4:]))
}

// An intent has its strings in its first intentSize bytes, cut if they do not fit. Counters
// follow, each after its length in 2 bytes, and then the complete form of strings that were
// cut: longText plus the number of the string, its length and the string. The last of these
// may be flatPrice with the price of the attempt. Programs that do not know these stop at
// longText, which is greater than the length of the rest.
const (
	longText  = 0xff00
	flatPrice = longText + 6
)

// maxText is the limit of a string of an intent, in bytes. What is longer is cut.
const maxText = 1 << 10

// maxIntent is the limit of the size of the record of an intent.
const maxIntent = intentSize + maxCounters + 6*(4+maxText) + flatSize

// flatSize is the size of a price after the strings of an intent.
const flatSize = 2 + 2 + 8

// textsOf returns the strings of an intent, those that tell who pays first.
func textsOf(i *reqlog.Intent) [6]*string {
	return [...]*string{&i.Organisation, &i.Workspace, &i.KeyID, &i.Provider, &i.Slug, &i.Model}
}

// sizeOf returns the size of the record of an intent.
func sizeOf(i *reqlog.Intent) int {
	size := 0
	for _, c := range i.Counters {
		if size+2+len(c) <= maxCounters {
			size += 2 + len(c)
		}
	}
	room := intentSize - headSize - 32
	for _, s := range textsOf(i) {
		n := min(len(*s), max(room-1, 0), 255)
		if n < len(*s) {
			size += 4 + min(len(*s), maxText)
		}
		room -= 1 + n
	}
	if i.Flat {
		size += flatSize
	}
	return intentSize + size
}

// appendIntent appends an intent, not sealed.
func appendIntent(dst []byte, offset int64, i *reqlog.Intent) []byte {
	start := len(dst)
	dst = appendHead(dst, kindIntent, sizeOf(i), offset, i.Attempt)
	dst = append(dst, i.ID[:]...)
	dst = appendInts(dst, i.Time.UnixMicro(), i.RequestBytes)
	end := start + intentSize
	// Long names must not take the space of the fields needed for billing.
	var cut []int
	for n, s := range textsOf(i) {
		before := len(dst)
		if dst = appendText(dst, *s, end); *s != "" && len(dst)-before-1 < len(*s) {
			cut = append(cut, n)
		}
	}
	dst = pad(dst, end)
	for _, c := range i.Counters {
		if len(dst)-end+2+len(c) <= maxCounters {
			dst = binary.LittleEndian.AppendUint16(dst, uint16(len(c)))
			dst = append(dst, c...)
		}
	}
	for _, n := range cut {
		s := *textsOf(i)[n]
		s = s[:min(len(s), maxText)]
		dst = binary.LittleEndian.AppendUint16(dst, longText+uint16(n))
		dst = binary.LittleEndian.AppendUint16(dst, uint16(len(s)))
		dst = append(dst, s...)
	}
	if i.Flat {
		dst = binary.LittleEndian.AppendUint16(dst, flatPrice)
		dst = binary.LittleEndian.AppendUint16(dst, 8)
		dst = appendInts(dst, int64(i.Price))
	}
	return dst
}

// appendSettle appends a settlement, not sealed.
func appendSettle(dst []byte, offset int64, s *reqlog.Settlement) []byte {
	start := len(dst)
	dst = appendHead(dst, kindSettle, settleSize, offset, s.Attempt)
	dst = append(dst, s.ID[:]...)
	dst = append(dst, byte(s.Outcome), flagsOf(s))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(s.Status))
	dst = append(dst, 0, 0, 0, 0)
	u := &s.Usage
	dst = appendInts(dst, s.Time.UnixMicro(), int64(s.Cost),
		u.Input, u.CachedInput, u.CacheWrite5m, u.CacheWrite1h, u.Output, u.Reasoning, u.InputAudio, u.OutputAudio)
	end := start + settleSize
	return pad(appendText(dst, s.Price, end), end)
}

// appendRow appends a row with encoded content, not sealed.
func appendRow(dst []byte, offset int64, id reqlog.ID, content []byte) []byte {
	dst = appendHead(dst, kindRow, headSize+len(id)+len(content), offset, 0)
	dst = append(dst, id[:]...)
	return append(dst, content...)
}

// Flags of a settlement.
const (
	flagKnown = 1 << iota
	flagPriced
	flagEstimated
)

func flagsOf(s *reqlog.Settlement) (f byte) {
	if s.Usage.Known {
		f |= flagKnown
	}
	if s.Priced {
		f |= flagPriced
	}
	if s.Usage.Estimated {
		f |= flagEstimated
	}
	return f
}

func appendInts(dst []byte, list ...int64) []byte {
	for _, n := range list {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(n))
	}
	return dst
}

// appendText appends the length of s in one byte and s, cut to what fits before end.
func appendText(dst []byte, s string, end int) []byte {
	room := end - len(dst) - 1
	if room < 0 {
		return dst
	}
	s = s[:min(len(s), room, 255)]
	dst = append(dst, byte(len(s)))
	return append(dst, s...)
}

var zeros [intentSize]byte

func pad(dst []byte, end int) []byte { return append(dst, zeros[:end-len(dst)]...) }

// Record is a record of a segment: an intent, a settlement or a row.
type Record struct {
	Intent *reqlog.Intent     // otherwise nil
	Settle *reqlog.Settlement // otherwise nil

	// Row is the encoded entry of the exchange Exchange, valid until the next record is
	// read. It is nil for other kinds.
	Row      []byte
	Exchange reqlog.ID
}

// completeRecord returns the record at the beginning of b, which is at offset in a
// segment with this seed, nil if there is none.
func completeRecord(b []byte, offset int64, seed uint32) []byte {
	if len(b) < headSize || binary.LittleEndian.Uint32(b[8:]) != uint32(offset) {
		return nil
	}
	size := int64(binary.LittleEndian.Uint32(b[4:]))
	if size < headSize || size > int64(len(b)) || size > maxRow {
		return nil
	}
	b = b[:size]
	if crc32.Update(seed, castagnoli, b[4:]) != binary.LittleEndian.Uint32(b) {
		return nil
	}
	return b
}

// parse decodes a valid record. A kind or version of a later program is not an error
// and returns an empty record.
func parse(b []byte) Record {
	kind, version, attempt := b[12], b[13], binary.LittleEndian.Uint16(b[14:])
	body := b[headSize:]
	switch {
	case version != recordVersion:
	case kind == kindIntent && len(b) >= intentSize:
		return Record{Intent: parseIntent(body, attempt)}
	case kind == kindSettle && len(b) == settleSize:
		return Record{Settle: parseSettle(body, attempt)}
	case kind == kindRow && len(body) >= len(reqlog.ID{}):
		return Record{Row: body[16:], Exchange: reqlog.ID(body[:16])}
	}
	return Record{}
}

func parseIntent(b []byte, attempt uint16) *reqlog.Intent {
	i := &reqlog.Intent{ID: reqlog.ID(b[:16]), Attempt: attempt}
	i.Time = time.UnixMicro(number(b, 16)).UTC()
	i.RequestBytes = number(b, 24)
	more := b[intentSize-headSize:]
	b = b[32 : intentSize-headSize]
	for _, s := range textsOf(i) {
		*s, b = text(b)
	}
	for len(more) >= 2 {
		n := int(binary.LittleEndian.Uint16(more))
		if more = more[2:]; n > len(more) {
			parseLongTexts(i, n, more)
			break
		}
		i.Counters, more = append(i.Counters, string(more[:n])), more[n:]
	}
	return i
}

// parseLongTexts sets the strings of i that did not fit, and its price. The first has a mark,
// which was read already.
func parseLongTexts(i *reqlog.Intent, mark int, b []byte) {
	texts := textsOf(i)
	for mark >= longText && mark <= flatPrice && len(b) >= 2 {
		n := int(binary.LittleEndian.Uint16(b))
		if b = b[2:]; n > len(b) {
			return
		}
		if mark == flatPrice {
			if n == 8 {
				i.Flat, i.Price = true, catalog.NanoDollars(number(b, 0))
			}
			return
		}
		*texts[mark-longText], b = string(b[:n]), b[n:]
		if len(b) < 2 {
			return
		}
		mark, b = int(binary.LittleEndian.Uint16(b)), b[2:]
	}
}

func parseSettle(b []byte, attempt uint16) *reqlog.Settlement {
	s := &reqlog.Settlement{ID: reqlog.ID(b[:16]), Attempt: attempt}
	s.Outcome = reqlog.Outcome(b[16])
	s.Priced = b[17]&flagPriced != 0
	s.Status = int(binary.LittleEndian.Uint16(b[18:]))
	s.Time = time.UnixMicro(number(b, 24)).UTC()
	s.Cost = catalog.NanoDollars(number(b, 32))
	s.Usage = llm.Usage{
		Input: number(b, 40), CachedInput: number(b, 48), CacheWrite5m: number(b, 56), CacheWrite1h: number(b, 64),
		Output: number(b, 72), Reasoning: number(b, 80), InputAudio: number(b, 88), OutputAudio: number(b, 96),
		Known: b[17]&flagKnown != 0, Estimated: b[17]&flagEstimated != 0,
	}
	s.Price, _ = text(b[104:])
	return s
}

func number(b []byte, at int) int64 { return int64(binary.LittleEndian.Uint64(b[at:])) }

// text decodes the output of appendText.
func text(b []byte) (string, []byte) {
	if len(b) == 0 || int(b[0]) >= len(b) {
		return "", nil
	}
	n := 1 + int(b[0])
	return string(b[1:n]), b[n:]
}
