package reqlog_test

import (
	"strings"
	"testing"

	"modelgate/internal/records/reqlog"
)

// FuzzParseID reads ids from paths and queries: one id has one spelling except for
// the case of its digits.
func FuzzParseID(f *testing.F) {
	f.Add("0190163d-8694-739b-aea5-966c26f8ad91")
	f.Add("0190163D-8694-739B-AEA5-966C26F8AD91")
	f.Add("0190163d_8694-739b-aea5-966c26f8ad91")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := reqlog.ParseID(s)
		if err == nil && id.String() != strings.ToLower(s) {
			t.Errorf("ParseID(%q).String() = %q", s, id)
		}
	})
}
