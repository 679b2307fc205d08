package batches

import (
	"context"
	"slices"
)

// mark is about a line that was announced: whether a provider may have received it. It is
// stored, so that only lines that may have left the node count as interrupted.
type mark struct {
	line   int
	sent   bool
	stored chan<- bool // receives whether it was stored
}

// mark stores whether a line may be sent, unless that is what was marked, and sets marked. It
// reports false if the work must end.
func (w *work) mark(l *line, marked *bool, sent bool) bool {
	if *marked == sent {
		return true
	}
	stored := make(chan bool, 1)
	w.marks <- mark{l.Number, sent, stored}
	*marked = sent
	return <-stored
}

// mark stores a mark with others that wait, unless storing has failed. It returns the error of
// the work.
func (c *collector) mark(ctx context.Context, first mark, failed error) error {
	list := []mark{first}
	for more := true; more; {
		select {
		case m := <-c.w.marks:
			list = append(list, m)
		default:
			more = false
		}
	}
	if failed == nil {
		failed = c.announce(ctx, 0, list)
	}
	for _, m := range list {
		m.stored <- failed == nil
	}
	return failed
}

// apply changes the record of a batch by a mark. Applying it again changes nothing.
func (m *mark) apply(w *work) {
	_, again := w.repeats[m.line]
	list, listed := &w.Waiting, !m.sent
	if again {
		list, listed = &w.Repeats, m.sent
	}
	changed := slices.DeleteFunc(slices.Clone(*list), func(n int) bool { return n == m.line })
	if listed {
		changed = append(changed, m.line)
	}
	*list = changed
}
