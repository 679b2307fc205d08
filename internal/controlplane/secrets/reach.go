package secrets

import (
	"context"

	"modelgate/internal/apierr"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/secretref"
	"modelgate/internal/store"
)

// reference returns s as it is read.
func (k service) reference(ctx context.Context, s *store.SecretReference) (secretref.Reference, error) {
	opened, err := k.opened(ctx, s)
	if err != nil {
		return secretref.Reference{}, err
	}
	return credentials.Reference(*s, opened)
}

// check refuses a reference that could never be read.
func (k service) check(ctx context.Context, s *store.SecretReference) error {
	ref, err := k.reference(ctx, s)
	if err != nil {
		return err
	}
	return k.resolver.Check(ref)
}

// outcome is how a test of a reference went.
type outcome struct {
	OK     bool    `json:"ok"`
	Error  *reason `json:"error" doc:"Null when the secret can be read"`
	Object string  `json:"object"`
}

type reason struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Param   string `json:"param" doc:"The field of the reference at fault; empty for none"`
}

// test reads what a reference refers to. That it can't be read is no error of
// the request.
func (k service) test(ctx context.Context, c *route.Caller, in *oneInput) (*outcome, error) {
	s, err := find(ctx, c, in.Reference)
	if err != nil {
		return nil, err
	}
	c.Did("secret_test", s.ID)
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
