package simulator_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/simulator"
	"modelgate/internal/testing/recorder"
)

func TestRequestsAreRecordedAsTheyCame(t *testing.T) {
	h := mustRecord(t, recorder.Options{Record: 2})
	h.mustPost("/v1/chat/completions", plain("first"))
	h.mustPost("/v1/chat/completions?b=1&a=%2F", plain("second"), "X-Trace", "7")
	large := strings.Repeat("y", 3<<20)
	h.mustSend("PUT", "/v1/large", large)
	if err := h.sim.Wait(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	got := h.sim.Requests()
	if len(got) != 2 {
		t.Fatalf("%d requests, want the last 2", len(got))
	}
	second, third := got[0], got[1]
	if second.Method != "POST" || second.URI != "/v1/chat/completions?b=1&a=%2F" || second.Header.Get("X-Trace") != "7" ||
		string(second.Body) != plain("second") || second.Size != int64(len(second.Body)) || second.SHA256 != sum(second.Body) || second.Canceled || second.Time.IsZero() {
		t.Errorf("second = %+v", second)
	}
	if len(third.Body) != 1<<20 || third.Size != 3<<20 || third.SHA256 != sum([]byte(large)) {
		t.Errorf("third: %d bytes kept of %d, %s", len(third.Body), third.Size, third.SHA256)
	}
	got[0].Body[0] = 'X'
	got[0].Header.Set("X-Trace", "8")
	if again := h.sim.Requests()[0]; string(again.Body) != plain("second") || again.Header.Get("X-Trace") != "7" {
		t.Error("Requests returns its own copy")
	}
}

func TestClientThatLeavesIsNoticedAtOnce(t *testing.T) {
	h := mustRecord(t, recorder.Options{Record: 10})
	for i, body := range []string{plain("m+hang"), streamBody("m+first=1h"), streamBody("m+stall=1h@5"), streamBody("m+pace=5ms+tokens=100000"), streamBody("m+tokens=4000000"), plain("m+headers=1h")} {
		left := time.Now().Add(50 * time.Millisecond)
		if err := h.leaveAfter(50*time.Millisecond, body); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%s: %v", body, err)
		}
		if err := h.sim.Wait(t.Context(), i+1); err != nil {
			t.Fatal(err)
		}
		got := h.sim.Requests()[i]
		if !got.Canceled || got.CanceledAt.Before(left.Add(-20*time.Millisecond)) || got.CanceledAt.After(left.Add(time.Minute)) {
			t.Errorf("%s: canceled %t at %s, left at %s", body, got.Canceled, got.CanceledAt, left)
		}
	}
	if got := h.sim.Served(); got.Aborted != 6 || got.Requests != 6 {
		t.Errorf("served = %+v", got)
	}
}

func TestBooksCountWhatWasSent(t *testing.T) {
	h := mustServe(t, simulator.Options{Tokens: 20})
	prompt := h.mustPost("/v1/chat/completions", plain("m")).mustDecode(t).Usage.Prompt
	h.mustPost("/v1/chat/completions", streamBody("m"))
	h.mustPost("/v1/chat/completions", streamBody("m+cut=6")) // role and five tokens
	h.mustPost("/v1/chat/completions", plain("m+status=500"))
	h.mustPost("/v1/chat/completions", plain("m+no-usage"))
	if err := h.sim.Wait(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	got := h.sim.Served()
	for name, want := range map[string]recorder.Tokens{
		"m":            {Requests: 2, Prompt: 2 * prompt, Completion: 40},
		"m+cut=6":      {Requests: 1, Prompt: prompt, Completion: 5},
		"m+status=500": {Requests: 1},
		"m+no-usage":   {Requests: 1, Prompt: prompt, Completion: 20},
	} {
		if got.Models[name] != want {
			t.Errorf("%s: %+v, want %+v", name, got.Models[name], want)
		}
	}
	if got.Requests != 5 || got.Aborted != 1 || h.sim.Calls("m") != 2 || h.sim.Calls("other") != 0 {
		t.Errorf("served %+v, calls of m %d", got, h.sim.Calls("m"))
	}
	h.sim.Reset()
	if got := h.sim.Served(); got.Requests != 0 || len(got.Models) != 0 || h.sim.Calls("m") != 0 {
		t.Errorf("after Reset: %+v", got)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	sim := recorder.New(recorder.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sim.Wait(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait = %v, want context.Canceled", err)
	}
	if err := sim.Wait(ctx, 0); err != nil {
		t.Errorf("Wait for nothing = %v", err)
	}
}

// call serves one request without a socket.
func call(ctx context.Context, sim *simulator.Simulator, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	sim.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", "/v1/chat/completions", strings.NewReader(body)))
	return w
}

func TestDelaysKeepToTheClock(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       time.Duration
	}{
		{"headers", plain("m+headers=20s"), 20 * time.Second},
		{"first", streamBody("m+first=20s+pace=0s"), 20 * time.Second},
		{"stall", streamBody("m+stall=30s@10+pace=0s"), 30 * time.Second},
		{"pace", streamBody("m+pace=10ms+tokens=5"), 7 * 10 * time.Millisecond}, // eight frames
		{"pace of all streams", streamBody("m+tokens=5"), 7 * time.Second},
		{"pace taken away", streamBody("m+pace=0s"), 0},
		{"all together", streamBody("m+headers=1s+first=2s+stall=4s@3+pace=10ms+tokens=5"), 7*time.Second + 70*time.Millisecond},
		{"neither", plain("m"), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := simulator.New(simulator.Options{Pace: time.Second})
				start := time.Now()
				call(t.Context(), sim, tt.body)
				if took := time.Since(start); took != tt.want {
					t.Errorf("took %s, want %s", took, tt.want)
				}
			})
		})
	}
}

func TestStallComesBeforeItsFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w := call(ctx, simulator.New(simulator.Options{}), streamBody("m+stall=1h@10"))
		if got := gather(t, w.Body.String()); got.frames != 9 || got.done {
			t.Errorf("%d frames before the stall, want 9", got.frames)
		}
	})
}

func TestFlappingFollowsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := simulator.New(simulator.Options{})
		for i, want := range []int{503, 503, 200, 200, 503} {
			if got := call(t.Context(), sim, plain("m+status=503+flap=60s")).Code; got != want {
				t.Errorf("after %ds: %d, want %d", i*30, got, want)
			}
			time.Sleep(30 * time.Second)
		}
	})
}
