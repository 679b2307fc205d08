package reqlog_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/records/reqlog"
)

func TestIDsSortByTheirTimeAndReadBack(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var ids []string
	for i := range 1000 {
		moment := at.Add(time.Duration(i) * time.Millisecond)
		id := reqlog.NewID(moment)
		if !id.Time().Equal(moment) {
			t.Fatalf("Time() = %v, want %v", id.Time(), moment)
		}
		text := id.String()
		if text[14] != '7' || !strings.ContainsRune("89ab", rune(text[19])) {
			t.Fatalf("%s is no UUID of version 7", text)
		}
		if back, err := reqlog.ParseID(text); back != id || err != nil {
			t.Fatalf("ParseID(%s) = %v, %v", text, back, err)
		}
		ids = append(ids, text)
	}
	if !slices.IsSorted(ids) {
		t.Error("ids of later milliseconds do not sort later")
	}
}

func TestIDsOfOneMomentDiffer(t *testing.T) {
	const each = 20000
	at := time.Now()
	all := make([][]reqlog.ID, 8)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			for range each {
				all[i] = append(all[i], reqlog.NewID(at))
			}
		})
	}
	wg.Wait()
	seen := make(map[reqlog.ID]bool, len(all)*each)
	for _, ids := range all {
		for _, id := range ids {
			if seen[id] {
				t.Fatalf("%v was issued twice", id)
			}
			seen[id] = true
		}
	}
}

func TestMalformedIDsAreRefused(t *testing.T) {
	for _, text := range []string{"", "x", "0190a5a5-1234-7000-8000-0000000000f", "0190a5a5-1234-7000-8000-0000000000fg",
		"0190a5a512347000800000000000000000ff", "0190a5a5-1234-7000-8000-0000000000ff0", "../../../../../../../../../etc/passwd"} {
		if id, err := reqlog.ParseID(text); err == nil || id != (reqlog.ID{}) {
			t.Errorf("ParseID(%q) = %v, %v; want an error and the zero id", text, id, err)
		}
	}
}
