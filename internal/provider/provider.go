// Package provider says what a model provider is and how a request for one is
// built.
//
// A [Spec] is a row of the provider table and holds all that is a provider's own:
// an address, an authentication, paths by operation and quirks. A [Target] is a spec with someone's
// credentials. A [Call] is one operation asked of a target. [NewRequest] turns
// the three into an HTTP request and is pure: no I/O beyond the body it is
// given, no clock, no log. The rows themselves are in provider/table; sending,
// timeouts and retries are left to upstream and pipeline.
package provider

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"modelgate/api"
	"modelgate/internal/catalog"
	"modelgate/internal/dialect"
	"modelgate/internal/secret"
)

// Spec is one row of the provider table. It is immutable after start.
type Spec struct {
	ID      string   // the trade's name, as clients write it
	Name    string   // for people
	Aliases []string // further ids that mean this row
	Sibling Sibling  // another row that one of the aliases means as well

	// BaseURL is the provider's address with the path prefix that operations
	// are appended to, without a slash at the end. It may hold {option}
	// placeholders. Empty means that a custom host must be given.
	BaseURL string

	// Dialect is what the provider's conversations are in. Speaks says it where
	// it depends on the model: the dialects that the model is reached by, the
	// preferred one first, of which each has a path. Nil is Dialect, and any
	// other dialect whose conversation has a path.
	Dialect  api.Dialect
	Dialects func(model string) []api.Dialect

	Auth Auth

	// Env is the environment variable that the trade keeps the key in.
	Env string

	// Paths gives the path of each operation, appended to BaseURL. A path may
	// hold {option} and {model} placeholders, or be a whole URL where the host
	// differs. An operation without a path is not offered.
	Paths map[api.Operation]string

	// PathOf gives the path of an operation of Paths where it depends on the
	// model, which is spelled as the client does; empty means that of Paths.
	PathOf func(op api.Operation, model string) string

	// Header is sent with each request, below what the client forwards.
	Header map[string]string

	// Vendors are the vendors whose own headers the provider takes besides its
	// dialect's, as in Anthropic-Beta for a cloud that serves their models.
	Vendors []Vendor
	// Betas are the beta flags that the host takes.
	Betas Betas

	// UpstreamModel is how the provider itself names a model, in addresses and bodies.
	// Nil means as the client does.
	UpstreamModel func(model string) string
	// PathModels says that paths of pass-through name the model although Paths
	// holds no {model} placeholder.
	PathModels bool
	// BodyRules are what bodies of single operations need besides.
	BodyRules map[api.Operation]BodyRule

	// Options are the placeholders of BaseURL and Paths and further settings.
	Options []Option
	// OptionPrefix begins the names that config objects and headers have for
	// the row's options, such as cloud_a_ before region.
	OptionPrefix string
	// Deployments says that stored credentials may list deployments, each with the
	// model that it serves.
	Deployments bool
	// ReservedCapacity says that stored credentials may be for capacity that is
	// reserved, whose requests cost nothing.
	ReservedCapacity bool

	// Drop lists request fields that the provider refuses.
	Drop []string
	// Rename maps request fields to the provider's names for them.
	Rename map[string]string
	// Limits narrows numeric request fields; values outside are clamped and
	// the adaptation is announced.
	Limits map[string]Range
	// Models are quirks of single models; the first rule that matches applies.
	Models []ModelRule

	// Profile is what translated requests also need, for each dialect.
	Profile dialect.Profile

	// UsageUnasked is true for providers of the chat dialect that report the usage
	// of every stream. Others report it where the request has
	// stream_options.include_usage, which the gateway adds unless Drop names it.
	UsageUnasked bool

	// Complete completes a target while it is made, where the address depends on
	// options, or a custom host tells what it serves. Nil for most.
	Complete func(d *TargetDraft) error
	// URL corrects the address of a call where a path can't say it, such as a
	// version in the query. Nil for most.
	URL func(t *Target, c *Call, u *url.URL) error

	// Tiers has the tiers behind words that only some providers have for how they
	// served a request.
	Tiers map[string]catalog.Tier
	// TierHeader is the response header that tells the tier where the body does not.
	TierHeader string

	// TelemetryName is the provider's name in OpenTelemetry's conventions. Empty
	// means the id.
	// https://opentelemetry.io/docs/specs/semconv/registry/attributes/gen-ai/
	TelemetryName string

	// ErrorStatus is the status of an error whose body tells another than its
	// head. It returns one of 400 and more. Nil for most.
	ErrorStatus func(status int, body []byte) int

	// Docs is the address of the provider's API reference.
	Docs string
	// Notes are facts for the reader of docs/providers.md.
	Notes []string
}

// TargetDraft is a target that is being made. Settle changes it freely: all that it
// holds is the target's own.
type TargetDraft struct {
	Spec    Spec              // a copy; its maps are shared, so replace them whole
	Base    string            // the address, with {option} placeholders unless Custom
	Custom  bool              // somebody else than the row chose the address
	Key     secret.String     // credential, for what else it holds
	Options map[string]string // may be nil
}

// Option returns a setting of the draft as [Target.Option] will.
func (d *TargetDraft) Option(name string) string { return d.Spec.option(d.Options, name) }

