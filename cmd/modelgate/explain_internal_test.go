package main

import (
	"testing"

	"modelgate/internal/dataplane"
)

func TestExplainedLimitsSayWhetherTheRequestFits(t *testing.T) {
	l := dataplane.Limit{Holder: "key", Type: "requests", Unit: "rpm", Limit: 60, Used: 60, Claimed: 1}
	if got, want := limitLine(l), "limit of the key: 60 of 60 requests rpm used, 0 reserved by others, 1 needed: does not fit"; got != want {
		t.Errorf("limitLine = %q, want %q", got, want)
	}
	l = dataplane.Limit{Holder: "workspace", Type: "cost", Limit: 10, Used: 2.5, Reserved: 1, Claimed: 0.25, Fits: true}
	if got, want := limitLine(l), "limit of the workspace: 2.5 of 10 cost used, 1 reserved by others, 0.25 needed"; got != want {
		t.Errorf("limitLine = %q, want %q", got, want)
	}
}
