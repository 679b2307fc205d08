// Package vendortune speaks the fine-tuning APIs of vendors in one shape, that of OpenAI.
//
// A body is read by [Parse], checked against what a vendor offers by [Vendor.CheckInput],
// and sent by [Vendor.Create]. Every vendor has a table of its states, one of its
// hyper-parameters and the verbs that its API has; any other verb, training method or
// parameter is refused by its name, and never dropped. Jobs carry an id of the gateway
// where the vendor has a place for it, so that [Vendor.Find] recovers a job whose creation
// was not answered.
//
// The package keeps nothing and knows no HTTP server: requests go through a
// vendorcall.Caller. Values are safe for concurrent use.
package vendortune

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/vendorcall"
)

// Account is an account at a vendor.
type Account struct {
	Caller  vendorcall.Caller
	Options map[string]string // of the provider, such as region and project_id; nil for none
}

// Page is a part of a list.
type Page struct {
	After string // id of the last item of the page before; empty for the first page
	Limit int    // zero means 20
}

const defaultLimit = 20

// limit returns the number of items, at most of the vendor's largest page.
func (p Page) limit(most int) int { return min(cmp.Or(p.Limit, defaultLimit), most) }

// Jobs is a page of the jobs of an account, also of those that the gateway did not create.
type Jobs struct {
	Data []*Job
	Next string // Page.After of the next page in the vendor's own terms; empty at the end
}

// Vendor is the fine-tuning API of a vendor. A nil function is a verb that it lacks.
type Vendor struct {
	id         string           // of the provider, for messages
	states     map[string]State // by the vendor's words
	methods    []method         // of training
	suffix     int              // characters of the longest suffix
	trackers   bool             // integrations are sent as they are
	tracker    *tracker         // how one integration is sent; nil for none
	anyMembers bool             // members of the body that are unknown here are sent
	noSeed     bool

	create                func(ctx context.Context, s *session, in *Input) (*Job, error)
	get                   func(ctx context.Context, s *session, id string) (*Job, error)
	list                  func(ctx context.Context, s *session, p Page) (*Jobs, error)
	cancel, pause, resume func(ctx context.Context, s *session, id string) error
	events                func(ctx context.Context, s *session, id string, p Page) (*List[Event], error)
	checkpoints           func(ctx context.Context, s *session, id string, p Page) (*List[Checkpoint], error)
	find                  func(ctx context.Context, s *session, ownID string) (*Job, error)
	// marked reports whether the account's version of the API has a place for the id of the
	// gateway; nil means that it has if find is set.
	marked func(s *session) bool
}

// vendors are all APIs by the id of the provider.
var vendors = map[string]*Vendor{
	"azure-openai": azureVendor(),
	"bedrock":      bedrockVendor(),
	"cohere":       cohereVendor(),
	"fireworks-ai": fireworksVendor(),
	"mistral-ai":   mistralVendor(),
	"openai":       openaiVendor(),
	"together-ai":  togetherVendor(),
	"vertex-ai":    vertexVendor(),
}

// For returns the API of a provider by its id, or false if it has none.
func For(provider string) (*Vendor, bool) {
	v, ok := vendors[provider]
	if !ok {
		return nil, false
	}
	named := *v
	named.id = provider
	return &named, true
}

// Compatible returns the API of OpenAI as another provider offers it under the same path.
func Compatible(provider string) *Vendor {
	v := openaiVendor()
	v.id = provider
	return v
}

// Providers returns the ids of the providers that have an API, sorted.
func Providers() []string { return slices.Sorted(maps.Keys(vendors)) }

// Unsupported returns the error for a provider without an API for fine-tuning. It names
// the providers that have one.
func Unsupported(provider string) *apierr.Error {
	return apierr.New(apierr.Unsupported, "provider %q has no fine-tuning jobs; use one of %s", provider,
		strings.Join(Providers(), ", "))
}

// refuseVerb returns the error for a verb that the vendor lacks.
func (v *Vendor) refuseVerb(verb string) error {
	return apierr.New(apierr.Unsupported, "provider %q can't %s: its API has no such call", v.id, verb)
}

// Create creates a job. The error may leave open whether the vendor accepted the job, see
// vendorcall.MayHaveArrived: Find then tells.
func (v *Vendor) Create(ctx context.Context, a Account, in *Input) (*Job, error) {
	if err := v.CheckInput(in); err != nil {
		return nil, err
	}
	s := v.session(a)
	job, err := v.create(ctx, s, in)
	if err != nil {
		return nil, err
	}
	job.Fill(in)
	return job, nil
}

// Get returns a job by the vendor's id.
func (v *Vendor) Get(ctx context.Context, a Account, id string) (*Job, error) {
	if err := v.checkID(id); err != nil {
		return nil, err
	}
	return v.get(ctx, v.session(a), id)
}

