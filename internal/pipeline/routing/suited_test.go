package routing_test

import (
	"slices"
	"testing"

	"modelgate/config"
	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/testing/pipelinetest"
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
				r := pipelinetest.New(t, pipelinetest.Tree(mode, 3, ""))
				r.Random = func() float64 { return 0 }
				got := r.Send(func(x *pipelinetest.Request) {
					x.Resolve = rtUnsuited(r, tt.unsuited...)
				})
				if got.TargetList() != tt.want {
					t.Errorf("tried %q, want %q", got.TargetList(), tt.want)
				}
			})
		}
	}
	t.Run("a node with one target that suits", func(t *testing.T) {
		r := pipelinetest.New(t, `{"strategy":{"mode":"fallback"},"targets":[`+pipelinetest.Tree("fallback", 2, "")+`,`+pipelinetest.Leaf+`]}`)
		got := r.Send(func(x *pipelinetest.Request) { x.Resolve = rtUnsuited(r, 0) })
		if got.TargetList() != "0.1" {
			t.Errorf("tried %q, want 0.1", got.TargetList())
		}
	})
}

// rtUnsuited refuses the model at the leaves with these indexes.
func rtUnsuited(r *pipelinetest.Routes, unsuited ...int) func(*config.Config) (*provider.Target, error) {
	return func(leaf *config.Config) (*provider.Target, error) {
		if slices.Contains(unsuited, slices.Index(r.Leaves, leaf)) {
			return nil, provider.ModelRefused("not here")
		}
		return nil, nil
	}
}

func TestAStatusOutsideOfTheTwoHundredsIsAFailure(t *testing.T) {
	for status, want := range map[int]string{199: "0 1", 200: "0", 299: "0", 300: "0 1"} {
		r := pipelinetest.New(t, pipelinetest.Tree("fallback", 2, "")).On("0", pipelinetest.Status(status))
		if got := r.Send(); got.TargetList() != want {
			t.Errorf("after status %d of the first target: tried %q, want %q", status, got.TargetList(), want)
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
			x := pipelinetest.NewRequest()
			x.Received.Key = secret.New(tt.key)
			if got := x.Received.HoldsKey([]string{"first", tt.value}); got != tt.want {
				t.Errorf("HoldsKey(%q) with the key %q = %t, want %t", tt.value, tt.key, got, tt.want)
			}
		})
	}
}
