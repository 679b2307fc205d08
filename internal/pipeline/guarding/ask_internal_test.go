package guarding

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/base/bytepool"
	"modelgate/internal/pipeline/exchange"
)

// Checks that run at the same time share one admitted request: each call has its own
// body and its own time, and returns its memory.
func TestCallsOfAnAdmittedCheckShareNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := bytepool.New(1 << 20)
		admitted := &exchange.CheckCall{Request: exchange.Request{Model: "checker"}, Timeout: time.Minute, Pool: pool}
		first, err := openCheck(admitted, []byte(`{"model":"checker","n":1}`))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		second, err := openCheck(admitted, []byte(`{"model":"checker","n":2}`))
		if err != nil {
			t.Fatal(err)
		}
		for want, r := range map[string]*exchange.Request{"1": first, "2": second} {
			if n, ok := r.Received.Doc.Find("n"); !ok || string(n.Raw()) != want || r.Received.Length != int64(r.Received.Body.Len()) {
				t.Errorf("body %s with length %d, want n = %s", r.Received.Body.Bytes(), r.Received.Length, want)
			}
		}
		if d := second.AttemptDeadline.Sub(first.AttemptDeadline); d != time.Second {
			t.Errorf("the deadline of the second call is %v after the first one's, want 1s", d)
		}
		if r := &admitted.Request; r.Received.Body != nil || r.Received.Doc != nil || !r.AttemptDeadline.IsZero() {
			t.Errorf("a call changed the admitted request: %+v", r)
		}
		first.Received.Body.Release()
		second.Received.Body.Release()
		if n := pool.Used(); n != 0 {
			t.Errorf("%d bytes are in use after both calls, want 0", n)
		}
	})
}

func TestACheckCallWithAnErrorOpensNothing(t *testing.T) {
	want := errors.New("the provider is not allowed")
	if r, err := openCheck(&exchange.CheckCall{Err: want}, []byte("{}")); r != nil || err != want {
		t.Errorf("open = %v, %v; want the error of admission", r, err)
	}
}
