package manifest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"modelgate/internal/apierr"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

// step is one write of a change.
type step = func(context.Context, *store.Tx) error

// family compares one section of the file with what is stored.
type family[T any] struct {
	section, kind string
	want, have    []T
	spared        bool            // what the file does not have stays
	name          func(*T) string // in changes

	// id is what an entry is known by, in the file and stored. Nil is name.
	id func(*T) string

	// keep puts into want what it leaves as it is stored. Nil keeps nothing.
	keep func(want *T, have *T)

	// put returns what stores want, which is at path. Of what is new changed
	// is nil.
	put func(path string, want *T, changed []string) (step, error)

	// drop returns what removes an entry, nil for one that stays. Nil removes none.
	drop func(have *T) step
}

// compare adds to p what a family has to change.
func compare[T any](p *plan, f family[T]) error {
	if f.id == nil {
		f.id = f.name
	}
	have := make(map[string]*T, len(f.have))
	for i := range f.have {
		have[f.id(&f.have[i])] = &f.have[i]
	}
	seen := make(map[string]bool, len(f.want))
	for i := range f.want {
		path, id := fmt.Sprintf("%s[%d]", f.section, i), f.id(&f.want[i])
		if f.section == "integrations" {
			path = p.paths[i]
		}
		if seen[id] {
			return p.file.ErrorAt(path, fmt.Errorf("%s stands twice", f.name(&f.want[i])))
		}
		seen[id] = true
		if err := compareOne(p, f, path, &f.want[i], have[id]); err != nil {
			return p.fault(path, err)
		}
	}
	if f.spared || f.drop == nil {
		return nil
	}
	for i := range f.have {
		if seen[f.id(&f.have[i])] {
			continue
		}
		if do := f.drop(&f.have[i]); do != nil {
			p.removals = append(p.removals, Change{Op: "-", Kind: f.kind, Name: f.name(&f.have[i]), do: do})
		}
	}
	return nil
}

// compareOne adds the change that makes have what want says. Have is nil for
// what is new.
func compareOne[T any](p *plan, f family[T], path string, want, have *T) (err error) {
	c := Change{Op: "+", Kind: f.kind, Name: f.name(want)}
	if have != nil {
		whole := *want // keep must not change the file
		if f.keep != nil {
			f.keep(&whole, have)
		}
		if c.Op, c.Fields = "~", settings.ChangedFields(whole, *have); len(c.Fields) == 0 {
			return nil
		}
	}
	if c.do, err = f.put(path, want, c.Fields); err == nil {
		p.changes = append(p.changes, c)
	}
	return err
}

// fault says where in the file an error is, unless it says so itself.
func (p *plan) fault(path string, err error) error {
	if e, ok := errors.AsType[*settings.FileError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*apierr.Error](err); ok {
		return p.file.ErrorAt(path, errors.New(e.Message))
	}
	return p.file.ErrorAt(path, err)
}

// missing is the fault of a name that nothing has.
func (p *plan) missing(path, what, name string) error {
	return p.file.ErrorAt(path, fmt.Errorf("there is no %s %q, neither in the file nor in the database", what, name))
}

// workspaceID returns the id of a workspace that an entry names.
func (p *plan) workspaceID(path, slug string) (string, error) {
	id, ok := p.names.workspaces[slug]
	if !ok {
		return "", p.missing(path, "workspace", slug)
	}
	return id, nil
}

// workspaceIDs returns the ids of workspaces; all is true for none.
func (p *plan) workspaceIDs(path string, slugs []string) (list []string, all bool, err error) {
	for i, slug := range slugs {
		id, err := p.workspaceID(fmt.Sprintf("%s[%d]", path, i), slug)
		if err != nil {
			return nil, false, err
		}
		list = append(list, id)
	}
	return list, slugs == nil, nil
}

func has(fields []string, names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(fields, n) })
}
