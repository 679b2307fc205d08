package logstore

import (
	"testing"
	"time"
)

func TestAClockThatJumpsAheadIsFollowedSlowly(t *testing.T) {
	last := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name      string
		now, want time.Duration // after last
	}{
		{"as it should", pruneEvery, pruneEvery},
		{"ahead by a year", 365 * 24 * time.Hour, 2 * pruneEvery},
		{"back by a year", -365 * 24 * time.Hour, -365 * 24 * time.Hour},
	} {
		if got := FollowClock(last, last.Add(tt.now)).Sub(last); got != tt.want {
			t.Errorf("%s: FollowClock() is %v later, want %v", tt.name, got, tt.want)
		}
	}
}

func TestAPartitionIsCalledByItsDay(t *testing.T) {
	for _, day := range []int64{0, 20_778, maxMillis / dayMillis} {
		name := partitionName("blocks", day)
		if got, ok := partitionDay(name); !ok || got != day {
			t.Errorf("partitionDay(%q) = %d, %t; want %d", name, got, ok, day)
		}
	}
	if got := partitionName("blocks", 20_778); got != "blocks_20261121" {
		t.Errorf("partitionName(20778) = %q", got)
	}
	if _, ok := partitionDay("blocks_pkey"); ok {
		t.Error("another table was taken for a day")
	}
}
