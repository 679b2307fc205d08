package server_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets more tests run at a time than there are cores, since most of
// them wait: for databases that are away, polls and drains.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	if err := os.Setenv("AUDIT_KEY", auditKey); err != nil {
		panic(err)
	}
	if err := os.Setenv("ALERT_SECRET", alertSecret); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
