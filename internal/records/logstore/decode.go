package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"modelgate/api"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/records/reqlog"
)

var errDamaged = errors.New("a block of log entries is damaged")

// blockReader decodes the entries of one block, newest first.
type blockReader struct {
	strings []string // by number; the first is empty
	rest    reader   // entries not decoded yet
	left    int      // number of entries in rest
}

// newBlockReader decodes the header of a block.
func newBlockReader(data []byte) (*blockReader, error) {
	r := reader{b: data}
	if v := r.take(1); r.bad || v[0] != blockFormat {
		return nil, fmt.Errorf("%w: unknown format", errDamaged)
	}
	b := &blockReader{strings: readStrings(&r)}
	b.left = r.count(1)
	if r.bad {
		return nil, errDamaged
	}
	b.rest = r
	return b, nil
}

// readStrings decodes the shared strings, preceded by the empty one. They share one
// copy of the data.
func readStrings(r *reader) []string {
	n := r.count(1)
	all := make([]string, 1, n+1)
	table := r.b
	for range n {
		r.take(r.count(1))
	}
	text := string(table[:len(table)-len(r.b)])
	if r.bad {
		return all
	}
	again := reader{b: table}
	for range n {
		size := again.count(1)
		start := len(table) - len(again.b)
		again.take(size)
		all = append(all, text[start:start+size])
	}
	return all
}

// number returns the number of a string, false if the block does not contain it.
func (b *blockReader) number(s string) (uint64, bool) {
	for i, t := range b.strings {
		if t == s {
			return uint64(i), true
		}
	}
	return 0, false
}

// next returns the next entry without decoding it, and false after the last.
func (b *blockReader) next() (packed, bool, error) {
	if b.left == 0 {
		return packed{}, false, nil
	}
	b.left--
	body := b.rest.take(b.rest.count(1))
	if b.rest.bad || len(body) < len(reqlog.ID{}) {
		return packed{}, false, errDamaged
	}
	p := packed{block: b, body: body}
	copy(p.id[:], body)
	return p, true, nil
}

// packed is an encoded entry.
type packed struct {
	block *blockReader
	id    reqlog.ID
	body  []byte
}

// head holds the fields that filters check. Strings are numbers in the block.
type head struct {
	flags                                                    uint64
	status, total                                            int64
	operation, organisation, workspace, key, provider, model uint64
	trace                                                    []byte
}

// readHead decodes the head and leaves r at the metadata.
func readHead(r *reader) head {
	return head{
		flags:        r.uvarint(),
		status:       r.varint(),
		total:        r.varint(),
		operation:    r.uvarint(),
		organisation: r.uvarint(),
		workspace:    r.uvarint(),
		key:          r.uvarint(),
		provider:     r.uvarint(),
		model:        r.uvarint(),
		trace:        r.take(r.count(1)),
	}
}

// entry decodes p. The entry shares memory only with the strings of its block.
func (p packed) entry() (*reqlog.Entry, error) {
	r := &reader{b: p.body[len(p.id):], strings: p.block.strings}
	h := readHead(r)
	e := &reqlog.Entry{
		ID:        p.id,
		Input:     reqlog.Input{Stream: h.flags&flagStream != 0, Operation: api.Operation(r.at(h.operation)), Model: r.at(h.model)},
		Result:    reqlog.Result{Status: int(h.status)},
		Durations: reqlog.Durations{Total: time.Duration(h.total)},
		Sender:    reqlog.Sender{Organisation: r.at(h.organisation), Workspace: r.at(h.workspace), KeyID: r.at(h.key)},
		Origin:    reqlog.Origin{Provider: r.at(h.provider)},
		Trace:     reqlog.Trace{TraceID: string(h.trace)},
	}
	e.Metadata = readMetadata(r)
	readNames(r, e)
	if h.flags&flagSpans != 0 {
		e.SpanID, e.ParentSpanID, e.SpanName = r.text(), r.text(), r.ref()
	}
	readTimes(r, e, h.flags)
	if h.flags&flagError != 0 {
		e.ErrorSource, e.ErrorCode, e.ErrorMessage = r.ref(), r.ref(), r.ref()
	}
	e.Usage = readUsage(r, h.flags)
	e.Attempts = readAttempts(r)
	if h.flags&flagDecisions != 0 {
		e.Decisions = readDecisions(r)
	}
	if h.flags&flagParams != 0 {
		e.Params = readParams(r)
	}
	e.Prompt = readPrompt(r, h.flags)
	readPrice(r, e, h.flags)
	if h.flags&flagConfig != 0 {
		e.Config = r.ref()
	}
	if h.flags&flagLevel != 0 {
		e.Level = reqlog.RecordLevel(r.uvarint())
	}
	if h.flags&flagUpstreamModel != 0 {
		e.UpstreamModel = r.ref()
	}
	if h.flags&flagLimits != 0 {
		e.Limits = readLimits(r)
	}
	if h.flags&flagChecks != 0 {
		e.Checks, e.Unchecked = readChecks(r)
	}
	if h.flags&flagSaved != 0 {
		e.Saved.Response = catalog.NanoDollars(r.varint())
		e.Saved.Prompt = catalog.NanoDollars(r.varint())
	}
	if h.flags&flagConfigVersion != 0 {
		e.ConfigVersion = r.varint()
	}
	if h.flags&flagTargetName != 0 {
		e.TargetName = r.ref()
	}
	if r.bad {
		return nil, errDamaged
	}
	return e, nil
}

