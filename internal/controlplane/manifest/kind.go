package manifest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/settings"
)

// step makes one change, as a handler of the control plane does.
type step = func(context.Context, *route.Caller) error

// kind declares a kind of object: its section of the file, its stored rows, and the
// conversion between them.
type kind[W, R any] struct {
	section, name string                        // in the file; in changes
	entries       func(*settings.Settings) *[]W // nil if the file does not have the section
	rows          func(*state) []R              // including rows that a file cannot contain
	key           func(*W) entryID              // identifies an entry
	rowKey        func(*state, *R) entryID

	// read converts a row to an entry; ok is false for a row that a file cannot
	// contain.
	read func(r *reader, row *R) (v W, ok bool, err error)

	// order is the order of entries in the file. Nil sorts by key.
	order func(a, b W) int

	// title returns the name of an entry in changes. Nil is its key.
	title func(*W) string

	// keep copies to want what it leaves out and have has stored. Nil keeps nothing.
	keep func(p *plan, want, have *W)

	// put returns the step that stores want, found at path, instead of old. For a new
	// object old and changed are nil.
	put func(p *plan, path string, want *W, old *R, changed []string) (step, error)

	// drop returns the step that removes a row, nil for a row that stays.
	drop func(p *plan, row R) step
}

// entryID is the workspace of an entry, empty if it has none, and its name.
type entryID struct{ workspace, name string }

func (a entryID) compare(b entryID) int {
	return cmp.Or(cmp.Compare(a.workspace, b.workspace), cmp.Compare(a.name, b.name))
}

func (a entryID) String() string { return strings.TrimPrefix(a.workspace+"/"+a.name, "/") }

// export writes the stored objects to their section of out.
func (k *kind[W, R]) export(r *reader, out *settings.Settings) error {
	list := []W{}
	rows := k.rows(r.state)
	for i := range rows {
		v, ok, err := k.read(r, &rows[i])
		if err != nil {
			return fmt.Errorf("%s %s: %w", strings.ReplaceAll(k.name, "_", " "), k.rowKey(r.state, &rows[i]).name, err)
		}
		if ok {
			list = append(list, v)
		}
	}
	order := k.order
	if order == nil {
		order = func(a, b W) int { return k.key(&a).compare(k.key(&b)) }
	}
	slices.SortFunc(list, order)
	*k.entries(out) = list
	return nil
}

// plan adds the required changes to p.
func (k *kind[W, R]) plan(p *plan) error {
	want, have, rows := *k.entries(p.wanted), *k.entries(p.have), k.index(p.state)
	stored, seen := make(map[entryID]*W, len(have)), make(map[entryID]bool, len(want))
	for i := range have {
		stored[k.key(&have[i])] = &have[i]
	}
	for i := range want {
		path, key := fmt.Sprintf("%s[%d]", k.section, i), k.key(&want[i])
		switch k.section {
		case "integrations":
			path = p.paths[i]
		case "organisation":
			path = k.section // there is one
		}
		if seen[key] {
			return p.file.ErrorAt(path, fmt.Errorf("%s is duplicated", k.call(&want[i])))
		}
		seen[key] = true
		if err := k.planOne(p, path, &want[i], stored[key], rows[key]); err != nil {
			return p.fault(path, err)
		}
	}
	if p.keepsUnlisted(*k.entries(p.file) != nil) {
		return nil
	}
	for i := range have {
		if key := k.key(&have[i]); !seen[key] {
			k.remove(p, &have[i], *rows[key])
		}
	}
	return nil
}

// remove adds to p the removal of a row, whose entry is have.
func (k *kind[W, R]) remove(p *plan, have *W, row R) {
	if do := k.drop(p, row); do != nil {
		p.removals = append(p.removals, Change{Op: "-", Kind: k.name, Name: k.call(have), do: do})
	}
}

// index returns the rows by entry id.
func (k *kind[W, R]) index(s *state) map[entryID]*R {
	rows := k.rows(s)
	out := make(map[entryID]*R, len(rows))
	for i := range rows {
		out[k.rowKey(s, &rows[i])] = &rows[i]
	}
	return out
}

