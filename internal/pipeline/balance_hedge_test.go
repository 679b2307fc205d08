package pipeline_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestHedgedBalanceStartsAnotherTargetWhereTheDrawnOneIsSlow(t *testing.T) {
	slow, quick := rtResponse{after: time.Hour}, rtResponse{after: 10 * time.Millisecond}
	for _, tt := range []struct {
		random float64 // of every draw
		want   string  // the order in which targets are started
	}{{0, "0 1 2"}, {math.Nextafter(1, 0), "2 1 0"}, {0.5, "1 2 0"}} {
		t.Run(fmt.Sprint(tt.random), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rtNew(t, rtTree("loadbalance", 3, `,"hedge":{"delay_ms":100,"max":2}`))
				r.random = func() float64 { return tt.random }
				for _, path := range []string{"0", "1", "2"} {
					r.on(path, slow)
				}
				r.on(string(tt.want[4]), quick)
				got := r.send()
				var started strings.Builder
				for _, c := range r.calls {
					started.WriteString(" " + rtShort(c.path))
				}
				if got.status != 200 || got.path != string(tt.want[4]) || started.String() != " "+tt.want || got.took != 210*time.Millisecond {
					t.Errorf("status %d by %s after starting%s in %v; want 200 by the last of %s in 210ms", got.status, got.path, started.String(), got.took, tt.want)
				}
				r.closedOnce()
			})
		})
	}
}
