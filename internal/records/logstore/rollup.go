package logstore

import (
	"encoding/binary"
	"math"
	"time"

	"modelgate/internal/model/catalog"
	"modelgate/internal/records/reqlog"
)

// Totals are sums over a number of entries.
type Totals struct {
	Requests  int64
	Successes int64 // by outcome of the request, like Errors and Cancelled
	Errors    int64
	Cancelled int64
	Rescued   RetrySuccesses

	Hits         int64 // served from the cache
	SemanticHits int64 // of those, by semantic similarity

	Counted    int64 // requests with known tokens, summed in the next two fields
	Prompt     int64
	Completion int64
	Estimated  int64 // requests with at least partly estimated usage

	Priced int64 // requests with known cost, summed in Cost
	Cost   catalog.NanoDollars
	Saved  reqlog.Saved // by caches, and not part of Cost

	Latencies Sketch // empty unless requested
	latency   int64  // sum, in microseconds

	// FirstTokens are times to the first token, of the requests that have one; empty
	// unless requested. Begun counts these requests.
	FirstTokens Sketch
	Begun       int64
	firstToken  int64 // sum, in microseconds

	first, last int64 // times of ids, in milliseconds; undefined without requests

	// Rated is the number of requests whose trace has feedback, if requested, and
	// Weighted the sum of the traces' averages.
	Rated    int64
	Weighted float64
}

// AverageLatency returns the average total duration, zero without requests.
func (s *Totals) AverageLatency() time.Duration {
	if s.Requests == 0 {
		return 0
	}
	return time.Duration(float64(s.latency) / float64(s.Requests) * float64(time.Microsecond))
}

// AverageFirstToken returns the average time to the first token, zero if no request has
// one.
func (s *Totals) AverageFirstToken() time.Duration {
	if s.Begun == 0 {
		return 0
	}
	return time.Duration(float64(s.firstToken) / float64(s.Begun) * float64(time.Microsecond))
}

// First returns when the first request began.
func (s *Totals) First() time.Time { return time.UnixMilli(s.first).UTC() }

// Last returns when the last request began.
func (s *Totals) Last() time.Time { return time.UnixMilli(s.last).UTC() }

// add counts an entry, except for values that follow from its key.
func (s *Totals) add(e *reqlog.Entry) {
	if e.Usage.Known {
		s.Counted++
		s.Prompt += e.Usage.Prompt()
		s.Completion += e.Usage.Completion()
	}
	if e.Usage.Estimated || e.CostEstimated {
		s.Estimated++
	}
	if e.Priced {
		s.Priced++
		s.Cost += e.Cost
	}
	s.Saved.Response += e.Saved.Response
	s.Saved.Prompt += e.Saved.Prompt
	s.Rescued.add(e)
	s.latency += e.Total.Microseconds()
	s.Latencies.Add(e.Total)
	if e.FirstToken > 0 {
		s.Begun++
		s.firstToken += e.FirstToken.Microseconds()
		s.FirstTokens.Add(e.FirstToken)
	}
	at := millis(e.ID)
	s.extendPeriod(at, at)
	s.Requests++
}

// Merge adds o to s.
func (s *Totals) Merge(o *Totals) {
	if o.Requests == 0 {
		return
	}
	s.extendPeriod(o.first, o.last)
	s.Requests += o.Requests
	s.Successes += o.Successes
	s.Errors += o.Errors
	s.Cancelled += o.Cancelled
	s.Rescued.merge(&o.Rescued)
	s.Hits += o.Hits
	s.SemanticHits += o.SemanticHits
	s.Counted += o.Counted
	s.Prompt += o.Prompt
	s.Completion += o.Completion
	s.Estimated += o.Estimated
	s.Priced += o.Priced
	s.Cost += o.Cost
	s.Saved.Response += o.Saved.Response
	s.Saved.Prompt += o.Saved.Prompt
	s.latency += o.latency
	s.Rated += o.Rated
	s.Weighted += o.Weighted
	s.Latencies.Merge(&o.Latencies)
	s.Begun += o.Begun
	s.firstToken += o.firstToken
	s.FirstTokens.Merge(&o.FirstTokens)
}

func (s *Totals) extendPeriod(first, last int64) {
	if s.Requests == 0 {
		s.first, s.last = first, last
	}
	s.first, s.last = min(s.first, first), max(s.last, last)
}

// groupSet holds the totals of one organisation and period, by key.
type groupSet map[groupKey]*Totals

func (set groupSet) at(k groupKey) *Totals {
	s := set[k]
	if s == nil {
		s = new(Totals)
		set[k] = s
	}
	return s
}

