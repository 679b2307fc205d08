package manifest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/secrets/secretref"
	"modelgate/internal/settings"
	"modelgate/internal/upstream"
)

// Routes are the routes that export the state of an organisation and apply one. They leave out
// who may use the gateway; see [settings.ParseSent].
type Routes struct {
	// Box is the master key. Nil refuses states with credentials.
	Box *secret.Box
	// References are the secrets of the host that a state may refer to. Nil are none.
	References *secretref.Resolver
}

// Times of a request: how long it waits while another state is read or applied, and how long
// applying its own may take. Requests of the control plane end after 20 seconds.
const (
	waitTime = 5 * time.Second
	sentTime = 14 * time.Second
)

// family serves the routes.
type family struct {
	Routes
	api *route.API
	// turn is held while a request reads a whole organisation, because that takes much memory.
	turn chan struct{}
}

// Add adds the routes.
func (r Routes) Add(a *route.API) {
	f := &family{r, a, make(chan struct{}, 1)}
	declared := route.Family{Path: "/admin/state", Tag: "Organisation", Scopes: []string{"organisation_settings"}, Resource: "manifest"}
	route.Add(a, declared.Route(http.MethodGet, "", "export-state", "read",
		"Export the state of the organisation, except who may use it"), f.export)
	apply := declared.Route(http.MethodPost, "", "apply-state", "update", "Apply a state to the organisation in one change")
	apply.Private = true // credentials
	route.Add(a, apply, f.apply)
}

type exportInput struct {
	Secrets string `query:"secrets" enum:"references,none" default:"references" doc:"references names an environment variable in place of each credential; none leaves credentials out"`
}

// exported is a state in a response.
type exported struct {
	State     json.RawMessage `json:"state" doc:"Sections as in the file of modelgate apply, to apply with POST /admin/state"`
	Variables []string        `json:"variables" doc:"Names that state has in place of credentials"`
	Object    string          `json:"object"`
}

func (f *family) export(ctx context.Context, c *route.Caller, in *exportInput) (*exported, error) {
	done, err := f.begin(ctx, c)
	if err != nil {
		return nil, err
	}
	defer done()
	state, names, err := f.manifest(c).Export(ctx, Secrets(in.Secrets))
	if errors.Is(err, errSealed) {
		err = apierr.New(apierr.Unavailable, "this gateway has no master key to read the stored credentials; set MODELGATE_MASTER_KEY, or send secrets=none").WithCause(err)
	}
	if err != nil {
		return nil, err
	}
	out := &exported{Variables: []string{}, Object: "state"}
	if out.State, err = state.SentState(func(section string) bool { return f.api.Off.CheckSection(section) != nil }); err != nil {
		return nil, err
	}
	named := make(map[string]bool, len(names))
	for _, m := range variableForm.FindAllSubmatch(out.State, -1) {
		named[string(m[1])] = true
	}
	for _, name := range names { // without those of sections that are left out
		if named[name] {
			out.Variables = append(out.Variables, name)
		}
	}
	return out, nil
}

// variableForm finds the credentials in an exported state.
var variableForm = regexp.MustCompile(`"\$\{([A-Z0-9_]+)\}"`)

type applyInput struct {
	Body struct {
		State     json.RawMessage   `json:"state" doc:"Object with sections as in the file of modelgate apply. Those that say who may use the gateway are refused: members, keys, deployments, identity_providers, domains, directory_mappings, workload_identities"`
		Variables map[string]string `json:"variables,omitempty" maxProperties:"1000" doc:"Credentials, by the name that state has for each in the form ${NAME}"`
		Prune     bool              `json:"prune,omitempty" doc:"Removes objects that are not in state, from the sections that are"`
		DryRun    bool              `json:"dry_run,omitempty" doc:"Returns the changes without making them"`
	}
}

// applied are the changes in a response.
type applied struct {
	Changes []appliedChange `json:"changes"`
	DryRun  bool            `json:"dry_run"`
	Object  string          `json:"object"`
}

type appliedChange struct {
	Operation string   `json:"operation" enum:"add,change,remove"`
	Kind      string   `json:"kind" doc:"Such as config"`
	Name      string   `json:"name" doc:"Slug, after the slug of the workspace and a slash if it has one"`
	Fields    []string `json:"fields" doc:"Names of the fields that change"`
}

// operations are the names of [Change.Op] in a response.
var operations = map[string]string{"+": "add", "~": "change", "-": "remove"}

