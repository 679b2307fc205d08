package logstore

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
)

// TestOrganisationsTakeTurnsAtSearching lets an organisation begin many searches before another
// begins one: the other waits for one search only, and cancelled searches release their place.
func TestOrganisationsTakeTurnsAtSearching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSearches()
		var running, finished []string
		release := make(chan struct{})
		search := func(ctx context.Context, organisation string) {
			go func() {
				end, err := s.begin(ctx, organisation)
				if err != nil {
					return
				}
				running = append(running, organisation)
				<-release
				finished = append(finished, organisation)
				end()
			}()
			synctest.Wait()
		}
		for range 10 {
			search(t.Context(), "busy")
		}
		short, give := context.WithCancel(t.Context())
		search(short, "busy")
		search(short, "impatient")
		search(t.Context(), "other")
		if !slices.Equal(running, []string{"busy", "busy"}) {
			t.Fatalf("%v run, want two searches of the first", running)
		}
		give()
		synctest.Wait()
		for range 11 {
			release <- struct{}{}
			synctest.Wait()
			if n := len(running) - len(finished); n > searchesAtOnce {
				t.Fatalf("%d searches at once", n)
			}
		}
		if len(finished) != 11 || running[2] != "other" {
			t.Errorf("searches ran in the order %v, want the other organisation's third", running)
		}
		if len(s.organisations) != 0 || len(s.running) != 0 {
			t.Errorf("%d organisations and %d searches are left", len(s.organisations), len(s.running))
		}
	})
}
