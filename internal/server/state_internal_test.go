package server

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/storage/blob"
)

// slowStore is a store whose files are never complete.
type slowStore struct{ blob.Store }

func (slowStore) Put(ctx context.Context, _ string, r io.Reader) (int64, error) {
	r.Read(make([]byte, 1)) // shows that it has begun
	<-ctx.Done()
	return 0, ctx.Err()
}

// begun is a content that tells when it is read.
type begun struct{ reads int }

func (b *begun) Read(p []byte) (int, error) {
	b.reads++
	return strings.NewReader("x").Read(p)
}

func TestFilesWaitForAPlaceInTheBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := contents{files: slowStore{}, shared: true, places: make(chan struct{}, 2)}
		first, stop := context.WithCancel(t.Context())
		for range 2 {
			go c.Put(first, "o", "n", &begun{})
		}
		synctest.Wait()
		began := time.Now()
		waiting := new(begun)
		_, err := c.Put(t.Context(), "o", "n", waiting)
		if e := apierr.From(err); e.Code != "uploads_busy" || e.Status() != 503 || e.RetryAfter == 0 || time.Since(began) != uploadWait || waiting.reads != 0 {
			t.Errorf("without a place: %v after %v, read %d times", err, time.Since(began), waiting.reads)
		}
		last, end := context.WithCancel(t.Context())
		next := new(begun)
		go c.Put(last, "o", "n", next)
		synctest.Wait()
		if next.reads != 0 {
			t.Error("content is read without a place")
		}
		stop()
		synctest.Wait()
		if next.reads != 1 {
			t.Errorf("with a place the content was read %d times", next.reads)
		}
		end()
	})
}
