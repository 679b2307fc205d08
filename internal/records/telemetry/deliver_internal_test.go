package telemetry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"modelgate/internal/records/reqlog"
)

func TestABatchIsTriedAgainUntilTheCollectorIsBackOrItIsTooOld(t *testing.T) {
	for _, tt := range []struct {
		name string
		away time.Duration
		want Stats
		last time.Duration // when the last try was made
	}{
		{"back in time", 5 * time.Second, Stats{Sent: 1}, 7 * time.Second},
		{"away for long", time.Hour, Stats{Lost: 1, Failing: true}, 31 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, err := newExporter(Options{Sample: 1})
				if err != nil {
					t.Fatal(err)
				}
				began, last := time.Now(), time.Duration(0)
				x.upload = func(context.Context, []*tracepb.ResourceSpans) error {
					last = time.Since(began) - batchDelay
					if last < tt.away {
						return errors.New("away")
					}
					return nil
				}
				x.run()
				x.Record(t.Context(), &reqlog.Entry{ID: reqlog.NewID(began)})
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if x.Stats() != tt.want || last != tt.last {
					t.Errorf("Stats() = %+v after a last try at %v, want %+v and %v", x.Stats(), last, tt.want, tt.last)
				}
				if err := x.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
