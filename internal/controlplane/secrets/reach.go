package secrets

import (
	"context"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/secrets/secretref"
	"modelgate/internal/store"
)

// reference returns s in the form of secretref.
func (k service) reference(ctx context.Context, s *store.SecretReference) (secretref.Reference, error) {
	opened, err := k.opened(ctx, s)
	if err != nil {
		return secretref.Reference{}, err
	}
	return credentials.Reference(*s, opened)
}

// check returns an error for a reference that can never be read.
func (k service) check(ctx context.Context, s *store.SecretReference) error {
	ref, err := k.reference(ctx, s)
	if err != nil {
		return err
	}
	return k.resolver.Check(ref)
}

// Check returns an error for a reference that r can never read. A nil resolver reads none of
// the host.
func Check(ctx context.Context, sealer route.Sealer, r *secretref.Resolver, s *store.SecretReference) error {
	if r == nil {
		r = secretref.New(secretref.Options{})
	}
	return service{sealer, r}.check(ctx, s)
}

// outcome is the result of testing a reference.
type outcome struct {
	OK     bool    `json:"ok"`
	Error  *reason `json:"error" doc:"Null if the secret can be read"`
	Object string  `json:"object"`
}

type reason struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Param   string `json:"param" doc:"Invalid field of the reference; empty for none"`
}

// test reads the secret of a reference. A failure is part of the response, not an error
// of the request.
func (k service) test(ctx context.Context, c *route.Caller, in *oneInput) (*outcome, error) {
	s, err := find(ctx, c, in.Reference)
	if err != nil {
		return nil, err
	}
	c.SetAuditAction("secret_test", s.ID)
	ref, err := k.reference(ctx, &s)
	if err != nil {
		return nil, err
	}
	out := &outcome{OK: true, Object: "secret-reference-test"}
	if err := k.resolver.Test(ctx, ref); err != nil {
		e := apierr.From(err)
		out.OK, out.Error = false, &reason{e.CodeOrDefault(), e.Message, e.Param}
	}
	return out, nil
}
