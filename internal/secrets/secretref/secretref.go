// Package secretref reads external secrets: from environment variables, files, Vault
// and cloud secret managers.
//
// A [Resolver] reads a secret, a [Cache] keeps secrets in use fresh. It guarantees that
// values do not appear in errors or logs, that only what the operator allows is read
// from the gateway's host, and that addresses chosen by tenants pass the address guard.
// It does not check who may use a reference (see controlplane) or use the values (see
// server).
package secretref

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/provider/auth"
)

// Kinds of secret managers.
const (
	Environment = "environment"
	File        = "file"
	Vault       = "hashicorp_vault"
	AWS         = "cloud_a_secrets"
	Azure       = "cloud_c_vault"
)

// Reference identifies a secret.
type Reference struct {
	ID      string            // for the log
	Manager string            // one of the constants
	Auth    map[string]string // address and credentials of the manager; secret fields are in Secrets
	Secrets map[string]secret.String
	Path    string // of the secret in the manager
	Key     string // key of a secret with several values; empty for all of it

	// Format "json" requires a value that is JSON. Empty, or "string", accepts strings,
	// numbers and booleans, as text.
	Format string
}

// identity is a hash of everything that determines the manager's response.
type identity [sha256.Size]byte

func (r *Reference) identity() identity {
	parts := []string{r.Manager, r.Path}
	for _, name := range slices.Sorted(maps.Keys(r.Auth)) {
		if _, hidden := r.Secrets[name]; !hidden {
			parts = append(parts, name, r.Auth[name])
		}
	}
	parts = append(parts, "")
	for _, name := range slices.Sorted(maps.Keys(r.Secrets)) {
		parts = append(parts, name, r.Secrets[name].Reveal())
	}
	return digest(parts...)
}

func digest(parts ...string) identity {
	h := sha256.New()
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return identity(h.Sum(nil))
}

// Options configure a [Resolver]. The zero value reads nothing from the host. Nil
// functions are those of the system.
type Options struct {
	// Environment lists the variables that may be read: names, or prefixes followed by
	// a star; see [CheckVariable].
	Environment []string
	// Files lists the folders from which files may be read.
	Files []string
	// OwnIdentity allows the host's cloud identity.
	OwnIdentity bool
	// Vaults lists the addresses to which the host's cluster identity may be sent.
	Vaults []string

	Client auth.Doer // nil sends no requests
	// ClientWith returns a client that trusts only these authorities. Nil rejects
	// references with their own authorities.
	ClientWith func(*x509.CertPool) auth.Doer
	// CheckHost checks an address chosen by a tenant before it is stored.
	CheckHost func(raw string) (*url.URL, error)

	LookupEnv func(name string) (string, bool)
	ReadFile  func(name string) ([]byte, error) // for the host's identity only
	Now       func() time.Time
}

// Resolver reads secrets. It is safe for concurrent use.
type Resolver struct {
	Options
	signer *auth.Signer
	logins logins

	mu      sync.Mutex
	clients map[string]auth.Doer // by authorities; guarded by mu
}

// New returns a resolver.
func New(o Options) *Resolver {
	if o.Client == nil {
		o.Client = noClient{}
	}
	if o.LookupEnv == nil {
		o.LookupEnv = os.LookupEnv
	}
	if o.ReadFile == nil {
		o.ReadFile = os.ReadFile
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	getenv := func(name string) string { v, _ := o.LookupEnv(name); return v }
	signer := auth.New(auth.Options{Client: o.Client, Now: o.Now, Getenv: getenv, ReadFile: o.ReadFile})
	return &Resolver{Options: o, signer: signer, logins: logins{now: o.Now}, clients: make(map[string]auth.Doer)}
}

type noClient struct{}

func (noClient) Do(*http.Request, bool) (*http.Response, error) {
	return nil, apierr.New(apierr.Internal, "no client for secret managers is configured")
}

// kind is the implementation of a kind of manager.
type kind struct {
	check func(*Resolver, *Reference) error
	fetch func(*Resolver, context.Context, *Reference) (secretPayload, error)
}

var kinds = map[string]kind{
	Environment: {(*Resolver).checkVariable, (*Resolver).variable},
	File:        {(*Resolver).checkFile, (*Resolver).file},
	Vault:       {(*Resolver).checkVault, (*Resolver).vault},
	AWS:         {(*Resolver).checkAWS, (*Resolver).aws},
	Azure:       {(*Resolver).checkAzure, (*Resolver).azure},
}

// Check returns an error if ref can never be resolved, without sending requests: for a
// missing or malformed field, or because the operator does not allow it. The error is
// an *apierr.Error that names the field as in requests.
func (r *Resolver) Check(ref Reference) error {
	k, ok := kinds[ref.Manager]
	if !ok {
		return apierr.New(apierr.Invalid, "manager_type is unknown").WithParam("manager_type")
	}
	return k.check(r, &ref)
}

// longest is the time limit for reading a secret.
const longest = 10 * time.Second

// Resolve reads the secret. The error is an *apierr.Error that contains neither the
// secret nor the manager's address.
func (r *Resolver) Resolve(ctx context.Context, ref Reference) (secret.String, error) {
	f, err := r.fetch(ctx, &ref)
	if err != nil {
		return secret.String{}, err
	}
	return f.pick(ref.Key, ref.Format)
}

// Test reads the secret and, if the reference names a key, its value.
func (r *Resolver) Test(ctx context.Context, ref Reference) error {
	f, err := r.fetch(ctx, &ref)
	if err == nil && ref.Key != "" {
		_, err = f.pick(ref.Key, "")
	}
	return err
}

func (r *Resolver) fetch(ctx context.Context, ref *Reference) (secretPayload, error) {
	if err := r.Check(*ref); err != nil {
		return secretPayload{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	return kinds[ref.Manager].fetch(r, ctx, ref)
}

// requireFields returns an error unless the fields of auth_config are set.
func (r *Reference) requireFields(names ...string) error {
	for _, name := range names {
		if r.Auth[name] == "" && r.Secrets[name].Empty() {
			return invalid("auth_config."+name, "is required")
		}
	}
	return nil
}

func invalid(field, format string, args ...any) *apierr.Error {
	return apierr.New(apierr.Invalid, field+" "+format, args...).WithParam(field)
}
