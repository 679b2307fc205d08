package manifest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/settings"
	"modelgate/internal/upstream"
)

// Routes are the routes that export the state of an organisation and apply one. They leave out
// who may use the gateway; see [settings.ParseSent].
type Routes struct {
	// Box is the master key. Nil refuses states with credentials.
	Box *secret.Box
}

// waitTime is after how long a client may try again while another state is read or applied.
const waitTime = 2 * time.Second

// family serves the routes.
type family struct {
	api *route.API
	box *secret.Box
	// turn is held while a request reads a whole organisation, because that takes much memory.
	turn chan struct{}
}

// Add adds the routes.
func (r Routes) Add(a *route.API) {
	f := &family{a, r.Box, make(chan struct{}, 1)}
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
	if out.State, err = state.SentState(); err != nil {
		return nil, err
	}
	for _, name := range names { // without those of sections that are left out
		if strings.Contains(string(out.State), `"${`+name+`}"`) {
			out.Variables = append(out.Variables, name)
		}
	}
	return out, nil
}

type applyInput struct {
	Body struct {
		State     json.RawMessage          `json:"state" doc:"Object with sections as in the file of modelgate apply. Those that say who may use the gateway are refused: members, keys, deployments, identity_providers, domains, directory_mappings, workload_identities"`
		Variables map[string]secret.String `json:"variables,omitempty" maxProperties:"1000" doc:"Credentials, by the name that state has for each in the form ${NAME}"`
		Prune     bool                     `json:"prune,omitempty" doc:"Removes objects that are not in state, from the sections that are"`
		DryRun    bool                     `json:"dry_run,omitempty" doc:"Returns the changes without making them"`
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

// operations are the names of [Change.Op].
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
	variables := make(map[string]string, len(b.Variables))
	for name, value := range b.Variables {
		variables[name] = value.Reveal()
	}
	file, err := settings.ParseSent(b.State, variables)
	if err != nil {
		return nil, problem(err)
	}
	if err := f.api.Off.CheckState(b.State); err != nil { // after parsing, which limits the depth
		return nil, err
	}
	lookup := func(name string) (string, bool) {
		v, ok := variables[name]
		return v, ok
	}
	changes, err := f.manifest(c).Apply(ctx, file, Apply{Prune: b.Prune, DryRun: b.DryRun,
		Opener: settings.SecretResolver{Env: lookup}, Request: &Request{f.api, c}})
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
	select {
	case f.turn <- struct{}{}:
		return func() { <-f.turn }, nil
	default:
		e := apierr.New(apierr.RateLimited, "another state is being read or applied at this node; try again in %s", waitTime)
		e.RetryAfter = waitTime
		return nil, e
	}
}

// checkCaller returns an error unless the caller administers the organisation: an owner or
// admin of it who signed in, or a key with every scope that an organisation key can have.
func checkCaller(ctx context.Context, c *route.Caller) error {
	if c.IsPerson() {
		m, err := c.DB().Membership(ctx, c.Organisation, c.UserID)
		if err == nil && (c.Type != access.Session || m.Role != "owner" && m.Role != "admin") {
			err = apierr.New(apierr.Forbidden, "a state is for owners and admins of the organisation").WithCode("AB03")
		}
		return err
	}
	for _, scope := range access.Scopes(access.OrganisationService) {
		if !c.Allows(scope) {
			return apierr.New(apierr.Forbidden, "a state requires every scope that an organisation key can have; this key lacks %q", string(scope)).WithCode("AB03")
		}
	}
	return nil
}

func (f *family) manifest(c *route.Caller) *Manifest {
	check := f.api.CheckHost
	if check == nil {
		check = upstream.New(upstream.Options{}).CheckHost
	}
	return &Manifest{DB: f.api.DB, Organisation: c.Organisation, Box: f.box, CheckHost: func(raw string) (*url.URL, error) { return check(raw) },
		Guardrails: f.api.Guardrails}
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
		return route.Invalid(where, "%s", e.Problem)
	}
	if errors.Is(err, errMoved) {
		return apierr.New(apierr.Conflict, "%s; send the request again", err.Error())
	}
	return err
}
