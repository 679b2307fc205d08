package logstore

import (
	"fmt"
	"testing"
	"time"

	"modelgate/internal/records/reqlog"
)

// hourly is an entry of each of the n hours from noon on.
func hourly(n int) (list []*reqlog.Entry) {
	for i := range n {
		at := noon.Add(time.Duration(i)*time.Hour + 30*time.Minute)
		list = append(list, &reqlog.Entry{ID: reqlog.NewID(at), Time: at, Sender: reqlog.Sender{Organisation: "acme"}, Result: reqlog.Result{Status: 200}})
	}
	return list
}

func TestSumsBeyondTheirAgeAreRemoved(t *testing.T) {
	const hours, left = 3 * sumsAtOnce, 5
	day := GroupQuery{From: noon, To: noon.Add(hours * time.Hour)}
	keep := Retention{Sums: 48 * time.Hour}
	now := noon.Add((hours-left)*time.Hour + 20*time.Minute).Add(keep.Sums) // in the first of the hours that stay
	onBothKinds(t, func(t *testing.T, s *Store) {
		mustRecord(t, s, hourly(hours)...)
		mustFold(t, s, noon.Add((hours-left+1)*time.Hour).Add(foldMinutes)) // the first of those that stay is an hour, too
		mustRecord(t, s, hourly(1)...)                                      // and one is late
		would, err := s.Prunable(t.Context(), keep, now)
		if err != nil {
			t.Fatal(err)
		}
		did, err := s.Prune(t.Context(), keep, now)
		if err != nil || did != would || did != (Pruned{Sums: hours - left + 1}) {
			t.Errorf("Prune() = %+v, %v; Prunable() said %+v, want %d sums of both", did, err, would, hours-left+1)
		}
		if got := counts(mustSum(t, s, day)); got != fmt.Sprint("=", left) {
			t.Errorf("sums of %s requests are left, want %d", got, left)
		}
		page, err := s.List(t.Context(), Query{From: noon, To: day.To, Limit: maxLimit})
		if err != nil || len(page.Entries) != hours+1 {
			t.Errorf("%d entries are left, %v; want all of %d", len(page.Entries), err, hours+1)
		}
	})
}

func TestSumsStayWithoutAnAge(t *testing.T) {
	s := mustFile(t)
	mustRecord(t, s, hourly(10)...)
	later := noon.AddDate(10, 0, 0)
	if did, err := s.Prune(t.Context(), Retention{Age: 24 * time.Hour}, later); err != nil || did.Sums != 0 || did.Entries != 10 {
		t.Errorf("Prune() = %+v, %v; want the entries alone", did, err)
	}
	if got := counts(mustSum(t, s, GroupQuery{From: noon, To: noon.Add(24 * time.Hour)})); got != "=10" {
		t.Errorf("sums of %s requests, want =10", got)
	}
}
