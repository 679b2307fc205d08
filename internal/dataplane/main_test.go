package dataplane_test

import (
	"os"
	"testing"

	"modelgate/internal/gatewaytest"
)

// TestMain sets the variable that settings of tests take the key of the simulator
// from; a test that sets its own could not run next to others.
func TestMain(m *testing.M) {
	if err := os.Setenv("PAIR_KEY", gatewaytest.SimulatorKey); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
