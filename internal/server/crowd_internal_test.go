package server

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestACrowdIsWaitedForUntilItIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		c.join()
		c.leave() // an earlier token must not end a later wait
		c.join()
		c.join()
		began := time.Now()
		go func() {
			c.leave()
			time.Sleep(time.Second)
			c.leave()
		}()
		c.wait(time.Minute)
		if took := time.Since(began); took != time.Second {
			t.Errorf("waited %v, want until the last has left after 1s", took)
		}
		c.join()
		began = time.Now()
		c.wait(time.Minute)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("waited %v for one who stays, want the limit of 1m", took)
		}
	})
}