func readParams(r *reader) []string {
	n := r.count(1)
	if n == 0 {
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = r.ref()
	}
	return list
}

func readPrompt(r *reader, flags uint64) (p reqlog.Prompt) {
	if flags&flagPrompt != 0 {
		p.ID, p.Slug, p.Version = r.ref(), r.ref(), r.varint()
	}
	return p
}

func readPrice(r *reader, e *reqlog.Entry, flags uint64) {
	e.CostEstimated = flags&flagCostEstimated != 0
	if flags&flagPriced != 0 {
		e.Cost, e.Priced, e.Price = catalog.NanoDollars(r.varint()), true, r.ref()
	}
}

func readMetadata(r *reader) map[string]string {
	n := r.count(2)
	if n == 0 {
		return nil
	}
	m := make(map[string]string, n)
	for range n {
		k := r.ref()
		m[k] = r.ref()
	}
	return m
}

func readNames(r *reader, e *reqlog.Entry) {
	for _, s := range [...]*string{
		&e.KeyName, &e.Method, &e.Path, &e.Slug, &e.ResponseModel,
		&e.OptionIndex, &e.CacheStatus, &e.Finish, &e.UserAgent,
	} {
		*s = r.ref()
	}
}

func readTimes(r *reader, e *reqlog.Entry, flags uint64) {
	if flags&flagTime != 0 {
		seconds := r.varint() + millis(e.ID)/1000
		e.Time = time.Unix(seconds, int64(r.uvarint()%1e9)).UTC()
	}
	e.Upstream = time.Duration(r.varint())
	e.FirstToken = time.Duration(r.varint())
	e.Overhead = time.Duration(r.varint())
	e.RequestBytes = r.varint()
	e.ResponseBytes = r.varint()
}

func readUsage(r *reader, flags uint64) llm.Usage {
	u := llm.Usage{Known: flags&flagUsageKnown != 0, Estimated: flags&flagUsageEstimated != 0}
	if flags&flagUsage == 0 {
		return u
	}
	for _, n := range [...]*int64{&u.Input, &u.CachedInput, &u.CacheWrite5m, &u.CacheWrite1h, &u.Output, &u.Reasoning, &u.InputAudio,
		&u.OutputAudio} {
		*n = r.varint()
	}
	return u
}

func readAttempts(r *reader) []reqlog.Attempt {
	n := r.count(7)
	if n == 0 {
		return nil
	}
	attempts := make([]reqlog.Attempt, n)
	for i := range attempts {
		attempts[i] = reqlog.Attempt{
			Target:   r.ref(),
			Provider: r.ref(),
			Slug:     r.ref(),
			Status:   int(r.varint()),
			Error:    r.ref(),
			Start:    time.Duration(r.varint()),
			Took:     time.Duration(r.varint()),
		}
	}
	return attempts
}

func readLimits(r *reader) []reqlog.LimitUse {
	limits := make([]reqlog.LimitUse, r.count(7))
	for i := range limits {
		n := r.uvarint()
		limits[i] = reqlog.LimitUse{
			Attempt: int(n >> 1), Refused: n&1 != 0, Holder: r.ref(), ID: r.ref(), Measure: r.ref(), Unit: r.ref(),
			Reserved: r.varint(), Used: r.varint(),
		}
	}
	return limits
}

func readChecks(r *reader) (checks []reqlog.CheckUse, unchecked []string) {
	for range r.count(8) {
		bits := r.uvarint()
		checks = append(checks, reqlog.CheckUse{
			Denied: bits&1 != 0, Transformed: bits&2 != 0, Async: bits&4 != 0, Shadow: bits&8 != 0,
			Event: r.ref(), Target: r.ref(), Hook: r.ref(), Version: r.ref(), Check: r.ref(), Verdict: reqlog.CheckVerdict(r.ref()),
			Took: time.Duration(r.varint()),
		})
	}
	for range r.count(1) {
		unchecked = append(unchecked, r.ref())
	}
	return checks, unchecked
}

func readDecisions(r *reader) []reqlog.Decision {
	decisions := make([]reqlog.Decision, r.count(2))
	for i := range decisions {
		decisions[i] = reqlog.Decision{Path: r.ref(), Text: r.ref()}
	}
	return decisions
}

// reader decodes values. After a read beyond the end it is marked as bad and returns
// zeros.
type reader struct {
	b       []byte
	strings []string
	bad     bool
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) varint() int64 {
	n, size := binary.Varint(r.b)
	if size <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[size:]
	return n
}

// count decodes the number of following elements, each of at least size bytes.
func (r *reader) count(size int) int {
	n := r.uvarint()
	if n > uint64(len(r.b)/size) {
		r.fail()
		return 0
	}
	return int(n)
}

// take returns the next n bytes without copying them.
func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.fail()
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) text() string { return string(r.take(r.count(1))) }
func (r *reader) ref() string  { return r.at(r.uvarint()) }

// at returns the shared string with this number.
func (r *reader) at(n uint64) string {
	if n >= uint64(len(r.strings)) {
		r.fail()
		return ""
	}
	return r.strings[n]
}

func (r *reader) fail() { r.b, r.bad = nil, true }
