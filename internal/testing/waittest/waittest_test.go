package waittest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/testing/waittest"
)

// failure is a test that records how it fails.
type failure struct {
	testing.TB
	text string
}

func (f *failure) Helper() {}

func (f *failure) Fatalf(form string, args ...any) {
	f.text = fmt.Sprintf(form, args...)
	runtime.Goexit()
}

// run runs a step of a test and returns how it fails, and after which time.
func run(step func(t testing.TB)) (text string, took time.Duration) {
	f, began := new(failure), time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		step(f)
	}()
	<-done
	return f.text, time.Since(began)
}

func TestWaitsEndAfterTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := make(chan int)
		for name, step := range map[string]func(t testing.TB){
			"Receive": func(t testing.TB) { waittest.Receive(t, c, "the response") },
			"Send":    func(t testing.TB) { waittest.Send(t, c, 1, "the response") },
			"Until":   func(t testing.TB) { waittest.Until(t, "the response is there", func() bool { return false }) },
		} {
			text, took := run(step)
			if !strings.Contains(text, "the response") || took.Truncate(time.Second) != waittest.Bound {
				t.Errorf("%s failed with %q after %v, want the name of what was awaited after %v", name, text, took, waittest.Bound)
			}
		}
	})
}

func TestValuesArePassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := make(chan int)
		go func() {
			time.Sleep(waittest.Bound / 2)
			waittest.Send(t, c, 7, "the receiver")
			close(c)
		}()
		if got := waittest.Receive(t, c, "a value"); got != 7 {
			t.Errorf("received %d, want 7", got)
		}
		if got := waittest.Receive(t, c, "the end"); got != 0 {
			t.Errorf("received %d from a closed channel, want 0", got)
		}
	})
}

func TestUntilAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		waittest.Until(t, "the third question", func() bool { asked++; return asked == 3 })
		if asked != 3 {
			t.Errorf("asked %d times, want 3", asked)
		}
	})
}
