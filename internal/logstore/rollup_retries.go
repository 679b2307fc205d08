package logstore

import "modelgate/internal/reqlog"

// mostRetries is how many retries are told apart; a config allows no more.
const mostRetries = 5

// RetrySuccesses are successes that were none at the first try. Each counts once.
type RetrySuccesses struct {
	// Retried are those after so many retries of the target that was tried first,
	// from one on; the last are those after more, too.
	Retried [mostRetries]int64
	// FellBack are those that another target gave.
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
		if a.Start < first.Start { // those that were given up for a quicker one come last
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

// append packs r: how many numbers follow, then these. Zeros at the end are left
// out, so that most take one byte.
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
