package guardrails

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

// slots counts the tests in progress, so that no organisation takes the places of
// others.
type slots struct {
	mu  sync.Mutex
	all int            // guarded by mu
	of  map[string]int // by organisation; guarded by mu
}

// take takes a place for a test. The caller calls leave once if there is no error.
func (s *slots) take(organisation string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.of[organisation] >= maxTests:
		return tooManyTests("%d tests of guardrails of this organisation are in progress; try again shortly", maxTests)
	case s.all >= maxAllTests:
		return tooManyTests("%d tests of guardrails are in progress; try again shortly", maxAllTests)
	}
	if s.of == nil {
		s.of = make(map[string]int)
	}
	s.all++
	s.of[organisation]++
	return nil
}

func tooManyTests(format string, limit int) error {
	e := apierr.New(apierr.Unavailable, format, limit).WithCode("too_many_tests")
	e.RetryAfter = time.Second
	return e
}

// leave ends a test.
func (s *slots) leave(organisation string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.of[organisation]--; s.of[organisation] == 0 {
		delete(s.of, organisation)
	}
}
