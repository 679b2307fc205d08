//go:build race

package ledger_test

// raceEnabled is true under the race detector, which allocates.
const raceEnabled = true
