package logstore

import (
	"encoding/binary"

	"modelgate/internal/model/llm"
	"modelgate/internal/records/reqlog"
)

// A block is encoded as:
//
//	1 byte    format of the block
//	uvarint   number of strings, then each: uvarint length, bytes
//	uvarint   number of entries, then each: uvarint length, body
//
// Strings that entries share (names, paths, models) are stored once and referred to by number, from 1; 0 is the empty
// string. A body begins with the fields that filters check, in the order of add, so that an
// entry that does not match is skipped early. Entries are sorted by descending id.
const blockFormat = 1

// Flags of an entry.
const (
	flagStream = 1 << iota
	flagTime
	flagUsage
	flagUsageKnown
	flagError
	flagSpans
	flagDecisions
	flagParams
	flagPrompt
	flagPriced
	flagConfig
	flagLevel
	flagUsageEstimated
	flagCostEstimated
	flagUpstreamModel
	flagLimits
	flagChecks
	flagSaved
	flagConfigVersion
	flagTargetName
)

// Fields with shared strings; see [encoder.ref].
const (
	refOperation = iota
	refOrganisation
	refWorkspace
	refKeyID
	refProvider
	refModel
	refKeyName
	refMethod
	refPath
	refSlug
	refResponseModel
	refOptionIndex
	refCacheStatus
	refErrorSource
	refErrorCode
	refErrorMessage
	refFinish
	refUserAgent
	refSpanName
	refMetadata
	refAttemptTarget
	refAttemptProvider
	refAttemptSlug
	refAttemptError
	refDecisionPath
	refDecisionText
	refParam
	refPrompt
	refPrice
	refConfig
	refUpstreamModel
	refLimit
	refCheck
	refTargetName
	refFields
)

// encoder encodes entries, one block at a time.
type encoder struct {
	entries int
	numbers map[string]uint64
	table   []byte // the strings, encoded
	bodies  []byte
	body    []byte

	// recent is the last value of each field: consecutive entries are similar, and
	// comparing is cheaper than a lookup.
	recent [refFields]struct {
		text   string
		number uint64
	}
}

func (c *encoder) reset() {
	if c.numbers == nil {
		c.numbers = make(map[string]uint64, 64)
	}
	clear(c.numbers)
	clear(c.recent[:])
	c.entries, c.table, c.bodies = 0, c.table[:0], c.bodies[:0]
}

// full reports whether the block should end.
func (c *encoder) full() bool {
	return c.entries >= blockEntries || len(c.bodies)+len(c.table) >= blockBytes
}

// appendBlock appends the block of all entries added since the last reset.
func (c *encoder) appendBlock(dst []byte) []byte {
	dst = append(dst, blockFormat)
	dst = binary.AppendUvarint(dst, uint64(len(c.numbers)))
	dst = append(dst, c.table...)
	dst = binary.AppendUvarint(dst, uint64(c.entries))
	return append(dst, c.bodies...)
}

// add encodes e as the next entry.
func (c *encoder) add(e *reqlog.Entry) {
	c.entries++
	c.body = append(c.body[:0], e.ID[:]...)
	flags := flagsOf(e)
	c.addHead(e, flags)
	c.addMetadata(e.Metadata)
	c.addNames(e)
	if flags&flagSpans != 0 {
		c.text(e.SpanID)
		c.text(e.ParentSpanID)
		c.ref(refSpanName, e.SpanName)
	}
	c.addTimes(e, flags)
	if flags&flagError != 0 {
		c.ref(refErrorSource, e.ErrorSource)
		c.ref(refErrorCode, e.ErrorCode)
		c.ref(refErrorMessage, e.ErrorMessage)
	}
	if flags&flagUsage != 0 {
		c.addUsage(&e.Usage)
	}
	c.addAttempts(e.Attempts)
	if flags&flagDecisions != 0 {
		c.addDecisions(e.Decisions)
	}
	if flags&flagParams != 0 {
		c.addParams(e.Params)
	}
	c.addChangesr(e, flags)
	c.bodies = binary.AppendUvarint(c.bodies, uint64(len(c.body)))
	c.bodies = append(c.bodies, c.body...)
}

