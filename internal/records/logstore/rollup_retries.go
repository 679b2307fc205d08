package logstore

import "modelgate/internal/records/reqlog"

// mostRetries is the number of retries counted separately; a config allows no more.
const mostRetries = 5

// RetrySuccesses counts successful requests whose first attempt failed. Each counts
// once.
type RetrySuccesses struct {
	// Retried counts successes of the first target, by number of retries from one; the
	// last element includes more.
	Retried [mostRetries]int64
	// FellBack counts successes of another target.
	FellBack int64
}

// add counts an entry.
func (r *RetrySuccesses) add(e *reqlog.Entry) {
	if e.Outcome() != reqlog.OutcomeSuccess || len(e.Attempts) < 2 {
		return
	}
	first, tries := &e.Attempts[0], 0
	for i := range e.Attempts {
		a := &e.Attempts[i]
		if a.Start < first.Start { // hedged attempts that were cancelled come last
			first = a
		}
		if a.Target == e.OptionIndex {
			tries++
		}
	}
	switch {
	case first.Target != e.OptionIndex:
		r.FellBack++
	case tries > 1:
		r.Retried[min(tries-2, mostRetries-1)]++
	}
}

func (r *RetrySuccesses) merge(o *RetrySuccesses) {
	for i := range r.Retried {
		r.Retried[i] += o.Retried[i]
	}
	r.FellBack += o.FellBack
}

// append encodes r: the number of counters, then the counters without trailing zeros,
// so that most take one byte.
func (r *RetrySuccesses) append(c *encoder) {
	all := [1 + mostRetries]int64{r.FellBack}
	copy(all[1:], r.Retried[:])
	numbers := all[:]
	for len(numbers) > 0 && numbers[len(numbers)-1] == 0 {
		numbers = numbers[:len(numbers)-1]
	}
	c.uvarint(uint64(len(numbers)))
	for _, n := range numbers {
		c.varint(n)
	}
}

func readRescued(b *reader) (r RetrySuccesses) {
	n := b.count(1)
	if n > 1+mostRetries {
		b.fail()
		return r
	}
	for i := range n {
		if i == 0 {
			r.FellBack = b.varint()
		} else {
			r.Retried[i-1] = b.varint()
		}
	}
	return r
}
