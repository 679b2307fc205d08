package logstore

import (
	"testing"
	"time"

	"modelgate/internal/records/reqlog"
)

func TestSuccessesThatWereNoneAtFirstAreRescued(t *testing.T) {
	retried := func(n int) (r RetrySuccesses) { r.Retried[n-1] = 1; return r }
	const a, b = "config.targets[0]", "config.targets[1]"
	for _, tt := range []struct {
		name    string
		status  int
		targets []string
		want    RetrySuccesses
	}{
		{"none was sent", 200, nil, RetrySuccesses{}},
		{"at once", 200, []string{a}, RetrySuccesses{}},
		{"after a retry", 200, []string{a, a}, retried(1)},
		{"after five", 204, []string{a, a, a, a, a, a}, retried(5)},
		{"after more than there are", 200, []string{a, a, a, a, a, a, a, a}, retried(5)},
		{"never", 500, []string{a, a, a}, RetrySuccesses{}},
		{"by another target", 200, []string{a, b}, RetrySuccesses{FellBack: 1}},
		{"by another target, after retries", 200, []string{a, a, b, b, b}, RetrySuccesses{FellBack: 1}},
		{"by none of two", 503, []string{a, b}, RetrySuccesses{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := withAttempts(&reqlog.Entry{Result: reqlog.Result{Status: tt.status}}, tt.targets...)
			var got RetrySuccesses
			if got.add(e); got != tt.want {
				t.Errorf("%q with status %d: %+v, want %+v", tt.targets, tt.status, got, tt.want)
			}
		})
	}
	t.Run("the first was quicker than a further one", func(t *testing.T) {
		e := &reqlog.Entry{Result: reqlog.Result{Status: 200}, Origin: reqlog.Origin{OptionIndex: a}, Steps: reqlog.Steps{Attempts: []reqlog.Attempt{{Target: b, Start: time.Second}, {Target: a}}}}
		var got RetrySuccesses
		if got.add(e); got != (RetrySuccesses{}) {
			t.Errorf("%+v, want none rescued", got)
		}
	})
}

// TestSumsOfTheFirstFormatAreRead reads what an earlier version has stored of the
// first three of known: it does not say what was rescued.
func TestSumsOfTheFirstFormatAreRead(t *testing.T) {
	const stored = "\x01\n\x02w1\x02k1\x06openai\vmain-openai\x03gpt\x05p-gpt\x04MISS\x03HIT\x02k2\fSEMANTIC HIT\x03\x01\x02\x03\x04\x05\x00\x06\a\x90\x03\x02\x02\x14\x02\x02\xc0\x9a\f\xa0\x9c\x01\x00\x00\x05\x00\x01\xcd\x03\x01\x01\x02\x03\x04\x05\x00\x06\b\x90\x03\x02\x02(\x04\x02\x80\xb5\x18\xc0\xb8\x02\x00\x00\x05\x00\x01\xf0\x03\x01\x01\t\x03\x04\x05\x00\x06\n\x90\x03\x02\x02<\x06\x00\x00\xe0\xd4\x03\x00\x00\x05\x00\x01\x84\x04\x01"
	set := make(groupSet)
	if err := set.mergeStored([]byte(stored), noon.UnixMilli()); err != nil {
		t.Fatal(err)
	}
	var all Totals
	for _, s := range set {
		all.Merge(s)
	}
	if all.Requests != 3 || all.Successes != 3 || all.Hits != 2 || all.Prompt != 60 || all.Cost != 300_000 || all.AverageLatency() != 20*time.Millisecond || all.Rescued != (RetrySuccesses{}) {
		t.Errorf("read %+v", all)
	}
	again := make(groupSet)
	if err := again.mergeStored(set.append(nil, noon.UnixMilli()), noon.UnixMilli()); err != nil || len(again) != len(set) {
		t.Errorf("folded to %d sums, %v; want %d", len(again), err, len(set))
	}
}
