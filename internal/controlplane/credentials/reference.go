package credentials

import (
	"encoding/json"
	"errors"

	"modelgate/internal/base/secret"
	"modelgate/internal/secrets/secretref"
	"modelgate/internal/store"
)

// Reference converts a stored reference for [secretref]. Opened are its secrets after
// opening.
func Reference(s store.SecretReference, opened secret.String) (secretref.Reference, error) {
	r := secretref.Reference{ID: s.ID, Manager: s.Manager, Auth: s.Auth, Path: s.Path, Key: s.Key}
	var held map[string]string
	if !opened.Empty() && json.Unmarshal([]byte(opened.Reveal()), &held) != nil { // the error would quote it
		return r, errors.New("reading opened secrets: not JSON")
	}
	r.Secrets = make(map[string]secret.String, len(held))
	for name, v := range held {
		r.Secrets[name] = secret.New(v)
	}
	return r, nil
}
