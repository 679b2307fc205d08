package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"modelgate/config"
	"modelgate/internal/base/secret"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// ConfigSecrets are the credentials of a config by path; see [config.Credential].
type ConfigSecrets map[string]secret.String

// Text returns the credentials as JSON, the form that is sealed.
func (s ConfigSecrets) Text() secret.String { return secret.New(text(each(s, secret.String.Reveal))) }

// ParseConfigSecrets decodes the opened output of [ConfigSecrets.Text]. An empty string
// means none.
func ParseConfigSecrets(opened secret.String) (ConfigSecrets, error) {
	var plain map[string]string
	if opened.Empty() {
		return ConfigSecrets{}, nil
	}
	if json.Unmarshal([]byte(opened.Reveal()), &plain) != nil { // the error would quote it
		return nil, errors.New("reading opened credentials of a config: not JSON")
	}
	return each(plain, secret.New), nil
}

// hiddenConfigValue is the mask of a credential of which nothing is shown.
const hiddenConfigValue = "***"

// HideConfig returns the text of a config with its credentials masked, and the
// credentials.
func HideConfig(text string) (hidden string, held ConfigSecrets, err error) {
	held = ConfigSecrets{}
	out, err := config.ReplaceCredentials([]byte(text), func(c config.Credential) (string, error) {
		v := secret.New(c.Value.Reveal())
		held[c.Path] = v
		if strings.HasPrefix(v.Reveal(), "{") {
			return hiddenConfigValue, nil
		}
		return Mask(v), nil
	})
	return string(out), held, err
}

// FillConfig returns a text of [HideConfig] with its credentials restored.
func FillConfig(hidden string, held ConfigSecrets) (secret.String, error) {
	if len(held) == 0 {
		return secret.New(hidden), nil
	}
	out, err := config.ReplaceCredentials([]byte(hidden), func(c config.Credential) (string, error) {
		v, ok := held[c.Path]
		if !ok {
			return "", fmt.Errorf("the credential at %s is missing among the sealed ones", c.Path)
		}
		return v.Reveal(), nil
	})
	return secret.New(string(out)), err
}

// PlainConfigVersion is a version stored before credentials were sealed.
type PlainConfigVersion struct {
	Organisation, ID, Text string
}

// PlainConfigVersions returns the versions with credentials in plain text.
func (q Queries) PlainConfigVersions(ctx context.Context) (list []PlainConfigVersion, err error) {
	const text = `
		SELECT c.organisation_id, v.id, v.text
		FROM config_versions v
		JOIN configs c ON c.id = v.config_id
		WHERE v.sealed = ''`
	all, err := sqlrow.List(ctx, q.Reader, "versions", text, func(r sqlrow.Scanner) (v PlainConfigVersion, err error) {
		err = r.Scan(&v.Organisation, &v.ID, &v.Text)
		return v, err
	})
	for _, v := range all {
		if held, err := config.Credentials([]byte(v.Text)); err == nil && len(held) > 0 {
			list = append(list, v)
		}
	}
	return list, err
}

// SealConfigVersion replaces the text of a version by a masked one with sealed
// credentials.
func (tx *Tx) SealConfigVersion(ctx context.Context, id, hidden, sealed string) error {
	const text = `
		UPDATE config_versions
		SET text = $2, sealed = $3
		WHERE id = $1 AND sealed = ''`
	return tx.exec(ctx, journal.ConfigVersions, "version", text, id, hidden, sealed)
}
