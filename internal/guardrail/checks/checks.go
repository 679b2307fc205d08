// Package checks defines the built-in checks of guardrails.
//
// [New] returns the table of all checks: those that run in the process, those
// that call a model, a webhook or a WASM module, and those of partners. It
// guarantees that a check is linear in the length of the text, that everything
// received from others is bounded in size and time, and that no request leaves
// except through [Services]. It does not decide when checks run or what follows
// (see guardrail).
package checks

import (
	"net/http"
	"slices"
	"strconv"

	"modelgate/internal/base/secret"
	"modelgate/internal/guardrail"
)

// Services are what checks need from the gateway. Checks that need Client have an
// error that says so if it is nil.
type Services struct {
	// Client sends requests to webhooks, partners and other addresses of users.
	Client Doer
	// Credentials returns the stored credentials of a check for the tenant of r, nil
	// if there are none. shared asks for those of the organisation only. Nil means
	// that none are stored.
	Credentials func(r *guardrail.Request, check string, shared bool) (map[string]secret.String, error)
	// Modules runs WebAssembly modules. Nil means modules of this table only.
	Modules *Modules
}

// Doer sends requests, as upstream.Client does. A guarded request is sent only
// to addresses that are public or trusted, and redirects are not followed.
type Doer interface {
	Do(req *http.Request, guarded bool) (*http.Response, error)
}

// New returns the table of all checks.
func New(s Services) *guardrail.Table {
	if s.Modules == nil {
		s.Modules = new(Modules)
	}
	return guardrail.NewTable(slices.Concat(
		textChecks(), shapeChecks(), jsonChecks(), requestChecks(), transformChecks(), dataChecks(), heuristicChecks(),
		webhookChecks(s), urlChecks(s), modelChecks(), s.Modules.checks(), tokenChecks(s), partnerChecks(s),
	)...)
}

const (
	before = guardrail.Before
	after  = guardrail.After
	both   = before | after
)

// param returns a parameter, with a default unless it is empty.
func param(name string, t guardrail.Type, fallback, doc string) guardrail.Param {
	return guardrail.Param{Name: name, Type: t, Default: fallback, Doc: doc}
}

// required returns a required parameter.
func required(name string, t guardrail.Type, doc string) guardrail.Param {
	return guardrail.Param{Name: name, Type: t, Doc: doc, Required: true}
}

// one returns a parameter with a value from a list, of which the first is the
// default.
func one(name, doc string, values ...string) guardrail.Param {
	return guardrail.Param{Name: name, Type: guardrail.String, Enum: values, Default: `"` + values[0] + `"`, Doc: doc}
}

var not = param("not", guardrail.Boolean, "false", "`true` inverts the verdict.")

func number(n int) string { return strconv.Itoa(n) }