// addChangesr encodes fields added in later versions.
func (c *encoder) addChangesr(e *reqlog.Entry, flags uint64) {
	if flags&flagPrompt != 0 {
		c.ref(refPrompt, e.Prompt.ID)
		c.ref(refPrompt, e.Prompt.Slug)
		c.varint(e.Prompt.Version)
	}
	if flags&flagPriced != 0 {
		c.varint(int64(e.Cost))
		c.ref(refPrice, e.Price)
	}
	if flags&flagConfig != 0 {
		c.ref(refConfig, e.Config)
	}
	if flags&flagLevel != 0 {
		c.uvarint(uint64(e.Level))
	}
	if flags&flagUpstreamModel != 0 {
		c.ref(refUpstreamModel, e.UpstreamModel)
	}
	if flags&flagLimits != 0 {
		c.addLimits(e.Limits)
	}
	if flags&flagChecks != 0 {
		c.addChecks(e.Checks, e.Unchecked)
	}
	if flags&flagSaved != 0 {
		c.varint(int64(e.Saved.Response))
		c.varint(int64(e.Saved.Prompt))
	}
	if flags&flagConfigVersion != 0 {
		c.varint(e.ConfigVersion)
	}
	if flags&flagTargetName != 0 {
		c.ref(refTargetName, e.TargetName)
	}
}

func (c *encoder) addHead(e *reqlog.Entry, flags uint64) {
	c.uvarint(flags)
	c.varint(int64(e.Status))
	c.varint(int64(e.Total))
	c.ref(refOperation, string(e.Operation))
	c.ref(refOrganisation, e.Organisation)
	c.ref(refWorkspace, e.Workspace)
	c.ref(refKeyID, e.KeyID)
	c.ref(refProvider, e.Provider)
	c.ref(refModel, e.Model)
	c.text(e.TraceID)
}

func flagsOf(e *reqlog.Entry) uint64 {
	var f uint64
	set := func(on bool, flag uint64) {
		if on {
			f |= flag
		}
	}
	usage := e.Usage
	usage.Known, usage.Estimated = false, false
	set(e.Stream, flagStream)
	set(!e.Time.IsZero(), flagTime)
	set(usage != llm.Usage{}, flagUsage)
	set(e.Usage.Known, flagUsageKnown)
	set(e.Usage.Estimated, flagUsageEstimated)
	set(e.CostEstimated, flagCostEstimated)
	set(e.ErrorSource != "" || e.ErrorCode != "" || e.ErrorMessage != "", flagError)
	set(len(e.Decisions) > 0, flagDecisions)
	set(len(e.Params) > 0, flagParams)
	set(e.Prompt != reqlog.Prompt{}, flagPrompt)
	set(e.Priced, flagPriced)
	set(e.Config != "", flagConfig)
	set(e.Level != reqlog.LevelMetadata, flagLevel)
	set(e.UpstreamModel != "", flagUpstreamModel)
	set(len(e.Limits) > 0, flagLimits)
	set(len(e.Checks)+len(e.Unchecked) > 0, flagChecks)
	set(e.Saved != reqlog.Saved{}, flagSaved)
	set(e.ConfigVersion != 0, flagConfigVersion)
	set(e.TargetName != "", flagTargetName)
	set(e.SpanID != "" || e.ParentSpanID != "" || e.SpanName != "", flagSpans)
	return f
}

func (c *encoder) addMetadata(m map[string]string) {
	c.uvarint(uint64(len(m)))
	for k, v := range m {
		c.ref(refMetadata, k)
		c.ref(refMetadata, v)
	}
}

func (c *encoder) addNames(e *reqlog.Entry) {
	c.ref(refKeyName, e.KeyName)
	c.ref(refMethod, e.Method)
	c.ref(refPath, e.Path)
	c.ref(refSlug, e.Slug)
	c.ref(refResponseModel, e.ResponseModel)
	c.ref(refOptionIndex, e.OptionIndex)
	c.ref(refCacheStatus, e.CacheStatus)
	c.ref(refFinish, e.Finish)
	c.ref(refUserAgent, e.UserAgent)
}