// List returns a page of the account's jobs.
func (v *Vendor) List(ctx context.Context, a Account, p Page) (*Jobs, error) {
	return v.list(ctx, v.session(a), p)
}

// Cancel ends a job that has not ended, and returns it. A job that has ended is an invalid
// request.
func (v *Vendor) Cancel(ctx context.Context, a Account, id string) (*Job, error) {
	return v.change(ctx, a, id, verb{"cancel fine-tuning jobs", "cancelled", v.cancel})
}

// Pause stops the training until Resume. The job then reads as running, with the vendor's
// word in ProviderStatus.
func (v *Vendor) Pause(ctx context.Context, a Account, id string) (*Job, error) {
	return v.change(ctx, a, id, verb{"pause fine-tuning jobs", "paused", v.pause})
}

// Resume continues the training of a paused job.
func (v *Vendor) Resume(ctx context.Context, a Account, id string) (*Job, error) {
	return v.change(ctx, a, id, verb{"resume fine-tuning jobs", "resumed", v.resume})
}

// verb is a change of a job's state.
type verb struct {
	name, done string
	call       func(ctx context.Context, s *session, id string) error // nil if the vendor lacks it
}

// change asks for the job before and after the verb: not every vendor refuses to change a
// job that has ended, or returns the job that it changed.
func (v *Vendor) change(ctx context.Context, a Account, id string, to verb) (*Job, error) {
	if to.call == nil {
		return nil, v.refuseVerb(to.name)
	}
	job, err := v.Get(ctx, a, id)
	if err != nil {
		return nil, err
	}
	if job.Status.Ended() {
		return nil, apierr.New(apierr.Invalid, "the fine-tuning job has ended with the status %q: it can't be %s", job.Status, to.done).
			WithCode("job_has_ended")
	}
	s := v.session(a)
	if err := to.call(ctx, s, id); err != nil {
		return nil, err
	}
	after, err := v.get(ctx, s, id)
	switch {
	case err == nil:
		return after, nil
	case apierr.IsNotFound(err): // cancelling deletes the job
		job.Status = Cancelled
		job.normalise()
	}
	// The vendor has accepted the change, so a failed read is not an error: the next one
	// shows the state.
	return job, nil
}

// Events returns what happened to a job, the newest first.
func (v *Vendor) Events(ctx context.Context, a Account, id string, p Page) (*List[Event], error) {
	if v.events == nil {
		return nil, v.refuseVerb("list the events of fine-tuning jobs")
	}
	if err := v.checkID(id); err != nil {
		return nil, err
	}
	return v.events(ctx, v.session(a), id, p)
}

// Checkpoints returns the models that were saved during the training, the newest first.
func (v *Vendor) Checkpoints(ctx context.Context, a Account, id string, p Page) (*List[Checkpoint], error) {
	if v.checkpoints == nil {
		return nil, v.refuseVerb("list the checkpoints of fine-tuning jobs")
	}
	if err := v.checkID(id); err != nil {
		return nil, err
	}
	return v.checkpoints(ctx, v.session(a), id, p)
}

// Find returns the job that was created with an id of the gateway, or nil if the vendor has
// none. It is unsupported for vendors whose jobs have no place for such an id.
func (v *Vendor) Find(ctx context.Context, a Account, ownID string) (*Job, error) {
	s := v.session(a)
	if v.find == nil || ownID == "" || v.marked != nil && !v.marked(s) {
		return nil, v.refuseVerb("find a fine-tuning job by an id of the gateway")
	}
	return v.find(ctx, s, ownID)
}

// checkID refuses ids that would change the path of a request. They answer like any
// unknown id.
func (v *Vendor) checkID(id string) error {
	if id == "" || len(id) > 512 || slices.Contains(strings.Split(id, "/"), "..") || slices.Contains(strings.Split(id, "/"), ".") {
		return apierr.New(apierr.NotFound, "there is no fine-tuning job with this id")
	}
	return nil
}

// session is what one call of a vendor needs.
type session struct {
	*Vendor
	client  vendorcall.Client
	options map[string]string
}

func (v *Vendor) session(a Account) *session {
	return &session{v, vendorcall.Client{Caller: a.Caller, Provider: v.id}, a.Options}
}

// option returns an option of the provider that its addresses need.
func (s *session) option(name string) (string, error) {
	value := s.options[name]
	if value == "" {
		return "", apierr.New(apierr.Invalid, "provider %q needs the option %q for fine-tuning", s.id, name).WithParam(name)
	}
	return url.PathEscape(value), nil
}

func (s *session) state(word string) (_ State, unknown bool) {
	if state, ok := s.states[word]; ok {
		return state, false
	}
	return Running, true
}
