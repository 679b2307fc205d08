// Package secretref reads external secrets: in the environment, in
// files, in Vault, in the secret managers of clouds.
//
// A [Resolver] reads one secret, a [Cache] keeps those in use fresh. It promises
// that a value shows in no error and no log, that of the gateway's own machine
// nothing is read which the operator did not allow, and that an address which a
// tenant chose passes the guard. Who may use a reference is the control plane's
// business, what a value is used for the server's.
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

	"modelgate/internal/apierr"
	"modelgate/internal/provider/auth"
	"modelgate/internal/secret"
)

// The kinds of what keeps secrets.
const (
	Environment = "environment"
	File        = "file"
	Vault       = "hashicorp_vault"
	AWS         = "cloud_a_secrets"
	Azure       = "cloud_c_vault"
)

// Reference says where a secret is kept.
type Reference struct {
	ID      string            // for the log
	Manager string            // one of the constants
	Auth    map[string]string // how the manager is reached; the secret ones are those of Secrets
	Secrets map[string]secret.String
	Path    string // of the secret, in the manager
	Key     string // which value of a secret that has several; empty for all of it

	// Format "json" wants a value that is JSON. Empty, or "string", takes texts,
	// numbers, true and false, as text.
	Format string
}

// identity stands for all that decides what the manager answers.
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

// Options are what a [Resolver] may read and works with. The zero value reads
// nothing of the machine. Nil functions are those of the system.
type Options struct {
	// Environment lists the variables that may be read: names, or their beginning
	// with a star behind it. See [CheckVariable].
	Environment []string
	// Files lists the folders that files may be read from.
	Files []string
	// OwnIdentity lends the identity that the machine has in its cloud.
	OwnIdentity bool
	// Vaults lists the addresses that the machine's identity in its cluster may
	// be shown to.
	Vaults []string

	Client auth.Doer // nil reaches nothing
	// ClientWith returns a client that trusts these authorities alone. Nil refuses
	// references that bring their own.
	ClientWith func(*x509.CertPool) auth.Doer
	// CheckHost checks an address that a tenant chose, before it is stored.
	CheckHost func(raw string) (*url.URL, error)

	LookupEnv func(name string) (string, bool)
	ReadFile  func(name string) ([]byte, error) // of the machine's identity alone
	Now       func() time.Time
}

// Resolver reads secrets. It is safe for concurrent use.
type Resolver struct {
	Options
	signer *auth.Signer
	logins logins

	mu      sync.Mutex
	clients map[string]auth.Doer // by the authorities; guarded by mu
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
	return nil, apierr.New(apierr.Internal, "there is no client for managers of secrets")
}

// kind is how one kind of manager is checked and asked.
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

// Check reports why ref could never be resolved, without asking for it: a field
// that is missing or malformed, or what the operator does not allow. The error
// is an *apierr.Error that names the field as requests do.
func (r *Resolver) Check(ref Reference) error {
	k, ok := kinds[ref.Manager]
	if !ok {
		return apierr.New(apierr.Invalid, "manager_type is none that is known").WithParam("manager_type")
	}
	return k.check(r, &ref)
}

// longest bounds reading one secret.
const longest = 10 * time.Second

// Resolve reads the secret now. The error is an *apierr.Error without anything
// of it; it does not say where the manager is either.
func (r *Resolver) Resolve(ctx context.Context, ref Reference) (secret.String, error) {
	f, err := r.fetch(ctx, &ref)
	if err != nil {
		return secret.String{}, err
	}
	return f.pick(ref.Key, ref.Format)
}

// Test reads the secret and, if the reference names one of its values, that.
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

// need returns a field of the reference's auth_config that has to be there.
func (r *Reference) need(names ...string) error {
	for _, name := range names {
		if r.Auth[name] == "" && r.Secrets[name].Empty() {
			return invalid("auth_config."+name, "is needed")
		}
	}
	return nil
}

func invalid(field, format string, args ...any) *apierr.Error {
	return apierr.New(apierr.Invalid, field+" "+format, args...).WithParam(field)
}
