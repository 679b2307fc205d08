package route

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
)

// TestOrganisationsTogetherHaveALimitOfTests fills the places of the gateway with tests of
// 16 organisations, each of which has as many as it may.
func TestOrganisationsTogetherHaveALimitOfTests(t *testing.T) {
	s := &Slots{Tests: "tests of guardrails"}
	organisation := func(i int) string { return fmt.Sprint("organisation-", i) }
	for i := range 16 {
		for n := range 4 {
			if err := s.Take(organisation(i)); err != nil {
				t.Fatalf("test %d of organisation %d: %v", n, i, err)
			}
		}
	}
	refused := func(by, message string) {
		t.Helper()
		err := s.Take(by)
		if err == nil {
			t.Fatalf("a test beyond the limit was taken")
		}
		if e := apierr.From(err); e.Status() != 503 || e.RetryAfter != time.Second || e.Code != "too_many_tests" || !strings.HasPrefix(e.Message, message) {
			t.Errorf("error = %d %s %v %q, want 503 too_many_tests after 1 s: %s", e.Status(), e.Code, e.RetryAfter, e.Message, message)
		}
	}
	refused("another", "64 tests of guardrails are in progress")
	refused(organisation(0), "4 tests of guardrails of this organisation are in progress")
	s.Leave(organisation(0))
	refused(organisation(1), "4 tests of guardrails of this organisation are in progress")
	if err := s.Take("another"); err != nil {
		t.Errorf("after a test has ended: %v", err)
	}
	refused("a third", "64 tests")
	s.Leave("another")
	for i := range 16 {
		for range 4 {
			if i > 0 || s.of[organisation(0)] > 0 { // one has ended above
				s.Leave(organisation(i))
			}
		}
	}
	if s.all != 0 || len(s.of) != 0 {
		t.Errorf("after all tests %d are counted, of %v; want none", s.all, s.of)
	}
}
