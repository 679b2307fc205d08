package routing_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/testing/pipelinetest"
)

func TestHedgedBalanceStartsAnotherTargetWhereTheDrawnOneIsSlow(t *testing.T) {
	slow, quick := pipelinetest.Response{After: time.Hour}, pipelinetest.Response{After: 10 * time.Millisecond}
	for _, tt := range []struct {
		random float64 // of every draw
		want   string  // the order in which targets are started
	}{{0, "0 1 2"}, {math.Nextafter(1, 0), "2 1 0"}, {0.5, "1 2 0"}} {
		t.Run(fmt.Sprint(tt.random), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := pipelinetest.New(t, pipelinetest.Tree("loadbalance", 3, `,"hedge":{"delay_ms":100,"max":2}`))
				r.Random = func() float64 { return tt.random }
				for _, path := range []string{"0", "1", "2"} {
					r.On(path, slow)
				}
				r.On(string(tt.want[4]), quick)
				got := r.Send()
				var started strings.Builder
				for _, c := range r.Calls {
					started.WriteString(" " + pipelinetest.Short(c.Path))
				}
				if got.Status != 200 || got.Path != string(tt.want[4]) || started.String() != " "+tt.want || got.Took != 210*time.Millisecond {
					t.Errorf("status %d by %s after starting%s in %v; want 200 by the last of %s in 210ms", got.Status, got.Path, started.String(), got.Took, tt.want)
				}
				r.CheckClosed()
			})
		})
	}
}
