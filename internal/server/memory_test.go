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
		{"no floor asked for", "", math.MaxInt64, 0, 0},
		{"GOGC set", "100", math.MaxInt64, 1 << 20, 0},
		{"a roomy memory limit", "", 1 << 30, 1 << 20, 1 << 20},
		{"a memory limit that the floor would eat up", "", 7 << 30, 1 << 30, 0},
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
