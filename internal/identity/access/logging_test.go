package access_test

import (
	"testing"

	"modelgate/internal/identity/access"
)

func TestTheNearestLevelAppliesWithinTheOrganisationsLimit(t *testing.T) {
	const unsaid, none, metadata, full = access.LogInherit, access.LogNone, access.LogMetadata, access.LogFull
	for _, tt := range []struct {
		name         string
		given        access.Logging
		installation access.LogLevel
		want         access.LogLevel
	}{
		{"nobody says anything", access.Logging{}, unsaid, metadata},
		{"the installation", access.Logging{}, full, full},
		{"the organisation over the installation", access.Logging{Organisation: none}, full, none},
		{"a workspace that is not asked", access.Logging{Organisation: metadata, Workspace: none}, full, metadata},
		{"a workspace that is", access.Logging{Organisation: metadata, Workspace: full, Override: true}, unsaid, full},
		{"a workspace over the installation", access.Logging{Workspace: none, Override: true}, full, none},
		{"a key that keeps less", access.Logging{Organisation: full, Key: none}, unsaid, none},
		{"a key that would keep more", access.Logging{Organisation: none, Key: full}, full, none},
		{"a key that would keep more than the installation", access.Logging{Key: full}, metadata, metadata},
		{"a key that may", access.Logging{Organisation: none, Key: full, Override: true}, unsaid, full},
		{"a key over its workspace", access.Logging{Workspace: full, Key: metadata, Override: true}, unsaid, metadata},
		{"a workspace below a silent key", access.Logging{Organisation: full, Workspace: none, Override: true}, unsaid, none},
	} {
		if got := tt.given.Level(tt.installation); got != tt.want {
			t.Errorf("%s: Level = %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestLevelsByTheirNames(t *testing.T) {
	for name, want := range map[string]access.LogLevel{"": 0, "none": access.LogNone, "metadata": access.LogMetadata, "full": access.LogFull, "Full": 0, "all": 0} {
		if got := access.ParseLogLevel(name); got != want {
			t.Errorf("ParseLogLevel(%q) = %d, want %d", name, got, want)
		}
	}
}
