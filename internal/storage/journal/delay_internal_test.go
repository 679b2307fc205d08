package journal

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestDelayIsThatOfTheOldestChangeOrOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := new(DB)
		check := func(what string, want time.Duration) {
			t.Helper()
			if got := db.Delay(); got != want {
				t.Errorf("%s: Delay() = %s, want %s", what, got, want)
			}
		}
		check("no change", 0)
		var first, second error
		endFirst := db.delay.begin(&first)
		time.Sleep(3 * time.Second)
		endSecond := db.delay.begin(&second)
		time.Sleep(time.Second)
		check("two changes hang", 4*time.Second)
		second = context.Canceled
		endSecond()
		endFirst()
		check("one succeeded", 0)
		failing := errors.New("locked")
		db.delay.begin(&failing)()
		time.Sleep(20 * time.Second)
		db.delay.begin(&failing)()
		check("changes fail", 20*time.Second)
		time.Sleep(time.Second)
		gone := context.Canceled
		db.delay.begin(&gone)()
		check("a caller went away", 21*time.Second)
		time.Sleep(failureAge)
		check("nobody tried again", 0)
		db.delay.begin(&failing)()
		var ok error
		db.delay.begin(&ok)()
		time.Sleep(time.Second)
		check("changes succeed again", 0)
	})
}
