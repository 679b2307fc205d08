package routing

import (
	"slices"
	"testing"

	"modelgate/internal/pipeline/exchange"
)

func TestJoinedEventsAreContinuedAfterTheLastOfThem(t *testing.T) {
	for _, tt := range []struct {
		name string
		raw  string
		want []string
	}{
		{"no event", "", nil},
		{"one", "data: 1\n\n", []string{"data: 1\n\n"}},
		{"two", "data: 1\n\ndata: 2\n\n", []string{"data: 1\n\n", "data: 2\n\n"}},
	} {
		c := &streamContinuation{Stream: exchange.ReplayBytes([]byte(tt.raw)), joined: true}
		var got []string
		for {
			e, err := c.pull()
			if err != nil {
				break
			}
			got = append(got, string(e.Raw))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: events %q, want %q", tt.name, got, tt.want)
		}
	}
}
