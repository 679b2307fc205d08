package routing_test

import (
	"slices"
	"testing"

	"modelgate/config"
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
