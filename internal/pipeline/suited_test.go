package pipeline_test

import (
	"slices"
	"testing"

	"modelgate/config"
	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
)

// A target that the exchange's model is not enabled for is skipped by every
// strategy that chooses, unless all are: then the first says why.
func TestStrategiesSkipTargetsThatDoNotSuitTheExchange(t *testing.T) {
	for _, mode := range []string{"fallback", "loadbalance", "latency"} {
		for _, tt := range []struct {
			name     string
			unsuited []int
			want     string
		}{
			{"all suit", nil, "0"},
			{"the first does not", []int{0}, "1"},
			{"the last alone does", []int{0, 1}, "2"},
			{"the last does not", []int{2}, "0"},
			{"none does", []int{0, 1, 2}, "0"},
		} {
			t.Run(mode+", "+tt.name, func(t *testing.T) {
				r := rtNew(t, rtTree(mode, 3, ""))
				r.random = func() float64 { return 0 }
				got := r.send(func(x *rtRequest) {
					x.resolve = rtUnsuited(r, tt.unsuited...)
				})
				if got.targetList() != tt.want {
					t.Errorf("tried %q, want %q", got.targetList(), tt.want)
				}
			})
		}
	}
	t.Run("a node with one target that suits", func(t *testing.T) {
		r := rtNew(t, `{"strategy":{"mode":"fallback"},"targets":[`+rtTree("fallback", 2, "")+`,`+rtLeaf+`]}`)
		got := r.send(func(x *rtRequest) { x.resolve = rtUnsuited(r, 0) })
		if got.targetList() != "0.1" {
			t.Errorf("tried %q, want 0.1", got.targetList())
		}
	})
}

// rtUnsuited refuses the model at the leaves with these indexes.
func rtUnsuited(r *rtRoutes, unsuited ...int) func(*config.Config) (*provider.Target, error) {
	return func(leaf *config.Config) (*provider.Target, error) {
		if slices.Contains(unsuited, slices.Index(r.Leaves, leaf)) {
			return nil, provider.ModelRefused("not here")
		}
		return nil, nil
	}
}

func TestAStatusOutsideOfTheTwoHundredsIsAFailure(t *testing.T) {
	for status, want := range map[int]string{199: "0 1", 200: "0", 299: "0", 300: "0 1"} {
		r := rtNew(t, rtTree("fallback", 2, "")).on("0", rtStatus(status))
		if got := r.send(); got.targetList() != want {
			t.Errorf("after status %d of the first target: tried %q, want %q", status, got.targetList(), want)
		}
	}
}

// A long key is found inside of other text; a short one may be an ordinary word and
// counts only by itself.
func TestAHeaderThatHoldsTheKeyIsKnown(t *testing.T) {
	const long, short = "0123456789abcdef", "0123456789abcde" // 16 and 15 bytes
	for _, tt := range []struct {
		name, key, value string
		want             bool
	}{
		{"a long key", long, long, true},
		{"a long key inside of text", long, "x" + long + "y", true},
		{"a part of a long key", long, long[:15], false},
		{"a short key", short, short, true},
		{"a short key with spaces around it", short, " " + short + " ", true},
		{"a short key behind a scheme", short, "Bearer " + short, true},
		{"a short key inside of a word", short, "x" + short, false},
		{"a short key before other text", short, short + " x", false},
		{"no key", "", "", false},
		{"no key behind a scheme", "", "Bearer ", false},
		{"something else", long, "Bearer other", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := rtNewRequest()
			x.Received.Key = secret.New(tt.key)
			if got := x.Received.HoldsKey([]string{"first", tt.value}); got != tt.want {
				t.Errorf("HoldsKey(%q) with the key %q = %t, want %t", tt.value, tt.key, got, tt.want)
			}
		})
	}
}
