package dataplane

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/dialect/chat"
	"modelgate/internal/pipeline"
)

func TestNoCommentComesAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		x := &exchange{Exchange: pipeline.Exchange{Client: chat.Dialect{}}}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a stream of no events did not panic")
				}
			}()
			(&Plane{Options: Options{KeepAlive: time.Second}}).writeEvents(w, nil, x, &pipeline.Response{Status: 200})
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.Body.Len() > 0 {
			t.Errorf("%q was written when the handler had ended", w.Body)
		}
	})
}
