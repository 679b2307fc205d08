// Package guarding runs the hooks and guardrails of a config around its targets
// ([RequestGuard], [ResponseGuard]), and on text that nobody sent ([Trial]).
//
// It guarantees that what a hook may deny or replace is held back until the hook has read it
// (a hook that observes holds nothing), that what could not be read counts as denied, and
// that each hook runs once for a request, however many leaves share it. Checks are the job of
// package guardrail; choosing another leaf after a denial is that of package routing.
package guarding