func (f *family) apply(ctx context.Context, c *route.Caller, in *applyInput) (*applied, error) {
	done, err := f.begin(ctx, c)
	if err != nil {
		return nil, err
	}
	defer done()
	b := &in.Body
	c.SetAuditSubject("", c.Organisation)
	c.SetAuditAction("update", c.Organisation)
	if b.DryRun {
		c.AddAuditDetail("dry_run", "true")
	}
	file, err := settings.ParseSent(b.State, b.Variables)
	if err != nil {
		return nil, problem(err)
	}
	if err := f.api.Off.CheckState(b.State); err != nil { // after parsing, which limits the depth
		return nil, err
	}
	lookup := func(name string) (string, bool) {
		v, ok := b.Variables[name]
		return v, ok
	}
	ctx, cancel := context.WithTimeout(ctx, sentTime)
	defer cancel()
	changes, err := f.manifest(c).Apply(ctx, file, Apply{Prune: b.Prune, DryRun: b.DryRun,
		Opener: settings.SecretResolver{Env: lookup}, Request: &Request{f.api, c, f.References}})
	if err != nil && ctx.Err() != nil {
		return nil, apierr.New(apierr.TooLarge, "applying the state took more than %s, so nothing was changed; send fewer objects at a time", sentTime).WithCause(err)
	}
	if err != nil {
		return nil, problem(err)
	}
	out := &applied{Changes: make([]appliedChange, len(changes)), DryRun: b.DryRun, Object: "state_changes"}
	for i, change := range changes {
		out.Changes[i] = appliedChange{operations[change.Op], change.Kind, change.Name, append([]string{}, change.Fields...)}
	}
	return out, nil
}

// begin checks that the caller may read and change everything that a state has, and waits for
// its turn. The caller calls done.
func (f *family) begin(ctx context.Context, c *route.Caller) (done func(), err error) {
	if err := checkCaller(ctx, c); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	select {
	case f.turn <- struct{}{}:
		return func() { <-f.turn }, nil
	case <-ctx.Done():
		e := apierr.New(apierr.RateLimited, "another state is being read or applied at this node; try again in %s", waitTime)
		e.RetryAfter = waitTime
		return nil, e
	}
}

// checkCaller returns an error unless the caller administers the organisation: an owner or
// admin of it who signed in, or a key of it with every scope that such a key can have.
func checkCaller(ctx context.Context, c *route.Caller) error {
	rank, err := c.Rank(ctx, c.DB(), "")
	switch {
	case err != nil:
		return err
	case rank < access.RankOrganisation || c.IsPerson() && c.Type != access.Session:
		return apierr.New(apierr.Forbidden, "a state is for owners and admins of the organisation, and for its keys").WithCode("AB03")
	case c.ConfigFixed:
		return apierr.New(apierr.Forbidden, "the config of this key is fixed, so it cannot read or change a state; use another key or a session").WithCode("AB03")
	}
	missing := slices.DeleteFunc(access.Scopes(access.OrganisationService), c.Allows)
	if len(missing) == 0 {
		return nil
	}
	return apierr.New(apierr.Forbidden, "a state requires every scope that an organisation key can have; this key lacks %d, such as %q",
		len(missing), string(missing[0])).WithCode("AB03")
}

func (f *family) manifest(c *route.Caller) *Manifest {
	check := f.api.CheckHost
	if check == nil {
		check = upstream.New(upstream.Options{}).CheckHost
	}
	return &Manifest{DB: f.api.DB, Organisation: c.Organisation, Box: f.Box, CheckHost: check, Guardrails: f.api.Guardrails}
}

// problem returns an error in a state as one of the request. Its parameter is the path in the
// state.
func problem(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok && len(joined.Unwrap()) > 0 {
		err = joined.Unwrap()[0]
	}
	if e, ok := errors.AsType[*settings.FileError](err); ok {
		where := "state"
		if e.Path != "" {
			where += "." + e.Path
		}
		out := apierr.New(apierr.Invalid, "%s: %s", where, e.Problem)
		if cause, ok := errors.AsType[*apierr.Error](e.Cause); ok && cause.Kind != apierr.NotFound { // the route exists
			out.Kind, out.Code = cause.Kind, cause.Code
		}
		return out.WithParam(where)
	}
	if errors.Is(err, errMoved) {
		return apierr.New(apierr.Conflict, "%s; send the request again", err.Error())
	}
	return err
}
