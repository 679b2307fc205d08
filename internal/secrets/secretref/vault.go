package secretref

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
)

// clusterToken is the file in which a cluster provides the token of a pod's identity.
const clusterToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"

func (r *Resolver) checkVault(ref *Reference) error {
	var err error
	switch ref.Auth["type"] {
	case "token":
		err = ref.requireFields("address", "token")
	case "approle":
		err = ref.requireFields("address", "role_id", "secret_id")
	case "kubernetes":
		if err = ref.requireFields("address", "role"); err == nil && !r.lendsTo(ref.Auth["address"]) {
			err = invalid("auth_config.address",
				"is not allowed to receive the identity of the gateway's cluster; the operator must list the address in secrets.vaults of modelgate.yaml").
				WithCode("secret_not_allowed")
		}
	default:
		err = invalid("auth_config.type", "must be token, approle or kubernetes")
	}
	if err != nil {
		return err
	}
	if v := ref.Auth["kv_version"]; v != "" && v != "1" && v != "2" {
		return invalid("auth_config.kv_version", "must be 1 or 2")
	}
	for field, path := range map[string]string{"secret_path": ref.Path, "auth_config.mount": ref.Auth["mount"],
		"auth_config.auth_mount": ref.Auth["auth_mount"]} {
		if path != "" && !plainPath(path) {
			return invalid(field, "must not contain empty segments, dot segments or control characters")
		}
	}
	if ref.Auth["mount"] == "" && !strings.Contains(strings.Trim(ref.Path, "/"), "/") {
		return invalid("secret_path", "must begin with the mount of the secrets engine, such as secret/app; or set auth_config.mount")
	}
	if strings.ContainsFunc(ref.Auth["namespace"], unicode.IsControl) {
		return invalid("auth_config.namespace", "must not contain control characters")
	}
	if _, err := r.clientFor(ref.Auth["ca_cert"]); err != nil {
		return err
	}
	return r.checkAddress("address", ref)
}

// lendsTo reports whether the host's identity may be sent to an address.
func (r *Resolver) lendsTo(address string) bool {
	return slices.ContainsFunc(r.Vaults, func(v string) bool {
		return strings.EqualFold(strings.TrimRight(v, "/"), strings.TrimRight(address, "/"))
	})
}

// checkAddress checks an address chosen by a tenant.
func (r *Resolver) checkAddress(field string, ref *Reference) error {
	if r.CheckHost == nil {
		return nil
	}
	if _, err := r.CheckHost(ref.Auth[field]); err != nil {
		return invalid("auth_config."+field, "names an address that is not allowed: %v", err)
	}
	return nil
}

// plainPath reports whether each segment of a path is a name.
func plainPath(path string) bool {
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return !strings.ContainsFunc(path, unicode.IsControl)
}

// vault reads a secret from a key-value engine.
// https://developer.hashicorp.com/vault/api-docs/secret/kv/kv-v2
func (r *Resolver) vault(ctx context.Context, ref *Reference) (secretPayload, error) {
	token, err := r.vaultToken(ctx, ref, secret.String{})
	if err != nil {
		return secretPayload{}, err
	}
	status, body, err := r.askVault(ctx, ref, kvPath(ref), token, nil)
	if err == nil && status == http.StatusForbidden && ref.Auth["type"] != "token" { // it may have been revoked
		if token, err = r.vaultToken(ctx, ref, token); err == nil {
			status, body, err = r.askVault(ctx, ref, kvPath(ref), token, nil)
		}
	}
	if err == nil && !success(status) {
		err = vaultError(status, body)
	}
	if err != nil {
		return secretPayload{}, err
	}
	var response struct{ Data json.RawMessage }
	err = json.Unmarshal(body, &response)
	if err == nil && ref.Auth["kv_version"] != "1" {
		err = json.Unmarshal(response.Data, &response)
	}
	if err != nil || !bytes.HasPrefix(response.Data, []byte("{")) {
		return secretPayload{}, failed("the Vault returned a response without a secret; check kv_version and the address")
	}
	return secretPayload{text: secret.New(string(response.Data)), values: true}, nil
}

// kvPath returns the API path of a secret.
func kvPath(ref *Reference) string {
	mount, path := strings.Trim(ref.Auth["mount"], "/"), strings.Trim(ref.Path, "/")
	if mount == "" {
		mount, path, _ = strings.Cut(path, "/")
	}
	if ref.Auth["kv_version"] == "1" {
		return escaped(mount) + "/" + escaped(path)
	}
	return escaped(mount) + "/data/" + escaped(path)
}