func (k *kind[W, R]) call(v *W) string {
	if k.title != nil {
		return k.title(v)
	}
	return k.key(v).String()
}

// planOne adds the change from have, whose row is old, to want. Both are nil for a new
// object; only have is nil for a row that a file cannot contain.
func (k *kind[W, R]) planOne(p *plan, path string, want, have *W, old *R) error {
	c := Change{Op: "+", Kind: k.name, Name: k.call(want)}
	if have != nil {
		complete := *want // keep must not change the file
		if k.keep != nil {
			k.keep(p, &complete, have)
		}
		if c.Op, c.Fields = "~", settings.ChangedFields(complete, *have); len(c.Fields) == 0 {
			return nil
		}
	}
	do, err := k.put(p, path, want, old, c.Fields)
	if err != nil {
		return err
	}
	c.do = func(ctx context.Context, by *route.Caller) error {
		err := do(ctx, by)
		if _, ok := errors.AsType[*apierr.Error](err); ok {
			return p.fault(path, err)
		}
		return err
	}
	p.changes = append(p.changes, c)
	return nil
}

// putRow returns the step that stores row with a handler's function, instead of old.
func putRow[R any](put func(context.Context, *route.Caller, *R, R) error, old *R, row R) step {
	return func(ctx context.Context, c *route.Caller) error { return put(ctx, c, old, row) }
}

// dropRow returns the step that removes row with a handler's function.
func dropRow[R any](drop func(context.Context, *route.Caller, R) error, row R) step {
	return func(ctx context.Context, c *route.Caller) error { return drop(ctx, c, row) }
}

// rowOr returns a copy of old, or made if old is nil.
func rowOr[R any](old *R, made R) R {
	if old != nil {
		return *old
	}
	return made
}

// fault adds the path in the file to an error without one.
func (p *plan) fault(path string, err error) error {
	if e, ok := errors.AsType[*settings.FileError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*credentials.MappingError](err); ok {
		path = fmt.Sprintf("%s.secret_mappings[%d]", path, e.Index)
	}
	e, ok := errors.AsType[*apierr.Error](err)
	if !ok {
		return p.file.ErrorAt(path, err)
	}
	problem, named := strings.CutPrefix(e.Message, e.Param+" ")
	field, known := requestFields[e.Param]
	switch {
	case named && (known || strings.Contains(e.Param, "_limits")):
		path += "." + cmp.Or(field, e.Param)
	case known:
		path, problem = path+"."+field, e.Message
	default:
		problem = e.Message
	}
	at := p.file.ErrorAt(path, errors.New(problem))
	at.Cause = e
	return at
}

// requestFields are the fields of entries by their names in requests, if those differ or
// if errors name them.
var requestFields = map[string]string{"defaults.metadata": "metadata", "scopes": "scopes", "issuer": "issuer", "client_id": "client_id",
	"client_secret": "client_secret", "domains": "domains", "scim_group_name": "scim_group", "metadata": "metadata",
	"metadata_url": "metadata_url",
	"api_key_id":   "key_sha256", "audience": "audience", "claims": "claims", "jwks": "jwks", "jwks_url": "jwks_url",
	"trust_domain": "trust_domain"}

// isDeclared reports whether has reports that an object is among those that the settings file
// of the gateway declares, which outrank stored ones and are changed only there. A command does
// not know them.
func (p *plan) isDeclared(has func(route.Declared) bool) bool {
	return p.request != nil && has(p.request.Caller.Files())
}

var errDeclared = errors.New("is declared in the settings file of the gateway; change it there, and remove it here")

// missing returns the error for a reference to an object that does not exist.
func (p *plan) missing(path, what, name string) error {
	return p.file.ErrorAt(path, fmt.Errorf("%s %q not found in the file or in the database", what, name))
}

// workspaceID returns the id of the workspace that an entry names.
func (p *plan) workspaceID(path, slug string) (string, error) {
	id, ok := p.names.workspaces[slug]
	if !ok {
		return "", p.missing(path, "workspace", slug)
	}
	return id, nil
}

// workspaceIDs returns the ids of workspaces; all is true if slugs is empty.
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
