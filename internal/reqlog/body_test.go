package reqlog_test

import (
	"testing"

	"modelgate/internal/reqlog"
)

func TestALevelIsReadByItsName(t *testing.T) {
	for name, want := range map[string]reqlog.RecordLevel{"": reqlog.LevelMetadata, "metadata": reqlog.LevelMetadata, "full": reqlog.LevelFull, "none": reqlog.LevelNone} {
		got, err := reqlog.ParseLevel(name)
		if err != nil || got != want || name != "" && got.String() != name {
			t.Errorf("ParseLevel(%q) = %s, %v", name, got, err)
		}
	}
	if l, err := reqlog.ParseLevel("everything"); err == nil {
		t.Errorf("ParseLevel gave %s for a level that is none", l)
	}
}
