package diagnosis

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Differences of clocks. Cloud providers reject signatures of requests that are five minutes
// off: https://docs.aws.amazon.com/IAM/latest/UserGuide/signing-elements.html
const (
	clockWarning = 5 * time.Second
	clockFailure = 5 * time.Minute
)

// clock collects what other clocks show. It is safe for concurrent use.
type clock struct {
	mu      sync.Mutex
	samples []sample
}

// sample is the difference of another clock to that of this machine.
type sample struct {
	source string
	ahead  time.Duration // of this machine; negative if the other is ahead
	within time.Duration // precision
}

// add adds the time that a source showed while it was asked from began to ended.
func (c *clock) add(source string, shown, began, ended time.Time) {
	half := ended.Sub(began) / 2
	c.mu.Lock()
	defer c.mu.Unlock()
	c.samples = append(c.samples, sample{source, began.Add(half).Sub(shown), half})
}

// addHeader adds the Date header of a response, which counts seconds.
func (c *clock) addHeader(source string, h http.Header, began, ended time.Time) {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		c.add(source, date.Add(time.Second/2), began.Add(-time.Second/2), ended.Add(time.Second/2))
	}
}

// finding compares with the median, so that one wrong clock decides nothing.
func (c *clock) finding(offline bool) Finding {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := Finding{Check: "clock", Level: Note, Text: "not compared with others, because none was reached"}
	if offline {
		f.Text = "not compared with others, because --offline makes no connections"
	}
	if len(c.samples) == 0 {
		return f
	}
	slices.SortFunc(c.samples, func(a, b sample) int {
		if a.ahead != b.ahead {
			return int(min(max(a.ahead-b.ahead, -1), 1))
		}
		return strings.Compare(a.source, b.source)
	})
	m := c.samples[(len(c.samples)-1)/2]
	off := max(m.ahead.Abs()-m.within, 0)
	f.Level, f.Text = OK, fmt.Sprintf("agrees with %d others", len(c.samples))
	if off <= clockWarning {
		return f
	}
	where := "ahead of"
	if m.ahead < 0 {
		where = "behind"
	}
	f.Level, f.Text = Warning, fmt.Sprintf("%s %s the clock of %s, the median of %d", off.Round(time.Second), where, m.source, len(c.samples))
	f.Fix = "synchronise the clock of this machine, for example with chrony"
	if off > clockFailure {
		f.Level = Failed
		f.Text += "; cloud providers reject signatures, and sign-ins fail"
	}
	return f
}
