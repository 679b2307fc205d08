package dataplane_test

import (
	"os"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// TestMain sets the variables that settings of tests take keys from; a test
// that sets its own could not run next to others.
func TestMain(m *testing.M) {
	if err := os.Setenv("PAIR_KEY", gatewaytest.SimulatorKey); err != nil {
		panic(err)
	}
	if err := os.Setenv("SECOND_KEY", "second-key"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
