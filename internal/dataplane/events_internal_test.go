package dataplane

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/dialect/chat"
	"modelgate/internal/pipeline/exchange"
)

func TestNoCommentComesAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		x := &roundTrip{admission: admission{request: exchange.Request{Client: chat.Dialect{}}}}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a stream of no events did not panic")
				}
			}()
			(&Plane{Options: Options{KeepAlive: time.Second}}).writeEvents(w, nil, x, &exchange.Response{Status: 200})
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.Body.Len() > 0 {
			t.Errorf("%q was written when the handler had ended", w.Body)
		}
	})
}

// flushWatcher records when what was written became visible to the client.
type flushWatcher struct {
	http.ResponseWriter
	start   time.Time
	waiting int             // bytes since the last flush
	flushed []time.Duration // after the start, of each flush of something
}

func (w *flushWatcher) Write(b []byte) (int, error) {
	w.waiting += len(b)
	return w.ResponseWriter.Write(b)
}

func (w *flushWatcher) Flush() {
	if w.waiting > 0 {
		w.flushed = append(w.flushed, time.Since(w.start))
	}
	w.waiting = 0
}

func TestCommentsAreFlushedWhenTheyAreDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &flushWatcher{ResponseWriter: httptest.NewRecorder(), start: time.Now()}
		out := newEventWriter(w, nil, 10*time.Second, stallTimer{rc: http.NewResponseController(w), limit: time.Minute})
		time.Sleep(4 * time.Second)
		out.write([]byte("data: {}\n\n"), true)
		time.Sleep(21 * time.Second)
		synctest.Wait()
		if _, err := out.stop(); err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{4 * time.Second, 14 * time.Second, 24 * time.Second}
		if !slices.Equal(w.flushed, want) || w.waiting != 0 {
			t.Errorf("flushed at %v with %d bytes left, want the event at 4s and comments after each 10s of silence", w.flushed, w.waiting)
		}
	})
}

func TestNoCommentPartsACarriageReturnFromItsLineFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		out := newEventWriter(w, nil, 10*time.Second, stallTimer{rc: http.NewResponseController(w), limit: time.Minute})
		out.write([]byte("data: {}\r\n\r"), true) // complete, and its last byte is still on the way
		time.Sleep(21 * time.Second)
		out.write([]byte("\ndata: {}\r\n\r\n"), true)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if _, err := out.stop(); err != nil {
			t.Fatal(err)
		}
		if got, want := w.Body.String(), "data: {}\r\n\r\ndata: {}\r\n\r\n: keep-alive\n\n"; got != want {
			t.Errorf("wrote %q, want %q", got, want)
		}
	})
}
