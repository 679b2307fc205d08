package signin

import (
	"context"
	"errors"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// Outcomes of a step.
const (
	stepOK      = "ok"
	stepWarning = "warning"
	stepFailed  = "failed"
	stepSkipped = "skipped"
)

// step is a step of a test.
type step struct {
	Name    string `json:"name"`
	Outcome string `json:"outcome" enum:"ok,warning,failed,skipped"`
	Detail  string `json:"detail" doc:"What was found, or what to change"`
}

type tested struct {
	Object string `json:"object"`
	OK     bool   `json:"ok"`
	Steps  []step `json:"steps"`
	Start  string `json:"start" doc:"Where the browser that sent this request can try a sign-in that begins no session; empty if a step failed"`
}

// test walks what can be tested without a person, and begins a flow that tests the rest.
func (f *family) test(ctx context.Context, c *route.Caller, in *oneInput) (*tested, error) {
	if err := checkRank(c); err != nil {
		return nil, err
	}
	p, err := find(ctx, c, in.Provider)
	if err != nil {
		return nil, err
	}
	if !f.hasProtocol(p) {
		return nil, apierr.New(apierr.Unavailable, "this gateway has no identity providers")
	}
	c.SetAuditAction("test", p.ID)
	if err := c.Change(ctx, func(*store.Tx) error { return nil }); err != nil {
		return nil, err
	}
	if p.Type == store.OIDC {
		f.OIDC.Forget(p.Settings.Issuer)
	}
	out := &tested{Object: "identity_provider_test", OK: true, Steps: f.walk(ctx, c, p)}
	for _, s := range out.Steps {
		out.OK = out.OK && s.Outcome != stepFailed
	}
	if out.OK && c.Type == access.Session {
		m, err := f.start(ctx, c, p, flow{Next: c.Link(people.SignInPath), Purpose: toTest})
		if err != nil {
			return nil, err
		}
		out.Start = m.Address
	}
	return out, nil
}

// walk returns the steps that need no person.
func (f *family) walk(ctx context.Context, c *route.Caller, p store.IdentityProvider) []step {
	steps := []step{f.address(c, p)}
	provider, err := f.use(ctx, c, p)
	if err != nil {
		return append(steps, step{reasonOf(err), stepFailed, err.Error()})
	}
	steps = append(steps, provider.check(ctx)...)
	return append(steps, f.domainSteps(ctx, c, p)...)
}

// address tells where the provider must send browsers.
func (f *family) address(c *route.Caller, p store.IdentityProvider) step {
	path := callbackPath
	if p.Type == store.SAML {
		path = acsPath
	}
	address := c.AbsoluteLink(pathOf(p.ID) + path)
	switch {
	case c.Link("") == "":
		return step{"redirect_uri", stepWarning, address + " must be entered at the provider; set public_url if browsers reach the gateway at another address"}
	case !strings.HasPrefix(address, "https://"):
		return step{"redirect_uri", stepWarning, address + " must be entered at the provider; most providers accept https addresses only"}
	}
	return step{"redirect_uri", stepOK, address + " must be entered at the provider"}
}

// domainSteps tells which domains count.
func (f *family) domainSteps(ctx context.Context, c *route.Caller, p store.IdentityProvider) []step {
	if len(p.Settings.Domains) == 0 {
		return []step{{"domains", stepWarning, "none: only people who have linked their account can sign in"}}
	}
	var steps []step
	for _, d := range p.Settings.Domains {
		s := step{"domains", stepOK, d + " is verified"}
		if ok, err := c.DB().IsVerifiedDomain(ctx, p.Organisation, d); err != nil || !ok {
			s.Outcome, s.Detail = stepWarning, d+" is not verified, so nobody becomes a member by it; add it with POST /domains"
		}
		steps = append(steps, s)
	}
	return steps
}

// foresee tells what a sign-in of a person would do.
func (f *family) foresee(ctx context.Context, c *route.Caller, p store.IdentityProvider, in *person) step {
	if in == nil {
		return step{}
	}
	s := step{Name: "member", Outcome: stepOK, Detail: "a sign-in would succeed"}
	err := c.Change(ctx, func(tx *store.Tx) error {
		a := admission{tx: tx, c: c, provider: p, person: *in}
		u, refused := a.user(ctx)
		switch {
		case refused == nil:
			s.Detail = "a sign-in would succeed as " + u.Email + ", " + u.Role
		case refused.err != nil:
			s.Outcome, s.Detail = stepFailed, refused.reason+": "+refused.err.Error()
		default:
			s.Outcome, s.Detail = stepFailed, refused.reason+": "+reasons[refused.reason]
		}
		return errForeseen
	})
	if !errors.Is(err, errForeseen) {
		s.Outcome, s.Detail = stepFailed, err.Error()
	}
	return s
}

const errForeseen = errorText("only a test")

// reasons explains to administrators why a sign-in was refused.
var reasons = map[string]string{
	"no_email":                     "the token has no usable e-mail address; allow the scope email",
	"unproved_email":               "the provider does not vouch for the address (email_verified; at Microsoft Entra xms_edov; at Google hd), or its domain is not a verified one of domains",
	"no_provisioning":              "the person is no member, and disable_auto_provision_user is set",
	"address_in_use":               "the address belongs to a user of another organisation",
	"owner_must_link":              "the address is an owner's; the owner must sign in and link the account",
	"another_subject":              "the user with this address is linked to another subject of the provider, which may have given the address to somebody else",
	"must_link":                    "the user with this address must sign in and link the account",
	"session_ended":                "the session that began to link the account ended",
	"removed":                      "the user was removed; add or invite them again",
	"directory_only":               "the person is no member, and only the directory adds users (directory.users_only)",
	"provider_changed":             "the identity provider was changed or disabled in the meantime",
	"disabled":                     "the user is disabled",
	"identity_of_another_provider": "the same subject is known from another provider of the organisation",
}

func join(list []string) string { return strings.Join(list, ", ") }
