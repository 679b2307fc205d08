package manifest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/secrets/datakey"
	"modelgate/internal/secrets/secretref"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

// Apply configures how a file is applied. The zero value adds and changes objects and
// removes none.
type Apply struct {
	// Prune removes objects that are not in the file, from the sections that are.
	Prune bool
	// DryRun makes the changes in a transaction that is rolled back.
	DryRun bool
	// Opener opens the credentials of the file.
	Opener settings.SecretResolver
	// Request is the request that sent the file. Nil is a command of the database's operator.
	Request *Request
}

// Request is a request that sent a file. The changes are made by its caller, with the
// dependencies of the API.
type Request struct {
	API    *route.API
	Caller *route.Caller
	// References check which secrets of the host a file may refer to.
	References *secretref.Resolver
}

// tries is how often a file is applied again after a concurrent change.
const tries = 5

// most is the time limit of one change. Other changes wait for it.
const most = 5 * time.Minute

var errMoved = errors.New("the database was changed concurrently")

// Apply changes the organisation to match file and returns the changes in order. They
// are made in one transaction with one audit event, and none if there is nothing to
// change. An error in the file is a *settings.FileError.
func (m *Manifest) Apply(ctx context.Context, file *settings.Settings, a Apply) ([]Change, error) {
	if err := m.resolve(file, a.Opener); err != nil {
		return nil, err
	}
	for range tries {
		p, err := m.plan(ctx, file, a)
		if err != nil || len(p.changes) == 0 {
			return p.changes, err
		}
		if err = p.execute(ctx, a); !errors.Is(err, errMoved) {
			if a.Request == nil {
				err = clientMessage(err)
			}
			return p.changes, err
		}
	}
	return nil, fmt.Errorf("%w %d times; nothing was applied", errMoved, tries)
}

// clientMessage returns the client's message of err as an error, if it has one.
func clientMessage(err error) error {
	if e, ok := errors.AsType[*apierr.Error](err); ok {
		return fmt.Errorf("nothing was applied: %s", e.Message)
	}
	return err
}

// resolve opens the file's credentials and replaces them by sealed ones, which can be
// compared with stored credentials.
func (m *Manifest) resolve(file *settings.Settings, o settings.SecretResolver) error {
	err := file.ReplaceSecrets(func(place, ref string) (string, error) {
		v, err := o.Open(ref)
		if err == nil && m.Box == nil {
			err = errNoBox
		}
		if err != nil {
			return "", err
		}
		return m.Box.SealDeterministic(place, v), nil
	})
	if err != nil {
		return err
	}
	return m.resolveConfigs(file)
}

var errNoBox = errors.New("credentials are stored sealed, which requires the master key; set MODELGATE_MASTER_KEY or --master-key-file")

// sealer seals with the organisation's data key.
type sealer struct {
	*datakey.Keyring
	// instead seals in its place, in a dry run that must not create the organisation's first
	// data key. Nil is not used.
	instead *secret.Box
}

// Seal implements route.Sealer.
func (s sealer) Seal(ctx context.Context, organisation string, v secret.String) (string, error) {
	if s.instead != nil {
		return s.instead.Seal(v), nil
	}
	return s.Keyring.Seal(ctx, organisation, v)
}

// Open implements route.Sealer.
func (s sealer) Open(ctx context.Context, organisation, sealed string) (secret.String, error) {
	if s.instead != nil {
		return s.instead.Open(sealed)
	}
	return s.Keyring.Open(ctx, organisation, sealed)
}

func (m *Manifest) plan(ctx context.Context, file *settings.Settings, a Apply) (*plan, error) {
	state, err := m.read(ctx)
	if err != nil {
		return &plan{}, err
	}
	ring := datakey.New(m.DB, m.Box)
	r := reader{how: None, box: m.Box, ring: ring, render: func(string, secret.String) string { return "" }}
	if m.Box != nil {
		r.how, r.render = Sealed, r.sealed
	}
	have, err := r.settings(state)
	if err != nil {
		return &plan{}, err
	}
	p := &plan{
		Manifest: m, ctx: ctx, file: file, state: state, have: have, prune: a.Prune, request: a.Request,
		now: time.Now().UTC().Truncate(time.Millisecond),
	}
	seals := sealer{Keyring: ring}
	if a.DryRun && state.organisation.DataKey == "" {
		seals.instead = m.Box
	}
	p.sealer = seals
	d := route.Deps{DB: m.DB, Guardrails: m.Guardrails}
	if a.Request != nil {
		d = a.Request.API.Deps
	}
	d.CheckHost, d.Secrets, d.Now = m.CheckHost, p.sealer, func() time.Time { return p.now }
	p.api, p.keeper = route.New(d), credentials.New(d)
	return p, p.make()
}

