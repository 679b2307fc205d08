package policy

import "slices"

// index finds the policies that can apply to a request: those of its workspace and
// organisation, by the rarest value of one of their conditions.
type index map[string]*scope // by id of the workspace or organisation

// scope holds the policies of a workspace, or of an organisation as a whole.
type scope struct {
	byValue map[pair][]*compiled
	keys    []key       // of byValue, except metadata
	fields  []string    // of byValue, metadata only
	models  []*compiled // the policies that need the name of the model
}

// pair is a key with a value, or a field of metadata with a value. The value Any has
// the policies that need the key to be present. Models with a provider are found by
// the provider: the name is then providerOfModel.
type pair struct {
	name, value string
	field       bool
}

const providerOfModel = KeyModel + "@"

func newIndex(list []*compiled) index {
	index := make(index)
	type place struct {
		scope string
		pair
	}
	count := make(map[place]int)
	for _, c := range list {
		at := c.scope()
		for i := range c.conditions {
			for p := range c.conditions[i].pairs() {
				count[place{at, p}]++
			}
		}
	}
	for _, c := range list {
		if len(c.conditions) == 0 { // it applies to nothing; the control plane stores none
			continue
		}
		at := c.scope()
		s := index[at]
		if s == nil {
			s = &scope{byValue: make(map[pair][]*compiled)}
			index[at] = s
		}
		if c.readsModel() {
			s.models = append(s.models, c)
		}
		best, least := 0, 0
		for i := range c.conditions {
			most := 0
			for p := range c.conditions[i].pairs() {
				n := count[place{at, p}]
				if p.value == Any || c.conditions[i].key.isOwnScope(c.policy) {
					n = len(list) + 1 // every request has one
				}
				most = max(most, n)
			}
			if i == 0 || most < least {
				best, least = i, most
			}
		}
		s.add(&c.conditions[best], c)
	}
	return index
}

// scope returns the id under which the policy is found.
func (c *compiled) scope() string {
	if c.policy.Workspace != "" {
		return c.policy.Workspace
	}
	return c.policy.Organisation
}

// isOwnScope reports whether a condition of k is met by all requests that a policy
// can apply to, or by none.
func (k key) isOwnScope(p *Policy) bool {
	return k.name == KeyOrganisation || k.name == KeyWorkspace && p.Workspace != ""
}

// pairs yields the pairs by which a request that meets the condition is found, each
// once.
func (c *condition) pairs() map[pair]struct{} {
	set := make(map[pair]struct{}, len(c.values))
	for _, v := range c.values {
		p := pair{name: c.name, value: v.value}
		switch {
		case v.glob != nil:
			p.value = Any
		case c.field != "":
			p = pair{c.field, v.value, true}
		case v.provider != "" && !c.any:
			p = pair{name: providerOfModel, value: v.provider}
		}
		if c.any {
			p.value = Any
		}
		set[p] = struct{}{}
	}
	return set
}

// add adds a policy under the pairs of one of its conditions.
func (s *scope) add(k *condition, c *compiled) {
	for p := range k.pairs() {
		s.byValue[p] = append(s.byValue[p], c)
	}
	switch {
	case k.field == "" && !slices.Contains(s.keys, k.key):
		s.keys = append(s.keys, k.key)
	case k.field != "" && !slices.Contains(s.fields, k.field):
		s.fields = append(s.fields, k.field)
	}
}

// each calls visit for the policies that can apply to a request. A policy whose
// condition lists several models may be visited twice.
func (x index) each(f *Facts, visit func(*compiled, *Facts)) {
	x.eachOfModel(f, visit)
	for _, model := range f.Also {
		one := *f
		one.Model, one.ModelInPath = model, false
		x.eachOfModel(&one, visit)
	}
}

// eachOfModel does the same for f.Model only.
func (x index) eachOfModel(f *Facts, call func(*compiled, *Facts)) {
	visit := func(c *compiled) {
		if c.limits(f) {
			call(c, f)
		}
	}
	for i, id := range [...]string{f.Workspace, f.Organisation} {
		s := x[id]
		if s == nil || id == "" || i > 0 && id == f.Workspace {
			continue
		}
		for _, k := range s.keys {
			if k.name != KeyModel {
				s.visit(k.name, f.value(k), false, visit)
			} else {
				s.visitModel(f, f.value(k), visit)
				named, _ := splitModel(f.Model)
				s.visitProvider(named, visit)
				if f.Slug != named {
					s.visitProvider(f.Slug, visit)
				}
			}
		}
		s.eachField(f, visit)
	}
}

// eachField visits the policies found by metadata. It loops over the metadata of the
// request or over the fields of the policies, whichever are fewer.
func (s *scope) eachField(f *Facts, visit func(*compiled)) {
	if len(s.fields) <= len(f.Metadata) {
		for _, field := range s.fields {
			s.visit(field, f.Metadata[field], true, visit)
		}
		return
	}
	for field, v := range f.Metadata {
		s.visit(field, v, true, visit)
	}
}

// visit visits the policies of a value, and those that need any. An empty value is
// absent.
func (s *scope) visit(name, value string, field bool, visit func(*compiled)) {
	if value == "" {
		return
	}
	for _, c := range s.byValue[pair{name, Any, field}] {
		visit(c)
	}
	if value == Any {
		return
	}
	for _, c := range s.byValue[pair{name, value, field}] {
		visit(c)
	}
}

// visitModel visits the policies of a model, by its canonical name, and those that need any.
func (s *scope) visitModel(f *Facts, name string, visit func(*compiled)) {
	if name == "" {
		return
	}
	for _, c := range s.byValue[pair{name: KeyModel, value: Any}] {
		visit(c)
	}
	f.eachModel(name, func(name string) {
		for _, c := range s.byValue[pair{name: KeyModel, value: name}] {
			visit(c)
		}
	})
}

func (s *scope) visitProvider(slug string, visit func(*compiled)) {
	if slug == "" {
		return
	}
	for _, c := range s.byValue[pair{name: providerOfModel, value: slug}] {
		visit(c)
	}
}
