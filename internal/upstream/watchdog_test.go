package upstream_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/upstream"
)

// limits are used by most tests; the numbers are all different.
var limits = upstream.Timeouts{Header: 5 * time.Second, FirstEvent: 20 * time.Second, Idle: 10 * time.Second, Total: 2 * time.Minute}

func TestEachPhaseExpiresOnItsOwnLimit(t *testing.T) {
	for _, tt := range []struct {
		name  string
		drive func(w *upstream.Watchdog)
		phase upstream.Phase
		after time.Duration
	}{
		{"no header", func(*upstream.Watchdog) {}, upstream.Header, 5 * time.Second},
		{"no first event", func(w *upstream.Watchdog) {
			time.Sleep(4 * time.Second)
			w.Phase(upstream.FirstEvent)
		}, upstream.FirstEvent, 24 * time.Second},
		{"stall after events", func(w *upstream.Watchdog) {
			w.Phase(upstream.FirstEvent)
			for range 5 {
				w.Phase(upstream.Idle)
				time.Sleep(9 * time.Second)
			}
			w.Phase(upstream.Idle)
		}, upstream.Idle, 55 * time.Second},
		{"stream without end", func(w *upstream.Watchdog) {
			w.Phase(upstream.FirstEvent)
			for w.Context().Err() == nil {
				w.Phase(upstream.Idle)
				select {
				case <-w.Context().Done():
				case <-time.After(time.Second):
				}
			}
		}, upstream.Total, 2 * time.Minute},
		{"a shorter phase after a longer one", func(w *upstream.Watchdog) {
			w.Phase(upstream.FirstEvent)
			w.Phase(upstream.Idle)
		}, upstream.Idle, 10 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				w := upstream.NewWatchdog(context.Background(), limits)
				defer w.Stop()
				tt.drive(w)
				<-w.Context().Done()
				wantExpired(t, w, tt.phase, start, tt.after)
			})
		})
	}
}

func TestLimitsOfZeroNeverExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := upstream.NewWatchdog(context.Background(), upstream.Timeouts{})
		defer w.Stop()
		time.Sleep(1000 * time.Hour)
		w.Phase(upstream.FirstEvent)
		w.Phase(upstream.Idle)
		w.Pause()
		w.Resume()
		time.Sleep(1000 * time.Hour)
		synctest.Wait()
		if phase, ok := w.Expired(); ok || w.Context().Err() != nil {
			t.Errorf("Expired() = %v, %t and Err() = %v, want a living context", phase, ok, w.Context().Err())
		}
	})
}

func TestAPhaseWithoutLimitEndsTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		w := upstream.NewWatchdog(context.Background(), upstream.Timeouts{Header: time.Second, Total: time.Minute})
		defer w.Stop()
		w.Phase(upstream.FirstEvent)
		<-w.Context().Done()
		wantExpired(t, w, upstream.Total, start, time.Minute)
	})
}

func TestPauseStopsTheIdleClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		w := upstream.NewWatchdog(context.Background(), limits)
		defer w.Stop()
		w.Phase(upstream.Idle)
		time.Sleep(4 * time.Second)
		w.Pause()
		time.Sleep(20 * time.Second)
		w.Pause() // a second one changes nothing
		time.Sleep(30 * time.Second)
		w.Resume()
		w.Resume()
		if w.Context().Err() != nil {
			t.Fatal("expired while the client was slow")
		}
		<-w.Context().Done()
		wantExpired(t, w, upstream.Idle, start, 60*time.Second) // 4 + 50 paused + 6
	})
}

func TestPauseLeavesTheTotalLimitRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		w := upstream.NewWatchdog(context.Background(), limits)
		defer w.Stop()
		w.Phase(upstream.Idle)
		w.Pause()
		<-w.Context().Done()
		wantExpired(t, w, upstream.Total, start, 2*time.Minute)
	})
}

func TestANewPhaseEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		w := upstream.NewWatchdog(context.Background(), limits)
		defer w.Stop()
		w.Pause()
		time.Sleep(time.Minute)
		w.Phase(upstream.Idle)
		w.Resume()
		<-w.Context().Done()
		wantExpired(t, w, upstream.Idle, start, 70*time.Second)
	})
}

func TestAClientThatLeftIsNotATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("client gone")
		parent, leave := context.WithCancelCause(context.Background())
		w := upstream.NewWatchdog(parent, limits)
		defer w.Stop()
		leave(gone)
		time.Sleep(time.Hour)
		synctest.Wait()
		if phase, ok := w.Expired(); ok {
			t.Errorf("Expired() = %v, true, want false", phase)
		}
		if got := context.Cause(w.Context()); got != gone {
			t.Errorf("Cause() = %v, want %v", got, gone)
		}
	})
}

func TestStopEndsTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := upstream.NewWatchdog(context.Background(), limits)
		w.Stop()
		w.Stop()
		w.Phase(upstream.Idle)
		time.Sleep(time.Hour)
		synctest.Wait()
		if phase, ok := w.Expired(); ok {
			t.Errorf("Expired() = %v, true after Stop, want false", phase)
		}
		if w.Context().Err() == nil {
			t.Error("the context lives after Stop")
		}
	})
}

// The timer is not touched per event: entering Idle costs no allocation.
func TestEnteringAPhaseAllocatesNothing(t *testing.T) {
	w := upstream.NewWatchdog(context.Background(), limits)
	defer w.Stop()
	if n := testing.AllocsPerRun(1000, func() {
		w.Pause()
		w.Resume()
		w.Phase(upstream.Idle)
	}); n != 0 {
		t.Errorf("an event costs %v allocations, want 0", n)
	}
}

func TestWatchdogIsSafeForConcurrentUse(t *testing.T) {
	w := upstream.NewWatchdog(context.Background(), upstream.Timeouts{Idle: time.Microsecond, Total: 20 * time.Millisecond})
	defer w.Stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for w.Context().Err() == nil {
			w.Pause()
			w.Resume()
		}
	}()
	for w.Context().Err() == nil {
		w.Phase(upstream.Idle)
	}
	<-done
	if _, ok := w.Expired(); !ok {
		t.Error("the watch ended without a limit")
	}
}

func wantExpired(t *testing.T, w *upstream.Watchdog, phase upstream.Phase, start time.Time, after time.Duration) {
	t.Helper()
	if took := time.Since(start); took != after {
		t.Errorf("ended after %v, want %v", took, after)
	}
	if got, ok := w.Expired(); !ok || got != phase {
		t.Errorf("Expired() = %v, %t, want %v, true", got, ok, phase)
	}
	cause, ok := errors.AsType[*upstream.TimeoutError](context.Cause(w.Context()))
	if !ok || cause.Phase != phase || cause.Limit <= 0 {
		t.Errorf("Cause() = %v, want a *TimeoutError of phase %v with its limit", context.Cause(w.Context()), phase)
	}
}

func BenchmarkPhaseIdle(b *testing.B) {
	w := upstream.NewWatchdog(context.Background(), limits)
	defer w.Stop()
	b.ReportAllocs()
	for b.Loop() {
		w.Phase(upstream.Idle)
	}
}

func BenchmarkWatchAndStop(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		upstream.NewWatchdog(context.Background(), limits).Stop()
	}
}
