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

func TestExplainPrintsWhatThePromptCacheSaves(t *testing.T) {
	read, written, recorded := 0.001, 0.0002, -0.25
	c := &dataplane.PromptCache{Target: "config", Tokens: 1650, Read: &read, Written: &written, Recorded: &recorded}
	if got, want := promptCacheLine(c), "prompt cache of the provider: config, a prefix of about 1650 tokens; reading it saves 0.001000 dollars, writing it costs 0.000200 more; -0.250000 dollars saved in 30 days"; got != want {
		t.Errorf("promptCacheLine = %q, want %q", got, want)
	}
	c = &dataplane.PromptCache{Target: "config", Tokens: 1650}
	if got, want := promptCacheLine(c), "prompt cache of the provider: config, a prefix of about 1650 tokens"; got != want {
		t.Errorf("promptCacheLine = %q, want %q", got, want)
	}
}
