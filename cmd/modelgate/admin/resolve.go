package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"modelgate/cmd/modelgate/gateway"
)

// id matches the ids of objects, which need no lookup.
var id = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// candidate is an object with the values by which users may name it.
type candidate struct {
	ID    string `json:"id"`
	Slug  string `json:"slug"`
	Name  string `json:"name"`
	Email string `json:"email"`

	Workspace string `json:"workspace_id"`
}

func (c candidate) isNamed(text string) bool {
	return text == c.ID || text == c.Slug || text == c.Name || strings.EqualFold(text, c.Email)
}

// resolveArgs returns the arguments with names replaced by ids, and whether any was.
func (c *call) resolveArgs() (args []string, changed bool, err error) {
	args = slices.Clone(c.in.args)
	for i, p := range c.route.params() {
		n := c.nounOfParam(p)
		if n == nil || id.MatchString(args[i]) {
			continue
		}
		list, err := c.candidates(n, args[i], p == archivedParam)
		if err != nil {
			return nil, false, err
		}
		switch {
		case len(list) > 1:
			return nil, false, c.describeAmbiguity(n.name, args[i], list)
		case len(list) == 1 && list[0].ID != args[i]:
			args[i], changed = list[0].ID, true
		}
	}
	return args, changed, nil
}

// archivedParam is the parameter for an object that is archived.
const archivedParam = "ref"

// nounOfParam returns the noun of the objects of a parameter. The verbs of a noun with a list
// of its own refer to its own objects first.
func (c *call) nounOfParam(param string) *noun {
	if param == archivedParam {
		return c.noun
	}
	list := c.noun.verb("list")
	if list != nil && len(list.route().params()) == 0 && c.route.params()[0] == param && c.noun.verb("show") != nil &&
		slices.Equal(c.noun.verb("show").route().params(), []string{param}) {
		return c.noun
	}
	return nounOf(pathNouns[param])
}

// candidates returns the objects of a noun that text names. Those of its list count that
// have it as name, or as e-mail address.
func (c *call) candidates(n *noun, text string, archived bool) ([]candidate, error) {
	list := n.verb("list")
	if list == nil || len(list.route().params()) > 0 {
		return nil, nil
	}
	other := &call{env: c.env, ctx: c.ctx, to: c.to, noun: n, verb: list, route: list.route(),
		in: &inputs{env: c.env, verb: list, route: list.route()}, query: make(url.Values)}
	if n.find != "" {
		other.query.Set(n.find, text)
	}
	if archived {
		other.query.Set("status", "archived")
	}
	if name, inBody := list.route().workspaceParam(); name != "" && !inBody && c.workspace != "" {
		other.query.Set(name, c.workspace)
	}
	if !other.in.isPaged() {
		return nil, nil
	}
	rows, _, err := other.fetch(listOptions{limit: 10_000})
	if err != nil {
		if status, refused := err.(*gateway.StatusError); refused && status.Code != http.StatusUnauthorized {
			return nil, nil // who may not list them uses ids or slugs
		}
		return nil, err
	}
	var found []candidate
	for _, row := range rows {
		var one candidate
		if json.Unmarshal(row, &one) == nil && one.isNamed(text) {
			found = append(found, one)
		}
	}
	return found, nil
}

// describeAmbiguity returns the error for a name of several objects of a kind. If they are in
// several workspaces, it names those.
func (c *call) describeAmbiguity(kind, text string, list []candidate) error {
	const most = 10
	var workspaces map[string]string
	if slices.ContainsFunc(list, func(one candidate) bool { return one.Workspace != list[0].Workspace }) {
		workspaces = c.names(nounOf("workspaces"))
	}
	var names []string
	for i, one := range list {
		if i == most {
			names = append(names, "...")
			break
		}
		var more []string
		if one.Slug != "" {
			more = append(more, one.Slug)
		}
		if workspace := workspaces[one.Workspace]; workspace != "" {
			more = append(more, "in "+workspace)
		}
		name := one.ID
		if len(more) > 0 {
			name += " (" + strings.Join(more, ", ") + ")"
		}
		names = append(names, name)
	}
	return fmt.Errorf("%d %s have the name %q; use an id: %s", len(list), strings.ReplaceAll(kind, "-", " "), text, strings.Join(names, ", "))
}

// resolveOwner returns the id of the owner of limits that text names: an object of a kind, which is
// a noun without its s, or a policy of either kind.
func (c *call) resolveOwner(kind, text string) (string, error) {
	if kind != "policy" || id.MatchString(text) {
		return c.resolve(kind+"s", text)
	}
	var found []candidate
	for _, name := range []string{"usage-policies", "rate-policies"} {
		list, err := c.candidates(nounOf(name), text, false)
		if err != nil {
			return "", err
		}
		found = append(found, list...)
	}
	switch len(found) {
	case 0:
		return text, nil
	case 1:
		return found[0].ID, nil
	}
	return "", c.describeAmbiguity("policies", text, found)
}

// resolveValue replaces names by ids in the value of a field that refers to objects.
func (c *call) resolveValue(f *field, v any) (any, error) {
	if f.Type == typeAny {
		return v, nil
	}
	switch v := v.(type) {
	case string:
		return c.resolve(references[f.Name], v)
	case []any:
		for i := range v {
			var err error
			switch one := v[i].(type) {
			case string:
				v[i], err = c.resolve(references[f.Name], one)
			case map[string]any:
				for name, text := range one {
					if text, ok := text.(string); ok && err == nil {
						one[name], err = c.resolve(references[f.Name+"."+name], text)
					}
				}
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// resolve returns the id of the object that text names. Text that names nothing, or something
// that the caller may not read, is returned as it is: the gateway says what is wrong with it.
func (c *call) resolve(name, text string) (string, error) {
	n := nounOf(name)
	if n == nil || id.MatchString(text) || text == "" {
		return text, nil
	}
	if show := n.verb("show"); show != nil && len(show.route().params()) == 1 && isSegment(text) {
		path := strings.Replace(show.route().Path, "{"+show.route().params()[0]+"}", escapeSegment(text), 1)
		query := make(url.Values)
		if name, inBody := show.route().workspaceParam(); name != "" && !inBody && c.workspace != "" {
			query.Set(name, c.workspace)
		}
		response, err := c.to.Do(c.ctx, gateway.Request{Method: show.route().Method, Path: path, Query: query})
		var one candidate
		switch _, refused := err.(*gateway.StatusError); {
		case err == nil && json.Unmarshal(response, &one) == nil && one.ID != "":
			return one.ID, nil
		case err != nil && !refused:
			return "", err
		case err != nil && !isNotFound(err):
			return text, nil
		}
	}
	list, err := c.candidates(n, text, false)
	switch {
	case err != nil:
		return "", err
	case len(list) > 1:
		return "", c.describeAmbiguity(n.name, text, list)
	case len(list) == 1:
		return list[0].ID, nil
	}
	return text, nil
}
