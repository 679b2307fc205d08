package secrets

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/secrets/secretref"
	"modelgate/internal/store"
)

// managerKind is a kind of secret manager.
type managerKind struct {
	types  []string // values of auth_config.type; none takes no auth_config
	needed []string // fields required for every type
	plain  []string // optional fields
	sealed []string // fields that hold secrets
	places []string // fields that decide where the secrets are sent
}

// managers are the kinds by manager_type.
var managers = map[string]managerKind{
	"environment": {},
	"file":        {},
	"hashicorp_vault": {
		types: []string{"token", "approle", "kubernetes"}, needed: []string{"address"},
		plain:  []string{"namespace", "mount", "kv_version", "ca_cert", "role", "role_id", "auth_mount"},
		sealed: []string{"token", "secret_id"}, places: []string{"address", "ca_cert"},
	},
	"cloud_a_secrets": {
		types: []string{"accessKey", "assumedRole", "serviceRole"}, needed: []string{"region"},
		plain:  []string{"access_key_id", "role_arn", "external_id", "endpoint"},
		sealed: []string{"secret_access_key", "session_token"}, places: []string{"region", "endpoint"},
	},
	"cloud_c_vault": {
		types: []string{"entra", "managed", "default"}, needed: []string{"vault_url"}, plain: []string{"tenant_id", "client_id"},
		sealed: []string{"client_secret"}, places: []string{"vault_url", "tenant_id"},
	},
}

// service seals the gateway's credentials for secret managers and reads secrets from
// them.
type service struct {
	secrets  route.Sealer
	resolver *secretref.Resolver
}

// merge applies the given fields to those of s: null removes a field, and a mask keeps
// the stored secret.
func (k service) merge(ctx context.Context, s *store.SecretReference, given map[string]*string) error {
	m := managers[s.Manager]
	held, err := k.open(ctx, s)
	if err != nil {
		return err
	}
	auth, kept := maps.Clone(s.Auth), maps.Clone(held)
	if auth == nil {
		auth = map[string]string{}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		v := given[name]
		hidden := slices.Contains(m.sealed, name)
		if !hidden && name != "type" && !slices.Contains(m.needed, name) && !slices.Contains(m.plain, name) || len(m.types) == 0 {
			return route.Invalid("auth_config."+clip(name), "is not a field of %s", s.Manager)
		}
		switch {
		case v == nil:
			delete(auth, name)
			delete(held, name)
			delete(kept, name)
		case len(*v) > 16384 || *v == "":
			return route.Invalid("auth_config."+name, "must be 1 to 16384 characters long")
		case hidden:
			stored, err := store.KeepsSecret(*v, auth[name])
			if err != nil {
				return route.Invalid("auth_config."+name, "%v", err)
			}
			if !stored {
				auth[name], held[name] = store.Mask(secret.New(*v)), *v
				delete(kept, name)
			}
		default:
			auth[name] = *v
		}
	}
	if err := m.check(auth, s.Auth, kept); err != nil {
		return err
	}
	s.Auth = auth
	return k.seal(ctx, s, held)
}

// check checks the fields, given the previous fields and the secrets that are kept.
func (m managerKind) check(auth, before, kept map[string]string) error {
	if len(m.types) == 0 {
		return nil
	}
	if !slices.Contains(m.types, auth["type"]) {
		return route.Invalid("auth_config.type", "must be one of %s", strings.Join(m.types, ", "))
	}
	for _, name := range m.needed {
		if auth[name] == "" {
			return route.Invalid("auth_config."+name, "is required")
		}
	}
	for _, name := range m.places {
		// Otherwise a user who may change a reference could have its secrets sent
		// elsewhere.
		if len(kept) > 0 && auth[name] != before[name] {
			return route.Invalid("auth_config."+name, "cannot be changed unless the secrets are sent again")
		}
	}
	return nil
}

func (k service) seal(ctx context.Context, s *store.SecretReference, held map[string]string) error {
	if s.Sealed = ""; len(held) == 0 {
		return nil
	}
	if k.secrets == nil {
		return noMasterKey()
	}
	text, err := json.Marshal(held)
	if err != nil {
		return err
	}
	s.Sealed, err = k.secrets.Seal(ctx, s.Organisation, secret.New(string(text)))
	return err
}

func (k service) open(ctx context.Context, s *store.SecretReference) (map[string]string, error) {
	held := map[string]string{}
	opened, err := k.opened(ctx, s)
	if err != nil || opened.Empty() {
		return held, err
	}
	return held, json.Unmarshal([]byte(opened.Reveal()), &held)
}

// opened returns the secrets of s as one string, empty if there are none.
func (k service) opened(ctx context.Context, s *store.SecretReference) (secret.String, error) {
	if s.Sealed == "" {
		return secret.String{}, nil
	}
	if k.secrets == nil {
		return secret.String{}, noMasterKey()
	}
	return k.secrets.Open(ctx, s.Organisation, s.Sealed)
}

func noMasterKey() error {
	return apierr.New(apierr.Unavailable,
		"secrets cannot be stored because the gateway was started without a master key").WithCode("no_master_key")
}

func clip(name string) string {
	const most = 64
	return strings.ToValidUTF8(name[:min(len(name), most)], "")
}

// Apply applies fields to those of s: nil removes a field, and a mask keeps the stored
// secret. It is for callers that store references without a route.
func Apply(ctx context.Context, sealer route.Sealer, s *store.SecretReference, fields map[string]*string) error {
	return service{secrets: sealer}.merge(ctx, s, fields)
}

// Hidden returns the fields of a kind of secret manager that hold secrets.
func Hidden(kind string) []string { return managers[kind].sealed }
