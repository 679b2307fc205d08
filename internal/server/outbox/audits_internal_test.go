package outbox

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/settings"
)

func TestSlowDestinationsGetTheAuditLogInSmallerParts(t *testing.T) {
	t.Run("the context ends", func(t *testing.T) { testSlowDestination(t, 0, context.DeadlineExceeded) })
	t.Run("the connection is first", func(t *testing.T) { testSlowDestination(t, time.Nanosecond, os.ErrDeadlineExceeded) })
}

// testSlowDestination sends rows to a destination that fails with err, earlier than the
// deadline, where it takes too long.
func testSlowDestination(t *testing.T, earlier time.Duration, err error) {
	synctest.Test(t, func(t *testing.T) {
		var got []int64
		most := 0
		slow := auditTimeout / 7 // for a row
		a := &auditQueue{out: &Outbox{CountAudits: func(string, string, int) {}}, write: func(ctx context.Context, _ *settings.Audit, events []auditEvent) error {
			deadline, _ := ctx.Deadline()
			for i := range events {
				if left := time.Until(deadline) - earlier; left <= slow {
					time.Sleep(left)
					synctest.Wait() // the context has noticed
					return err
				}
				time.Sleep(slow)
				if i == len(events)-1 { // only a complete delivery counts
					for _, e := range events {
						got = append(got, e.Sequence)
					}
					most = max(most, len(events))
				}
			}
			return nil
		}}
		rows := make([]auditEvent, 600)
		for i := range rows {
			rows[i].Sequence = int64(i)
		}
		for round := 0; len(rows) > 0; round++ {
			if round == 50 {
				if len(got) < 100 {
					t.Fatalf("%d rows arrived while the destination is slow", len(got))
				}
				slow = 0
			}
			if round == 100 {
				t.Fatalf("%d rows are still waiting", len(rows))
			}
			if sent, failed := a.retry(t.Context(), nil, rows[:min(len(rows), a.batch())]); failed == nil {
				rows = rows[sent:]
			}
		}
		for i, n := range got {
			if n != int64(i) {
				t.Fatalf("row %d arrived as number %d", n, i)
			}
		}
		if len(got) != 600 || most < auditBatch {
			t.Errorf("%d rows arrived, %d at once when the destination is quick again", len(got), most)
		}
	})
}
