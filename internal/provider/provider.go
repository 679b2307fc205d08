// Package provider defines model providers and builds requests for them.
//
// A [Spec] is the definition of a provider in the provider table: an address,
// an authentication, paths by operation and quirks. A [Target] is a provider
// with credentials. A [Call] is one operation at a target. [NewRequest] turns
// them into an HTTP request. It is pure: no I/O beyond the body it is given, no
// clock, no log. The definitions themselves are in provider/table; sending,
// timeouts and retries are the job of upstream and pipeline.
package provider

import (
	"context"
	"net/http"
	"net/url"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/modeldata"
)

// Spec is the definition of a provider, one row of the provider table. It does
// not change after start.
type Spec struct {
	ID      string   // as clients write it
	Name    string   // display name
	Aliases []string // further ids of this provider
	Sibling Sibling  // another provider that shares one of the aliases

	// BaseURL is the provider's address with the path prefix of its operations,
	// without a trailing slash. It may contain {option} placeholders. Empty
	// means that a custom host is required.
	BaseURL string

	// Dialect is the dialect of the provider's conversations. If that depends
	// on the model, Dialects returns the model's dialects, the preferred one
	// first; each must have a path. A nil Dialects means Dialect and any other
	// dialect with a path for conversations.
	Dialect  api.Dialect
	Dialects func(model string) []api.Dialect

	Auth Auth

	// Env is the usual environment variable for the key.
	Env string

	// Paths holds the path of each operation, relative to BaseURL. A path may
	// contain {option} and {model} placeholders, or be an absolute URL if the
	// host differs. An operation without a path is not offered.
	Paths map[api.Operation]string

	// Services are further addresses by the name of a service, with the same credential;
	// see [Target.At].
	Services map[string]Service

	// Surplus are further paths that a custom host may end in by mistake; see
	// [Spec.WithoutSurplus].
	Surplus []string

	// PathOf returns the path of an operation in Paths if it depends on the
	// model, which is spelled as by the client; empty means the path in Paths.
	PathOf func(op api.Operation, model string) string

	// Header is sent with each request unless the client sends the same
	// headers.
	Header map[string]string

	// Vendors are the vendors whose own headers the provider accepts in
	// addition to those of its dialect, for example Anthropic-Beta for a cloud
	// that serves Anthropic's models.
	Vendors []Vendor
	// Betas are the beta flags that the host accepts.
	Betas Betas

	// UpstreamModel returns the provider's own name of a model, for addresses
	// and bodies. Nil means the client's name.
	UpstreamModel func(model string) string
	// PathModels is true if pass-through paths contain the model although Paths
	// has no {model} placeholder.
	PathModels bool
	// BodyRules are the changes that bodies of single operations need.
	BodyRules map[api.Operation]BodyRule

	// Options are the placeholders in BaseURL and Paths, and further settings.
	Options []Option
	// OptionPrefix is the prefix of the provider's options in config objects
	// and headers, for example cloud_a_ before region.
	OptionPrefix string
	// Deployments is true if stored credentials may list deployments with the
	// model of each.
	Deployments bool
	// ReservedCapacity is true if stored credentials may be for reserved
	// capacity, whose requests cost nothing.
	ReservedCapacity bool

	// Drop lists request fields that the provider rejects.
	Drop []string
	// Rename maps request fields to the provider's names for them.
	Rename map[string]string
	// Limits holds ranges of numeric request fields. Values outside are clamped
	// and reported.
	Limits map[string]Range
	// Models holds what is known of the provider's models, with the fields that
	// they reject or that have another name.
	Models modeldata.Table
	// RuleOf returns what is known of a model if names are read in another way
	// than those of Models, or have several tables. It is optional.
	RuleOf func(model string) *modeldata.Model

	// Profile holds the deviations that apply to translated requests, by
	// dialect.
	Profile dialect.Profile

	// UsageUnasked is true for providers of the chat dialect that report usage
	// in every stream. Others report it if the request has
	// stream_options.include_usage, which the gateway adds unless Drop lists
	// it.
	UsageUnasked bool

	// Complete completes what a target is built from if the address depends on
	// options, or if the operations depend on a custom host. It may change
	// everything in both: the spec is a copy whose maps are shared, so it replaces
	// them. It is optional.
	Complete func(spec *Spec, s *Settings) error
	// RegionOf returns the region that the name of a model contains, empty if none.
	// It replaces the default of the option region; see [Target.InRegionOf]. It is
	// optional.
	RegionOf func(model string) string
	// URL changes the address of a call where a path is not enough, for example
	// to add a version to the query. It is optional.
	URL func(t *Target, c *Call, u *url.URL) error

	// Tiers maps names of service tiers that only some providers report.
	Tiers map[string]catalog.Tier
	// TierHeader is the response header with the service tier, if the body does
	// not report it.
	TierHeader string

	// TelemetryName is the provider's name in OpenTelemetry's conventions.
	// Empty means the id.
	// https://opentelemetry.io/docs/specs/semconv/registry/attributes/gen-ai/
	TelemetryName string

	// ErrorStatus returns the status, 400 or higher, of an error whose body has
	// another status than the response. It is optional.
	ErrorStatus func(status int, body []byte) int

	// Docs is the address of the provider's API reference.
	Docs string
	// Notes are remarks for docs/providers.md.
	Notes []string
}