// addTimes encodes times and sizes. The entry's time is stored relative to the time of
// its id.
func (c *encoder) addTimes(e *reqlog.Entry, flags uint64) {
	if flags&flagTime != 0 {
		c.varint(e.Time.Unix() - millis(e.ID)/1000)
		c.uvarint(uint64(e.Time.Nanosecond()))
	}
	c.varint(int64(e.Upstream))
	c.varint(int64(e.FirstToken))
	c.varint(int64(e.Overhead))
	c.varint(e.RequestBytes)
	c.varint(e.ResponseBytes)
}

func (c *encoder) addUsage(u *llm.Usage) {
	for _, n := range [...]int64{u.Input, u.CachedInput, u.CacheWrite5m, u.CacheWrite1h, u.Output, u.Reasoning, u.InputAudio, u.OutputAudio} {
		c.varint(n)
	}
}

func (c *encoder) addAttempts(attempts []reqlog.Attempt) {
	c.uvarint(uint64(len(attempts)))
	for i := range attempts {
		a := &attempts[i]
		c.ref(refAttemptTarget, a.Target)
		c.ref(refAttemptProvider, a.Provider)
		c.ref(refAttemptSlug, a.Slug)
		c.varint(int64(a.Status))
		c.ref(refAttemptError, a.Error)
		c.varint(int64(a.Start))
		c.varint(int64(a.Took))
	}
}

func (c *encoder) addDecisions(decisions []reqlog.Decision) {
	c.uvarint(uint64(len(decisions)))
	for i := range decisions {
		c.ref(refDecisionPath, decisions[i].Path)
		c.ref(refDecisionText, decisions[i].Text)
	}
}

func (c *encoder) addLimits(limits []reqlog.LimitUse) {
	c.uvarint(uint64(len(limits)))
	for i := range limits {
		u := &limits[i]
		refused := uint64(0)
		if u.Refused {
			refused = 1
		}
		c.uvarint(uint64(u.Attempt)<<1 | refused)
		c.ref(refLimit, u.Holder)
		c.ref(refLimit, u.ID)
		c.ref(refLimit, u.Measure)
		c.ref(refLimit, u.Unit)
		c.varint(u.Reserved)
		c.varint(u.Used)
	}
}

func (c *encoder) addChecks(checks []reqlog.CheckUse, unchecked []string) {
	c.uvarint(uint64(len(checks)))
	for i := range checks {
		u := &checks[i]
		var bits uint64
		for n, on := range [...]bool{u.Denied, u.Transformed, u.Async, u.Shadow} {
			if on {
				bits |= 1 << n
			}
		}
		c.uvarint(bits)
		c.ref(refCheck, u.Event)
		c.ref(refCheck, u.Target)
		c.ref(refCheck, u.Hook)
		c.ref(refCheck, u.Version)
		c.ref(refCheck, u.Check)
		c.ref(refCheck, string(u.Verdict))
		c.varint(int64(u.Took))
	}
	c.uvarint(uint64(len(unchecked)))
	for _, name := range unchecked {
		c.ref(refCheck, name)
	}
}

func (c *encoder) addParams(params []string) {
	c.uvarint(uint64(len(params)))
	for _, p := range params {
		c.ref(refParam, p)
	}
}

func (c *encoder) uvarint(n uint64) { c.body = binary.AppendUvarint(c.body, n) }
func (c *encoder) varint(n int64)   { c.body = binary.AppendVarint(c.body, n) }

// text encodes a string that is not shared.
func (c *encoder) text(s string) {
	c.uvarint(uint64(len(s)))
	c.body = append(c.body, s...)
}

// ref encodes the number of a shared string, which gets a number if it is new.
func (c *encoder) ref(field int, s string) {
	r := &c.recent[field]
	if r.text != s {
		r.text, r.number = s, c.number(s)
	}
	c.uvarint(r.number)
}

func (c *encoder) number(s string) uint64 {
	if s == "" {
		return 0
	}
	n, ok := c.numbers[s]
	if !ok {
		n = uint64(len(c.numbers)) + 1
		c.numbers[s] = n
		c.table = binary.AppendUvarint(c.table, uint64(len(s)))
		c.table = append(c.table, s...)
	}
	return n
}
