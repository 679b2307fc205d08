package settings

import (
	"errors"
	"time"

	"modelgate/internal/secrets/secretref"
)

// References limits what secret references may read from this host. The zero value
// allows nothing.
type References struct {
	Environment []string `json:"environment,omitempty" doc:"Environment variables that may be read; a trailing * matches a prefix"`
	Files       []string `json:"files,omitempty" doc:"Folders that files may be read from"`
	OwnIdentity bool     `json:"own_identity,omitempty" doc:"Allows the host's cloud identity"`
	Vaults      []string `json:"vaults,omitempty" doc:"Addresses of Vaults that may receive the host's cluster identity"`
	Refresh     Duration `json:"refresh,omitempty" doc:"Maximum age of a value while its manager is available; defaults to 5m"`
}

func (s *Settings) checkSecrets() *fault {
	for i, name := range s.References.Environment {
		if err := secretref.CheckVariable(name); err != nil {
			return at(err, "secrets.environment[%d]", i)
		}
	}
	for i, folder := range s.References.Files {
		if err := secretref.CheckFolder(folder); err != nil {
			return at(err, "secrets.files[%d]", i)
		}
	}
	if d := time.Duration(s.References.Refresh); d != 0 && (d < time.Second || d > time.Hour) {
		return at(errors.New("must be 1s to 1h"), "secrets.refresh")
	}
	return nil
}
