package policy_test

import (
	"fmt"
	"os"
	"testing"
)

// TestMain runs the tests in the root of the repository: every path that they read or
// report is relative to it.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, "policy:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
