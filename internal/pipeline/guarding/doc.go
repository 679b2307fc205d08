// Package guarding runs the hooks and guardrails of a config around its targets
// ([RequestGuard], [ResponseGuard]), and on text that nobody sent ([Trial]).
//
// It guarantees that nothing passes which a hook denies, that what a hook replaces is
// replaced in every part that it reads, and that each hook runs once for a request, however
// many leaves share it. Checks are the job of package guardrail; choosing another leaf after
// a denial is that of package routing.
package guarding
