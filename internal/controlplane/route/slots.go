package route

import (
	"sync"
	"time"

	"modelgate/internal/base/apierr"
)

// Numbers of tests in progress.
const (
	maxTests    = 4  // of an organisation
	maxAllTests = 64 // of the gateway
)

// Slots counts tests in progress, so that no organisation takes the places of others. It is
// safe for concurrent use.
type Slots struct {
	Tests string // what is counted, such as tests of guardrails

	mu  sync.Mutex
	all int            // guarded by mu
	of  map[string]int // by organisation; guarded by mu
}

// Take takes a place for a test. The caller calls Leave once if there is no error.
func (s *Slots) Take(organisation string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.of[organisation] >= maxTests:
		return tooManyTests("%d %s of this organisation are in progress; try again shortly", maxTests, s.Tests)
	case s.all >= maxAllTests:
		return tooManyTests("%d %s are in progress; try again shortly", maxAllTests, s.Tests)
	}
	if s.of == nil {
		s.of = make(map[string]int)
	}
	s.all++
	s.of[organisation]++
	return nil
}

func tooManyTests(format string, limit int, tests string) error {
	e := apierr.New(apierr.Unavailable, format, limit, tests).WithCode("too_many_tests")
	e.RetryAfter = time.Second
	return e
}

// Leave ends a test.
func (s *Slots) Leave(organisation string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.of[organisation]--; s.of[organisation] == 0 {
		delete(s.of, organisation)
	}
}
