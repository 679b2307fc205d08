package provider_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"modelgate/internal/provider"
)

func TestDisabledModelIsFoundInEverySpelling(t *testing.T) {
	list := provider.NewModelList(true, nil, []string{"Big-1", "org/small:free"})
	for _, tt := range []struct {
		model string
		want  bool
	}{
		{"big-1", false},
		{" BIG-1 ", false},
		{"models/big-1", false},
		{"big-1:thinking", false},
		{"big-1:a:b", false},
		{"big-1:" + strings.Repeat("x", 100), false},
		{"org/small:free", false},
		{"org/small:free:x", false},
		{"org/small", true},
		{"org/small:paid", true},
		{"big-10", true},
		{"a:big-1", true},
		{"", true},
	} {
		if got := list.Allows(tt.model); got != tt.want {
			t.Errorf("Allows(%.40q) = %t, want %t", tt.model, got, tt.want)
		}
	}
}

// A client chooses the length of a model's name and how many colons it has.
func TestModelOfManyColonsIsCheckedInTimeInLineWithItsLength(t *testing.T) {
	var disabled []string
	for i := range 64 { // a small map compares lengths first
		disabled = append(disabled, fmt.Sprint("big-", i))
	}
	list := provider.NewModelList(true, nil, disabled)
	began := time.Now()
	if !list.Allows(strings.Repeat("a:", 2<<20)) {
		t.Error("a model that is not disabled is refused")
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("checking a model of 4 MB took %v, want milliseconds", took)
	}
}