// BodyRule is what the body of an operation needs where the address or a header
// says part of it already, or where the host wants more.
type BodyRule struct {
	Drop []string          // top-level fields that are left out
	Set  map[string]string // top-level fields, as JSON, that are added where absent
	// Betas is the field that takes the beta flags, as a list of strings, in
	// the place of their header. Empty leaves them there.
	Betas string
	// Refuse are top-level fields that the host does not know and that can't be
	// left out, with the code of the error by which clients know that.
	Refuse map[string]string
	// Translate says that the host takes another form of the body than clients of the
	// dialect send, so that the dialect writes it and bytes are not passed on.
	Translate bool
}

// Sibling is another row that shares an alias with this one.
type Sibling struct {
	Alias   string   // means both rows
	ID      string   // of the other row
	Options []string // of the other row only: a request that sets one of them means it
}

// SiblingFor returns the id of the sibling where a request means it by name, since
// it sets one of its options. It returns an empty string where it means s.
func (s *Spec) SiblingFor(name string, isSet func(option string) bool) string {
	if name != s.Sibling.Alias {
		return ""
	}
	for _, o := range s.Sibling.Options {
		if isSet(o) || isSet(s.OptionPrefix+o) {
			return s.Sibling.ID
		}
	}
	return ""
}

// Option is a setting that a row takes besides the credential.
type Option struct {
	Name    string // as in {name} placeholders and config keys
	Default string // empty means it must be given where a placeholder needs it
	Header  string // request header that carries it, empty for placeholders
	Host    HostPart
	Doc     string

	// ClientHeaders are headers outside the gateway's family by which requests set it.
	ClientHeaders []string

	// Alias is another name for it in stored credentials.
	Alias string
	// Values are the words that stored credentials accept for it; nil accepts any.
	// Meanings has the row's word for those that the row has another word for.
	Values   []string
	Meanings map[string]string
}

// Meaning returns the row's word for one of the words of stored credentials.
func (o *Option) Meaning(word string) string {
	if m, ok := o.Meanings[word]; ok {
		return m
	}
	return word
}

// HostPart says what an option names that is part of the host of an address.
type HostPart uint8

// The parts. Whoever chooses an account chooses who gets the credential; a
// region is the provider's own, whichever it is.
const (
	HostNone    HostPart = iota // the option is in no host
	HostRegion                  // a region of the provider's own network
	HostAccount                 // somebody's account, resource or deployment at the provider
)

// Range bounds a numeric field, both ends included.
type Range struct{ Min, Max float64 }

// ModelRule is a quirk of the models whose name matches one of the prefixes.
type ModelRule struct {
	Prefixes []string
	Drop     []string
	Rename   map[string]string
}

// Path returns the path of op, and false when the provider does not offer it.
func (s *Spec) Path(op api.Operation) (string, bool) {
	p, ok := s.Paths[op]
	return p, ok
}

// Auth says where a provider wants the credential. The zero value sends none.
type Auth struct {
	Header string // header name in canonical form
	Scheme string // word before the credential, such as Bearer
	Query  string // query parameter, for providers that take it there

	// Sign moves a credential whose kind decides where it goes. It does no I/O.
	// Nil for most.
	Sign func(ctx context.Context, t *Target, req *http.Request) error

	// Method names a way of authentication that needs a clock or I/O. NewRequest
	// leaves it to package auth, which is shown the request once it is built.
	// Empty for most.
	Method Method
	// Service is what a signature is for, in the words of the cloud.
	Service string
	// KeyAlternatives are the options of which each stands for a key.
	KeyAlternatives []string
}

// Method names a way of authentication that package auth knows.
type Method string

// The ways of authentication that need a clock or I/O. A ready-made credential
// is taken by each of them as it is.
const (
	MethodAWS   Method = "aws"   // requests signed with SigV4
	MethodGCP   Method = "gcp"   // access tokens of Google Cloud
	MethodEntra Method = "entra" // access tokens of Microsoft Entra
	MethodOCI   Method = "oci"   // requests signed as Oracle Cloud wants it
)

// NeedsKey reports whether a call can't do without a key, given these options.
func (s *Spec) NeedsKey(options map[string]string) bool {
	for _, name := range s.Auth.KeyAlternatives {
		if s.option(options, name) != "" {
			return false
		}
	}
	return s.Auth.Header != "" || s.Auth.Query != "" || s.Auth.Method != ""
}

// UpstreamModelName returns the provider's own spelling of model.
func (s *Spec) UpstreamModelName(model string) string {
	if s.UpstreamModel == nil {
		return model
	}
	return s.UpstreamModel(model)
}

// Bearer is the authentication of most providers.
func Bearer() Auth { return Auth{Header: "Authorization", Scheme: "Bearer"} }

// Header returns the authentication that sends the bare credential in a header.
func Header(name string) Auth { return Auth{Header: http.CanonicalHeaderKey(name)} }

// Query returns the authentication that sends the credential in the query.
func Query(name string) Auth { return Auth{Query: name} }

// Rule returns the quirks of model, the zero rule where it has none.
func (s *Spec) Rule(model string) ModelRule {
	for _, r := range s.Models {
		for _, p := range r.Prefixes {
			if strings.HasPrefix(model, p) {
				return r
			}
		}
	}
	return ModelRule{}
}
