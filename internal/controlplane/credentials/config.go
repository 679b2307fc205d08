package credentials

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"modelgate/internal/pipeline/guarding"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// StoredConfig is a config as it is stored: text in which credentials are masked, and
// the sealed credentials. The zero value is not a valid config.
type StoredConfig struct {
	Text   string // JSON, credentials masked
	Sealed string // empty for none
}

// SealConfig checks the text of a config and returns it in stored form. A mask keeps
// the credential that before has at the same path if everything that decides where it
// is sent is unchanged. It must not be called in a transaction.
func (k *Manager) SealConfig(ctx context.Context, organisation string, text []byte, before StoredConfig) (StoredConfig, error) {
	if len(text) > api.MaxConfigHeader {
		return StoredConfig{}, route.Invalid("config", "is larger than %d bytes", api.MaxConfigHeader)
	}
	text, err := k.unmask(ctx, organisation, text, before)
	if err != nil {
		return StoredConfig{}, invalidConfig(err)
	}
	root, err := config.Parse(text)
	if err == nil {
		err = guarding.Check(root, k.checks)
	}
	if err != nil {
		return StoredConfig{}, invalidConfig(err)
	}
	list, err := config.Credentials(text)
	if err == nil {
		err = config.CheckBound(list)
	}
	if err != nil {
		return StoredConfig{}, invalidConfig(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return StoredConfig{}, route.Invalid("config", "is not JSON")
	}
	hidden, held, err := store.HideConfig(compact.String())
	if err != nil || len(held) == 0 {
		return StoredConfig{Text: hidden}, err
	}
	sealed, err := k.sealText(ctx, organisation, held.Text())
	return StoredConfig{hidden, sealed}, err
}

func (k *Manager) openConfig(ctx context.Context, organisation string, c StoredConfig) (store.ConfigSecrets, error) {
	opened, err := k.openText(ctx, organisation, c.Sealed)
	if err != nil {
		return nil, err
	}
	return store.ParseConfigSecrets(opened)
}

const movedMask = "is the mask of a stored credential, but a provider, host or setting that decides where it is sent has changed; send the credential itself"

// unmask replaces the masks in a text with their credentials.
func (k *Manager) unmask(ctx context.Context, organisation string, text []byte, before StoredConfig) ([]byte, error) {
	known := make(map[string]config.Credential)
	if before.Text != "" {
		list, err := config.Credentials([]byte(before.Text))
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			known[c.Path] = c
		}
	}
	var held store.ConfigSecrets // opened when the first mask is found
	return config.ReplaceCredentials(text, func(c config.Credential) (v string, err error) {
		given, was, mask := c.Value.Reveal(), known[c.Path], ""
		if before.Sealed != "" {
			mask = was.Value.Reveal()
		}
		kept, err := store.KeepsSecret(given, mask)
		switch {
		case err != nil:
			return "", &config.Errors{Faults: []config.FieldError{{Path: c.Path, Message: err.Error()}}}
		case kept && c.Destination != was.Destination:
			return "", &config.Errors{Faults: []config.FieldError{{Path: c.Path, Message: movedMask}}}
		case !kept:
			return given, nil
		}
		if held == nil {
			if held, err = k.openConfig(ctx, organisation, before); err != nil {
				return "", err
			}
		}
		return held[c.Path].Reveal(), nil
	})
}

// invalidConfig turns an error of package config into one of the field config, and
// returns other errors unchanged.
func invalidConfig(err error) error {
	if _, ok := errors.AsType[*config.Errors](err); !ok {
		return err
	}
	return apierr.New(apierr.Invalid, "%v", err).WithParam("config")
}
