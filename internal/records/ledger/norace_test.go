//go:build !race

package ledger_test

// raceEnabled is false without the race detector.
const raceEnabled = false
