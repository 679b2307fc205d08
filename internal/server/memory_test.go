package server

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestBallastLeavesTheOperatorsMemorySettingsAlone(t *testing.T) {
	for _, tt := range []struct {
		name  string
		gogc  string
		limit int64
		size  int
		want  int
	}{
		{"nothing set", "", math.MaxInt64, 1 << 20, 1 << 20},
		{"no least limit set", "", math.MaxInt64, 0, 0},
		{"GOGC set", "100", math.MaxInt64, 1 << 20, 0},
		{"a roomy memory limit", "", 1 << 30, 1 << 20, 1 << 20},
		{"a memory limit that the least limit would use up", "", 7 << 30, 1 << 30, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("GOGC", tt.gogc)
			before := debug.SetMemoryLimit(tt.limit)
			defer debug.SetMemoryLimit(before)
			if got := len(ballast(tt.size)); got != tt.want {
				t.Errorf("ballast(%d) has %d bytes, want %d", tt.size, got, tt.want)
			}
		})
	}
}

func TestTideTurnsTwiceAfterABurst(t *testing.T) {
	const mb = 1 << 20
	for _, tt := range []struct {
		name string
		used []int64
		want int
	}{
		{"nothing held", []int64{0, 0, 0}, 0},
		{"little held and released", []int64{0, 60 * mb, 0, 0}, 0},
		{"much held and kept", []int64{200 * mb, 190 * mb, 60 * mb}, 0},
		{"much held and released", []int64{200 * mb, 0, 0, 0, 0}, 2},
		{"released little by little", []int64{400 * mb, 200 * mb, 110 * mb, 20 * mb, 0, 0}, 2},
		{"two bursts", []int64{200 * mb, 0, 0, 0, 200 * mb, 0, 0, 0}, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var tide gcTrigger
			got := 0
			for _, used := range tt.used {
				if collect, _ := tide.look(used); collect {
					got++
				}
			}
			if got != tt.want {
				t.Errorf("with bodies holding %d the tide went out %d times, want %d", tt.used, got, tt.want)
			}
		})
	}
}

func TestConnectionsGoWhenTheSeaIsCalm(t *testing.T) {
	const mb = 1 << 20
	look := func(tide *gcTrigger, used int64, times int) (collected, hungUp int) {
		for range times {
			collect, hangUp := tide.look(used)
			if collect {
				collected++
			}
			if hangUp {
				hungUp++
			}
		}
		return collected, hungUp
	}
	var idle, after gcTrigger
	if _, hungUp := look(&idle, 0, 10*calm); hungUp != 0 {
		t.Errorf("without a burst connections were closed %d times", hungUp)
	}
	look(&after, 200*mb, 1)
	if _, hungUp := look(&after, 0, calm-1); hungUp != 0 {
		t.Errorf("connections were closed %d times before it was calm", hungUp)
	}
	if _, hungUp := look(&after, 1, 3*calm); hungUp != 0 {
		t.Errorf("connections were closed %d times with requests under way", hungUp)
	}
	if collected, hungUp := look(&after, 0, 10*calm); collected != 2 || hungUp != 1 {
		t.Errorf("collected %d times and closed connections %d times, want 2 and 1", collected, hungUp)
	}
}