// BodyRule describes how the body of an operation differs, because part of it
// is in the address or a header, or because the host requires more.
type BodyRule struct {
	Drop []string          // top-level fields to remove
	Set  map[string]string // top-level fields, as JSON, to add if absent
	// Betas is the field for the beta flags, a list of strings that replaces
	// their header. Empty keeps the header.
	Betas string
	// Refuse are top-level fields that the host does not have and that cannot
	// be removed, with the error code that clients expect.
	Refuse map[string]string
	// Translate is true if the host's body format differs from what clients of
	// the dialect send, so that the dialect writes the body and bytes are not
	// forwarded.
	Translate bool
}

// Sibling is another provider that shares an alias with this one.
type Sibling struct {
	Alias   string   // refers to both providers
	ID      string   // of the other provider
	Options []string // of the other provider only: a request that sets one refers to it
}

// SiblingFor returns the id of the sibling if name is the shared alias and the
// request sets one of the sibling's options. Otherwise it returns an empty
// string, and the request means s.
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

// Option is a setting of a provider other than the credential.
type Option struct {
	Name    string // as in {name} placeholders and config keys
	Default string // empty means it is required where a placeholder needs it
	Header  string // request header that carries it, empty for placeholders
	Host    HostPart
	Doc     string

	// ClientHeaders are request headers other than the gateway's that set the
	// option.
	ClientHeaders []string

	// Alias is its other name in stored credentials.
	Alias string
	// Values are the values that stored credentials may have; nil allows any.
	// Meanings maps those whose value in the provider definition differs.
	Values   []string
	Meanings map[string]string
}

// Meaning returns the value for a value of stored credentials.
func (o *Option) Meaning(word string) string {
	if m, ok := o.Meanings[word]; ok {
		return m
	}
	return word
}

// HostPart says which part of a host an option sets.
type HostPart uint8

// Parts of a host. The choice of an account decides who receives the
// credential; every region belongs to the provider.
const (
	HostNone    HostPart = iota // the option is not part of a host
	HostRegion                  // a region of the provider's own network
	HostAccount                 // a customer's account, resource or deployment at the provider
)

// Range is the range of a numeric field, including both ends.
type Range struct{ Min, Max float64 }

// Path returns the path of op, and false if the provider does not offer it.
func (s *Spec) Path(op api.Operation) (string, bool) {
	p, ok := s.Paths[op]
	return p, ok
}

// Auth says where a provider expects the credential. The zero value sends none.
type Auth struct {
	Header string // header name in canonical form
	Scheme string // prefix of the credential, such as Bearer
	Query  string // query parameter, for providers that expect it there

	// Sign moves a credential whose kind decides where it is sent. It does no
	// I/O. It is optional.
	Sign func(ctx context.Context, t *Target, req *http.Request) error

	// Method is a method of authentication that needs a clock or I/O.
	// NewRequest does not apply it; package auth does so afterwards. It is
	// optional.
	Method Method
	// Service is the cloud's name of the service that a signature is for.
	Service string
	// KeyAlternatives are the options that replace a key.
	KeyAlternatives []string
}

// Method is a method of authentication in package auth.
type Method string

// Methods of authentication that need a clock or I/O. All of them send a
// ready-made credential unchanged.
const (
	MethodAWS   Method = "aws"   // requests signed with SigV4
	MethodGCP   Method = "gcp"   // access tokens of Google Cloud
	MethodEntra Method = "entra" // access tokens of Microsoft Entra
	MethodOCI   Method = "oci"   // requests signed for Oracle Cloud
)

// NeedsKey reports whether a call with these options requires a key.
func (s *Spec) NeedsKey(options map[string]string) bool {
	for _, name := range s.Auth.KeyAlternatives {
		if s.option(options, name) != "" {
			return false
		}
	}
	return s.Auth.Header != "" || s.Auth.Query != "" || s.Auth.Method != ""
}

// UpstreamModelName returns the provider's own name of model.
func (s *Spec) UpstreamModelName(model string) string {
	if s.UpstreamModel == nil {
		return model
	}
	return s.UpstreamModel(model)
}

// Bearer returns the authentication with a bearer token, which most providers
// have.
func Bearer() Auth { return Auth{Header: "Authorization", Scheme: "Bearer"} }

// Header returns the authentication with the plain credential in a header.
func Header(name string) Auth { return Auth{Header: http.CanonicalHeaderKey(name)} }

// Query returns the authentication with the credential in the query.
func Query(name string) Auth { return Auth{Query: name} }

// Rule returns what is known of model.
func (s *Spec) Rule(model string) *modeldata.Model {
	if s.RuleOf != nil {
		return s.RuleOf(model)
	}
	return s.Models.Of(model)
}
