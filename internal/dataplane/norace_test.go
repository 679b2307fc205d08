//go:build !race

package dataplane_test

// raceEnabled is true where the race detector makes figures of time meaningless.
const raceEnabled = false