func escaped(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

func (r *Resolver) askVault(ctx context.Context, ref *Reference, path string, token secret.String, body []byte) (int, []byte, error) {
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	client, err := r.clientFor(ref.Auth["ca_cert"])
	if err != nil {
		return 0, nil, err
	}
	header := map[string]string{"X-Vault-Request": "true", "Accept": "application/json"}
	if ns := ref.Auth["namespace"]; ns != "" {
		header["X-Vault-Namespace"] = ns
	}
	if !token.Empty() {
		header["X-Vault-Token"] = token.Reveal()
	}
	return r.ask(ctx, managerRequest{client: client, method: method, url: strings.TrimRight(ref.Auth["address"], "/") + "/v1/" + path,
		header: header, body: body, guarded: true})
}

func vaultError(status int, body []byte) error {
	switch {
	case bytes.Contains(body, []byte("Vault is sealed")):
		return failed("the Vault is sealed")
	case status == http.StatusNotFound:
		return apierr.New(apierr.UpstreamFailed,
			"the Vault has no secret at this path; use the path of `vault kv get`, without data/").WithCode("secret_not_found")
	}
	return statusError(status)
}

// vaultToken returns a token other than the refused one.
func (r *Resolver) vaultToken(ctx context.Context, ref *Reference, refused secret.String) (secret.String, error) {
	var values map[string]string
	mount := ref.Auth["auth_mount"]
	switch ref.Auth["type"] {
	case "token":
		return ref.Secrets["token"], nil
	case "approle":
		values = map[string]string{"role_id": ref.Auth["role_id"], "secret_id": ref.Secrets["secret_id"].Reveal()}
	case "kubernetes":
		jwt, err := r.ReadFile(clusterToken)
		if err != nil {
			return secret.String{}, failed("the gateway's host has no cluster identity")
		}
		values = map[string]string{"role": ref.Auth["role"], "jwt": strings.TrimSpace(string(jwt))}
	}
	if mount == "" {
		mount = ref.Auth["type"]
	}
	body, err := json.Marshal(values)
	if err != nil {
		return secret.String{}, err
	}
	who := *ref
	who.Path = ""
	id := who.identity()
	return r.logins.get(ctx, digest(string(id[:])), refused, func(ctx context.Context) (secret.String, time.Duration, error) {
		return r.logIn(ctx, ref, "auth/"+escaped(mount)+"/login", body)
	})
}

// logIn returns a token and its lifetime.
// https://developer.hashicorp.com/vault/api-docs/auth/approle#login-with-approle
func (r *Resolver) logIn(ctx context.Context, ref *Reference, path string, body []byte) (secret.String, time.Duration, error) {
	status, response, err := r.askVault(ctx, ref, path, secret.String{}, body)
	if err != nil {
		return secret.String{}, 0, err
	}
	if !success(status) {
		if status == http.StatusBadRequest { // Vault's response to a wrong secret id
			status = http.StatusForbidden
		}
		return secret.String{}, 0, vaultError(status, response)
	}
	var login struct {
		Auth struct {
			Token string `json:"client_token"`
			Lease int64  `json:"lease_duration"`
		} `json:"auth"`
	}
	if json.Unmarshal(response, &login) != nil || login.Auth.Token == "" || strings.ContainsFunc(login.Auth.Token, unicode.IsControl) {
		return secret.String{}, 0, failed("the Vault's login response has no token")
	}
	return secret.New(login.Auth.Token), time.Duration(min(max(login.Auth.Lease, 0), 86400)) * time.Second, nil
}

// logins caches the tokens of logins. The zero value with a clock is ready to use.
type logins struct {
	now func() time.Time

	mu   sync.Mutex
	held map[identity]*login // guarded by mu
}

// login is a cached token. Its fields belong to the goroutine that holds the turn.
type login struct {
	turn  chan struct{}
	token secret.String
	end   time.Time
}

// get returns the token of id, or fetches one if there is none, if less than a fifth of
// its lifetime is left, or if it is the refused one. Concurrent callers share one
// fetch.
func (l *logins) get(ctx context.Context, id identity, refused secret.String,
	fetch func(context.Context) (secret.String, time.Duration, error)) (secret.String, error) {
	held := l.entry(id)
	select {
	case held.turn <- struct{}{}:
		defer func() { <-held.turn }()
	case <-ctx.Done():
		return secret.String{}, noResponseError(ctx, ctx.Err())
	}
	if l.now().Before(held.end) && held.token.Reveal() != refused.Reveal() {
		return held.token, nil
	}
	token, life, err := fetch(ctx)
	if err != nil {
		return secret.String{}, err
	}
	if life == 0 { // it does not expire
		life = time.Hour
	}
	held.token, held.end = token, l.now().Add(life*4/5)
	return token, nil
}

func (l *logins) entry(id identity) *login {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.held[id]; ok {
		return e
	}
	const many = 1024
	if l.held == nil || len(l.held) >= many {
		l.held = make(map[identity]*login)
	}
	e := &login{turn: make(chan struct{}, 1)}
	l.held[id] = e
	return e
}
