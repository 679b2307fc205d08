package pipeline_test

import (
	"testing"
	"testing/synctest"

	"modelgate/internal/testing/pipelinetest"
)

// What a config asks for and does not get is reported once, whichever of its
// targets was asked.
func TestNotesAreReportedOnce(t *testing.T) {
	for _, tt := range []struct{ name, config, want string }{
		{"nothing to say", pipelinetest.Tree("fallback", 2, `,"retry":{"attempts":5}`), ""},
		{"too many attempts for every target", pipelinetest.Tree("fallback", 3, `,"retry":{"attempts":6}`), "retry.attempts;clamped=5"},
		{"several things", pipelinetest.Tree("fallback", 2, `,"retry":{"attempts":6},"cache":{"mode":"simple"}`), "cache;ignored, retry.attempts;clamped=5"},
		{"of a target that was not reached", `{"strategy":{"mode":"single"},"targets":[` + pipelinetest.Leaf + `,{"provider":"@a","cache":{"mode":"simple"}}]}`, ""},
		{"of a hedged target", pipelinetest.Tree("fallback", 2, `,"hedge":{"delay_ms":10},"retry":{"attempts":6}`), "retry.attempts;clamped=5"},
		{"of the target before a race", `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@a","cache":{"mode":"simple"}},` + pipelinetest.Tree("fallback", 2, `,"hedge":{"delay_ms":10}`) + `]}`, "cache;ignored"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := pipelinetest.New(t, tt.config).On("0", pipelinetest.Status(400))
				if got := r.Send().X.Params(); got != tt.want {
					t.Errorf("params %q, want %q", got, tt.want)
				}
			})
		})
	}
}
