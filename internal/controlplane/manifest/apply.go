package manifest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"modelgate/internal/apierr"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/datakey"
	"modelgate/internal/reqlog"
	"modelgate/internal/secret"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

// Apply is how a file is applied. The zero value adds and changes, and removes
// nothing.
type Apply struct {
	// Prune removes what the file does not have, of the sections that it has.
	Prune bool
	// DryRun makes every change in a transaction that is rolled back.
	DryRun bool
	// Opener opens the credentials of the file.
	Opener settings.SecretResolver
}

// tries is how often a file is applied again when something else was changed
// in the meantime.
const tries = 5

// most is how long one change may take. Others wait in the meantime.
const most = 5 * time.Minute

var errMoved = errors.New("the database was changed meanwhile")

// Apply brings the organisation to what file says and returns what it changed,
// in order. It is one change with one row of the audit log; where there is
// nothing to change there is none. What is wrong with the file is a
// *settings.FileError.
func (m *Manifest) Apply(ctx context.Context, file *settings.Settings, a Apply) ([]Change, error) {
	if err := m.resolve(file, a.Opener); err != nil {
		return nil, err
	}
	for range tries {
		p, err := m.plan(ctx, file, a)
		if err != nil || len(p.changes) == 0 {
			return p.changes, err
		}
		change := m.DB.UpdateLong
		if a.DryRun {
			change = m.DB.TryChange
		}
		if err = p.execute(ctx, change); !errors.Is(err, errMoved) {
			return p.changes, clientMessage(err)
		}
	}
	return nil, fmt.Errorf("%w, %d times; nothing was applied", errMoved, tries)
}

// clientMessage returns the message of an error that has one for clients.
func clientMessage(err error) error {
	if e, ok := errors.AsType[*apierr.Error](err); ok {
		return fmt.Errorf("nothing was applied: %s", e.Message)
	}
	return err
}

// resolve opens the file's credentials and puts them sealed in their place, so
// that they can be compared with those that are stored.
func (m *Manifest) resolve(file *settings.Settings, o settings.SecretResolver) error {
	err := file.Secrets(func(place, ref string) (string, error) {
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

var errNoBox = errors.New("a credential is stored sealed, which needs the master key; set MODELGATE_MASTER_KEY or --master-key-file")

// sealer seals with the data key of the organisation.
type sealer struct {
	*datakey.Keyring
	pretend bool // for a dry run: the first data key of the organisation is not made
}

// Seal implements route.Sealer.
func (s sealer) Seal(ctx context.Context, organisation string, v secret.String) (string, error) {
	if s.pretend {
		return "", nil
	}
	return s.Keyring.Seal(ctx, organisation, v)
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
		Manifest: m, ctx: ctx, file: file, state: state, have: have, prune: a.Prune, now: time.Now().UTC().Truncate(time.Millisecond),
		sealer: sealer{ring, a.DryRun && m.Box != nil && state.organisation.DataKey == ""},
	}
	p.keeper = credentials.New(route.Deps{Secrets: p.sealer, CheckHost: m.CheckHost})
	return p, p.make()
}

// execute makes all changes, or none, in a transaction of change.
func (p *plan) execute(ctx context.Context, change func(context.Context, *store.Audit, func(*store.Tx) error) error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return change(ctx, p.audit(), func(tx *store.Tx) error {
		revision, err := tx.Revision(ctx)
		if err != nil {
			return err
		}
		if revision != p.state.revision+1 { // this change made one itself
			return errMoved
		}
		for _, c := range p.changes {
			if err := c.do(ctx, tx); err != nil {
				return fmt.Errorf("%s %s: %w", c.Kind, c.Name, err)
			}
		}
		return nil
	})
}

// noted is how many changes the audit log names.
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

// Change is one difference between a file and what is stored.
type Change struct {
	Op     string   // + for what is new, ~ for what is another, - for what goes
	Kind   string   // as in config
	Name   string   // a slug, behind that of the workspace and a slash; or an address
	Fields []string // that differ, of what is another

	do func(context.Context, *store.Tx) error
}

// String returns the change in one line, without any value.
func (c Change) String() string {
	line := c.Op + " " + c.Kind + " " + c.Name
	if len(c.Fields) > 0 {
		line += fmt.Sprintf(" %v", c.Fields)
	}
	return line
}

// references are what entries of a file may refer to, by slug or address.
type references struct {
	workspaces, people, guardrails, references, integrations map[string]string // ids
	configs                                                  map[[2]string]bool
	labels, collections                                      map[string]string // ids, by workspace and name
	parents                                                  map[string]string // collections of the file, by that in each, by workspace and slug
	former                                                   map[string]bool   // hashes that keys had before their last rotation
	partials                                                 map[string]bool   // those of the file, by workspace and slug
}

// plan is what has to be changed.
type plan struct {
	*Manifest
	ctx      context.Context
	file     *settings.Settings
	state    *state
	have     *settings.Settings
	prune    bool
	now      time.Time
	sealer   route.Sealer
	keeper   *credentials.Manager
	names    references
	wanted   *settings.Settings // the file with the integrations and providers that follow from it
	paths    []string           // in the file, of wanted's integrations
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
		(*plan).organisation, (*plan).workspaces, memberKind.plan, guardrailKind.plan, referenceKind.plan, integrationKind.plan, (*plan).providers,
		labelKind.plan, collectionKind.plan, partialKind.plan, promptKind.plan, configKind.plan, deploymentKind.plan, keyKind.plan,
	} {
		if err := part(p); err != nil {
			return err
		}
	}
	slices.Reverse(p.removals) // what refers to something goes before it
	p.changes = append(p.changes, p.removals...)
	return nil
}

func newID() string { return reqlog.NewID(time.Now()).String() }
