package logstore

import (
	"context"
	"fmt"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/records/reqlog"
)

// Verdicts and labels of guardrail results.
const (
	GuardPassed = "passed"
	GuardFailed = "failed" // the guardrail would have acted
	GuardError  = "error"  // a check could not be made

	LabelRight = "right"
	LabelWrong = "wrong"
)

// GuardResult is the result of a guardrail in shadow mode.
type GuardResult struct {
	ID           reqlog.ID
	Organisation string
	Workspace    string
	Guardrail    string // slug
	Version      string
	Entry        reqlog.ID // of the checked request
	Event        string    // request or response
	Verdict      string
	// Weight is the number of results that this one stands for. Not every result of a
	// busy guardrail is stored.
	Weight  int64
	Took    time.Duration
	Created time.Time

	Label      string // LabelRight, LabelWrong or empty
	LabelledBy string
	Labelled   time.Time // zero without a label
}

// GuardResultQuery filters results of guardrails. All filters must match; empty ones
// match everything.
type GuardResultQuery struct {
	Organisation string // required
	Workspace    string
	Guardrail    string
	Version      string
	ID           reqlog.ID
	Verdict      string
	Label        string // "none" for results without one
	From         time.Time
	Before       reqlog.ID // ids before this one; zero is the newest
	// Sample orders results at random, always in the same way, instead of newest
	// first.
	Sample bool
}

// GuardSum is the number of results with a verdict and a label.
type GuardSum struct {
	Verdict, Label string
	Stored         int64
	Seen           int64 // with those that were not stored
}

// guardResultBackend stores results of guardrails.
type guardResultBackend interface {
	addGuardResults(ctx context.Context, list []GuardResult) error
	guardResults(ctx context.Context, q *GuardResultQuery, limit int) ([]GuardResult, error)
	labelGuardResult(ctx context.Context, q *GuardResultQuery, label, by string, at time.Time) (int64, error)
	sumGuardResults(ctx context.Context, q *GuardResultQuery) ([]GuardSum, error)
	guardTimes(ctx context.Context, q *GuardResultQuery, limit int) ([]time.Duration, error)
	dropGuardResults(ctx context.Context, before int64, limit int) (int64, error)
}

// AddGuardResults stores all of list or nothing.
func (s *Store) AddGuardResults(ctx context.Context, list []GuardResult) error {
	defer s.addRows(int64(len(list)) * 500)
	if err := s.keeper.addGuardResults(ctx, list); err != nil {
		return s.reading(fmt.Errorf("storing results of guardrails: %w", err))
	}
	return nil
}

// GuardResults returns up to limit matching results, newest first unless q asks for a
// sample.
func (s *Store) GuardResults(ctx context.Context, q GuardResultQuery, limit int) ([]GuardResult, error) {
	list, err := s.keeper.guardResults(ctx, &q, limit)
	if err != nil {
		return nil, s.reading(fmt.Errorf("reading results of guardrails: %w", err))
	}
	return list, nil
}

// LabelGuardResult sets the label of the result with the id of q; an empty label
// removes it. A result that does not match q is not found.
func (s *Store) LabelGuardResult(ctx context.Context, q GuardResultQuery, label, by string, at time.Time) error {
	n, err := s.keeper.labelGuardResult(ctx, &q, label, by, at)
	if err != nil {
		return s.reading(fmt.Errorf("labelling a result of a guardrail: %w", err))
	}
	if n == 0 {
		return apierr.New(apierr.NotFound, "result %s not found", q.ID).WithParam("result")
	}
	return nil
}

// SumGuardResults counts the matching results by verdict and label.
func (s *Store) SumGuardResults(ctx context.Context, q GuardResultQuery) ([]GuardSum, error) {
	list, err := s.keeper.sumGuardResults(ctx, &q)
	if err != nil {
		return nil, s.reading(fmt.Errorf("summing results of guardrails: %w", err))
	}
	return list, nil
}

// GuardTimes returns how long the newest matching results took, up to limit of them, in
// ascending order.
func (s *Store) GuardTimes(ctx context.Context, q GuardResultQuery, limit int) ([]time.Duration, error) {
	list, err := s.keeper.guardTimes(ctx, &q, limit)
	if err != nil {
		return nil, s.reading(fmt.Errorf("reading times of guardrails: %w", err))
	}
	return list, nil
}
