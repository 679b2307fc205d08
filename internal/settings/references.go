package settings

import (
	"errors"
	"time"

	"modelgate/internal/secretref"
)

// References says what of this machine secret references may name. The zero value
// lets them name nothing.
type References struct {
	Environment []string `json:"environment,omitempty" doc:"Environment variables that may be read; a trailing * matches a prefix"`
	Files       []string `json:"files,omitempty" doc:"Folders that files may be read from"`
	OwnIdentity bool     `json:"own_identity,omitempty" doc:"Lends the identity that the machine has in its cloud"`
	Vaults      []string `json:"vaults,omitempty" doc:"Addresses of Vaults that the identity which the machine has in its cluster may be shown to"`
	Refresh     Duration `json:"refresh,omitempty" doc:"How old a value may be while its manager answers; 5m when absent"`
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
		return at(errors.New("a value may be 1s to 1h old"), "secrets.refresh")
	}
	return nil
}