// A stored set is encoded as:
//
//	1 byte    format
//	uvarint   number of strings, then each: uvarint length, bytes
//	uvarint   number of totals, then each: the strings of its key as numbers,
//	          its status, its outcome, its counters, rescued requests,
//	          uvarint length and bytes of its sketch
//
// Values that follow from keys, such as successes, are not stored. Format 1 has no
// rescued requests, 2 no estimated ones, and 4 no savings. Up to format 3 keys have no
// strings after the cache's and no outcome, which then follows from the status.
//
// Details are in the last string, which older programs do not refer to: they read the
// same sums without details, several totals of which then have the same key.
const sumFormat = 5

func (set groupSet) append(dst []byte, bucket int64) []byte {
	var c encoder
	c.reset()
	details := []byte(detailMark)
	for k, s := range set {
		for _, t := range k.texts[1:ByStatus] {
			c.uvarint(c.number(t))
		}
		c.varint(int64(k.status))
		c.uvarint(uint64(k.outcome))
		for _, n := range s.numbers(bucket) {
			c.varint(n)
		}
		s.Rescued.append(&c)
		c.varint(s.Estimated)
		c.varint(int64(s.Saved.Response))
		c.varint(int64(s.Saved.Prompt))
		sketch := s.Latencies.append(nil)
		c.uvarint(uint64(len(sketch)))
		c.body = append(c.body, sketch...)
		details = appendDetails(details, &c, &k, s)
	}
	c.number(string(details))
	dst = append(dst, sumFormat)
	dst = binary.AppendUvarint(dst, uint64(len(c.numbers)))
	dst = append(dst, c.table...)
	dst = binary.AppendUvarint(dst, uint64(len(set)))
	return append(dst, c.body...)
}

func (s *Totals) numbers(bucket int64) [9]int64 {
	return [...]int64{s.Requests, s.Counted, s.Prompt, s.Completion, s.Priced, int64(s.Cost), s.latency, s.first - bucket, s.last - bucket}
}

// readSums calls f with each totals of a stored set. It does not retain data. The
// values passed to f are valid until f returns, and their durations are encoded in
// its sketches.
func readSums(data []byte, bucket int64, f func(k *groupKey, s *Totals, at sketches) error) error {
	r := reader{b: data}
	v := r.take(1)
	if r.bad || v[0] < 1 || v[0] > sumFormat {
		return errDamaged
	}
	r.strings = readStrings(&r)
	texts := int(ByStatus)
	if v[0] < 4 {
		texts = int(ByCache) + 1
	}
	var k groupKey
	details := detailsOf(&r)
	for range r.count(texts + 10) {
		for i := 1; i < texts; i++ {
			k.texts[i] = r.ref()
		}
		k.status = int(r.varint())
		k.outcome = reqlog.OutcomeOf(k.status)
		if v[0] > 3 {
			k.outcome = reqlog.ExchangeOutcome(min(r.uvarint(), math.MaxUint8))
		}
		if k.outcome.String() == "" {
			return errDamaged
		}
		var n [9]int64
		for i := range n {
			n[i] = r.varint()
		}
		var rescued RetrySuccesses
		if v[0] > 1 {
			rescued = readRescued(&r)
		}
		estimated := int64(0)
		if v[0] > 2 {
			estimated = r.varint()
		}
		var saved reqlog.Saved
		if v[0] > 4 {
			saved.Response = catalog.NanoDollars(r.varint())
			saved.Prompt = catalog.NanoDollars(r.varint())
		}
		sketch := r.take(r.count(1))
		firsts := details.read(&k)
		if r.bad || details.bad {
			return errDamaged
		}
		s := Totals{
			Rescued: rescued, Estimated: estimated, Saved: saved,
			Requests: n[0], Counted: n[1], Prompt: n[2], Completion: n[3], Priced: n[4], Cost: catalog.NanoDollars(n[5]),
			latency: n[6], first: n[7] + bucket, last: n[8] + bucket,
		}
		s.Begun, s.firstToken = firsts.begun, firsts.sum
		s.countKey(&k)
		if err := f(&k, &s, sketches{sketch, firsts.sketch}); err != nil {
			return err
		}
	}
	if r.bad || len(r.b) > 0 {
		return errDamaged
	}
	return nil
}

// mergeStored adds a stored set to set.
func (set groupSet) mergeStored(data []byte, bucket int64) error {
	return readSums(data, bucket, func(k *groupKey, s *Totals, at sketches) error {
		into := set.at(*k)
		into.Merge(s)
		return at.addTo(into)
	})
}

// checkSums returns an error unless a stored set can be read completely.
func checkSums(data []byte) error {
	return readSums(data, 0, func(_ *groupKey, _ *Totals, at sketches) error { return at.addTo(new(Totals)) })
}