// execute makes all changes or none, in one transaction.
func (p *plan) execute(ctx context.Context, a Apply) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	do := func(tx *store.Tx) error {
		by := p.api.Operator(tx, p.state.organisation.ID)
		if a.Request != nil {
			by = p.api.Delegate(tx, a.Request.Caller)
		}
		return p.change(ctx, tx, by)
	}
	switch {
	case a.DryRun:
		return p.DB.TryChange(ctx, p.audit(), do)
	case a.Request != nil:
		return a.Request.Caller.Change(ctx, do)
	}
	return p.DB.UpdateLong(ctx, p.audit(), do)
}

// change makes all changes in tx.
func (p *plan) change(ctx context.Context, tx *store.Tx, by *route.Caller) error {
	revision, err := tx.Revision(ctx)
	if err != nil {
		return err
	}
	if revision != p.state.revision+1 { // this transaction itself adds one revision
		return errMoved
	}
	for _, c := range p.changes {
		if err := c.do(ctx, by); err != nil {
			return c.fault(err)
		}
		if p.request != nil {
			if err := tx.Note(ctx, p.request.Caller.ObjectEvent(c.Kind, c.Name, actions[c.Op], c.Fields)); err != nil {
				return err
			}
		}
	}
	return route.CheckGuardDefaults(ctx, tx.Queries, p.Guardrails, p.state.organisation.ID)
}

// actions are the actions in the audit log, by [Change.Op].
var actions = map[string]string{"+": "create", "~": "update", "-": "delete"}

// noted is the number of changes that the event of a command names.
const noted = 1000

func (p *plan) audit() *store.Audit {
	var list []string
	for _, c := range p.changes[:min(len(p.changes), noted)] {
		list = append(list, c.String())
	}
	a := store.OperatorAudit(p.state.organisation.ID, "apply", map[string]any{"changes": list, "total": len(p.changes)})
	a.Method, a.ResourceType, a.ResourceID, a.Action = "APPLY", "manifest", p.state.organisation.ID, "update"
	return a
}

// Change is a difference between a file and the stored state.
type Change struct {
	Op     string   // + for added, ~ for changed, - for removed
	Kind   string   // such as config
	Name   string   // slug, prefixed by the workspace's slug and a slash; or an e-mail address
	Fields []string // names of the changed fields

	do step
}

// String returns the change in one line, without values.
func (c Change) String() string {
	line := c.Op + " " + c.Kind + " " + c.Name
	if len(c.Fields) > 0 {
		line += fmt.Sprintf(" %v", c.Fields)
	}
	return line
}

// fault returns an error of making the change with the change's name, unless it has a place in
// the file.
func (c Change) fault(err error) error {
	if _, ok := errors.AsType[*settings.FileError](err); ok {
		return err
	}
	if e, ok := errors.AsType[*apierr.Error](err); ok {
		named := *e
		named.Message = fmt.Sprintf("%s %s: %s", c.Kind, c.Name, e.Message)
		return &named
	}
	return fmt.Errorf("%s %s: %w", c.Kind, c.Name, err)
}

// references are the objects that entries of a file may refer to, by slug or address.
type references struct {
	workspaces, people, guardrails, references, integrations map[string]string // ids
	// configs are the numbers of current versions by workspace and slug; zero for new ones.
	configs             map[[2]string]int64
	labels, collections map[string]string // ids, by workspace and name
	parents             map[string]string // collections of the file: parent by workspace and slug
	former              map[string]bool   // hashes of keys before their last rotation
	partials            map[string]bool   // partials of the file, by workspace and slug
}

// plan is the list of changes to make.
type plan struct {
	*Manifest
	ctx      context.Context
	file     *settings.Settings
	state    *state
	have     *settings.Settings
	prune    bool
	request  *Request // nil for a command
	now      time.Time
	sealer   route.Sealer
	api      *route.API // whose handlers make the changes
	keeper   *credentials.Manager
	names    references
	wanted   *settings.Settings // the file, with the integrations and providers it implies
	paths    []string           // paths in the file of wanted's integrations
	granter  *granter
	changes  []Change
	removals []Change
}

func (p *plan) make() error {
	if err := p.normalise(); err != nil {
		return err
	}
	p.register()
	p.have.PromptCollections = parentsFirst(p.have.PromptCollections)
	for _, part := range []func(*plan) error{
		(*plan).organisation, (*plan).planWorkspaces, memberKind.plan, guardrailKind.plan, referenceKind.plan,
		partnerKind.plan, integrationKind.plan, (*plan).planProviders,
		labelKind.plan, collectionKind.plan, partialKind.plan, promptKind.plan, configKind.plan,
		deploymentKind.plan, keyKind.plan, policyKind.plan, identityKind.plan, domainKind.plan, mappingKind.plan,
		workloadKind.plan, toolIntegrationKind.plan, toolServerKind.plan, toolBundleKind.plan,
		agentIntegrationKind.plan, agentServerKind.plan,
	} {
		if err := part(p); err != nil {
			return err
		}
	}
	slices.Reverse(p.removals) // remove references before what they refer to
	p.changes = append(p.changes, p.removals...)
	return nil
}

func newID() string { return reqlog.NewID(time.Now()).String() }
