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
		if got, from, ok := partitionTime(name); !ok || got != day || from != day*dayMillis {
			t.Errorf("partitionTime(%q) = %d, %d, %t; want %d", name, got, from, ok, day)
		}
		name = sliceName("bodies", day, day*dayMillis+7)
		if got, from, ok := partitionTime(name); !ok || got != day || from != day*dayMillis+7 {
			t.Errorf("partitionTime(%q) = %d, %d, %t; want %d", name, got, from, ok, day)
		}
	}
	if got := partitionName("blocks", 20_778); got != "blocks_20261121" {
		t.Errorf("partitionName(20778) = %q", got)
	}
	for _, name := range []string{"blocks_pkey", "blocks", "blocks_20261121_pkey"} {
		if _, _, ok := partitionTime(name); ok {
			t.Errorf("partitionTime(%q) takes another table for a day", name)
		}
	}
}
