package route

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/records/logstore"
	"modelgate/internal/store"
)

// listRoutes are the routes that list what filters name.
var listRoutes = map[string]string{"workspace": "/v1/workspaces", "provider": "/v1/providers",
	"API key": "/v1/api-keys", "config": "/v1/configs", "prompt": "/v1/prompts", "user": "/v1/admin/users"}

// missingName is [Missing] for a filter, and names the route that lists what exists.
func missingName(field, what, ref string) error { return missingAmong(field, what, ref, nil) }

// missingAmong returns the error of missingName with names of those that exist.
func missingAmong(field, what, ref string, known []string) error {
	const message = "%s %.60q not found%s; GET %s lists those that exist"
	return apierr.New(apierr.NotFound, message, what, ref, suggest(ref, known), listRoutes[what]).
		WithParam(field).WithCode("AB02")
}

// mostSuggested is the number of names that an error lists completely.
const mostSuggested = 8

// suggest returns the part of an error that says which names exist: all if there are few,
// otherwise the one that name was probably meant to be. It is empty if there is none.
func suggest(name string, known []string) string {
	known = slices.Compact(slices.Sorted(slices.Values(known)))
	switch near := config.Nearest(name, known); {
	case len(known) > 0 && len(known) <= mostSuggested:
		return "; there are " + strings.Join(known, ", ")
	case near != "":
		return "; did you mean " + near + "?"
	}
	return ""
}

// Missing returns the error for a name that nothing has, with names that the caller may list. A
// caller who sees only entries of some keys gets none.
func (n LogNames) Missing(ctx context.Context, field, what, ref string) error {
	if n.Scope.Keys != nil || n.Scope.Organisation == "" {
		return missingName(field, what, ref)
	}
	var known []string
	if lists, err := n.mayList(ctx, what); err != nil {
		return err
	} else if lists {
		if known, err = n.listNames(ctx, what); err != nil {
			return err
		}
	}
	if what == "provider" { // the table is public
		known = append(known, slugsOf(table.All(), func(s *provider.Spec) string { return s.ID })...)
	}
	return missingAmong(field, what, ref, known)
}

// mayList reports whether the caller may list the objects of a kind.
func (n LogNames) mayList(ctx context.Context, what string) (bool, error) {
	scope := access.Scope(what + "s.list")
	if n.Caller == nil || !n.Caller.Allows(scope) {
		return false, nil
	}
	err := CheckPermission(ctx, n.DB, n.Caller, n.Scope.Workspace, scope.Permission())
	if err != nil && apierr.From(err).Kind == apierr.Forbidden {
		return false, nil
	}
	return err == nil, err
}

// listNames returns the slugs of objects of a kind, newest first.
func (n LogNames) listNames(ctx context.Context, what string) (slugs []string, err error) {
	page := store.Page{Size: 1000}
	switch what {
	case "workspace":
		q := store.WorkspaceQuery{Organisation: n.Scope.Organisation, ID: n.Scope.Workspace, Statuses: []string{store.Active}}
		list, _, err := n.DB.Workspaces(ctx, q, page)
		return slugsOf(list, func(w store.Workspace) string { return w.Slug }), err
	case "provider":
		list, _, err := n.DB.Providers(ctx, n.Scope.Organisation, n.Scope.Workspace, nil, page)
		slugs = slugsOf(list, func(p store.Provider) string { return p.Slug })
		for _, p := range n.Files.Providers {
			if n.Scope.Workspace == "" || n.Scope.Workspace == p.Workspace {
				slugs = append(slugs, p.Slug)
			}
		}
		return slugs, err
	case "config":
		list, _, err := n.DB.Configs(ctx, n.Scope.Organisation, n.Scope.Workspace, page)
		return slugsOf(list, func(c store.Config) string { return c.Slug }), err
	case "prompt":
		q := store.PromptQuery{Organisation: n.Scope.Organisation, Workspace: n.Scope.Workspace, Kind: store.KindPrompt}
		list, _, err := n.DB.Prompts(ctx, q, page)
		return slugsOf(list, func(p store.Prompt) string { return p.Slug }), err
	}
	return nil, nil
}

func slugsOf[T any](list []T, of func(T) string) (slugs []string) {
	for _, v := range list {
		slugs = append(slugs, of(v))
	}
	return slugs
}

// cutVersion returns ref without its version, and the version, zero for none: main and 3 for main@3.
func cutVersion(field, ref string) (name string, version int64, err error) {
	name, digits, ok := strings.Cut(ref, "@")
	if !ok {
		return name, 0, nil
	}
	if version, err = strconv.ParseInt(digits, 10, 64); err != nil || version < 1 || name == "" {
		return "", 0, Invalid(field, "must be an id or slug, or one with the number of a version such as main@3, not %.60q", ref)
	}
	return name, version, nil
}

// missingVersion returns the error for a version that a config or prompt does not have.
func missingVersion(field, what, ref string) func() error {
	return func() error {
		return apierr.New(apierr.NotFound, "version %.60q of the %s not found; GET %s/{%s}/versions lists those that exist", ref, what,
			listRoutes[what], what).WithParam(field).WithCode("AB02")
	}
}

// checkConfigVersion returns an error unless one of the configs with these ids, or an entry, has the
// version. Ref is what the client sent.
func (n LogNames) checkConfigVersion(ctx context.Context, field, ref string, ids []string) error {
	_, version, err := cutVersion(field, ref)
	if err != nil || version == 0 {
		return err
	}
	versions := make([]string, len(ids))
	for i, id := range ids {
		if _, err := n.DB.ConfigVersionNumber(ctx, id, version); !apierr.IsNotFound(err) {
			return err
		}
		versions[i] = id + "@" + strconv.FormatInt(version, 10)
	}
	return n.checkLogged(ctx, logstore.ByConfigVersion, versions, missingVersion(field, "config", ref))
}

// CheckErrorCodes returns an error unless all are codes of the gateway or of entries that the
// caller sees.
func (n LogNames) CheckErrorCodes(ctx context.Context, field string, codes []string) error {
	for _, code := range codes {
		if status, ok := strings.CutPrefix(code, "status_"); slices.Contains(apierr.Codes, code) || ok && isStatus(status) {
			continue
		}
		if err := n.checkLogged(ctx, logstore.ByErrorCode, []string{code}, func() error { return n.unknownCode(ctx, field, code) }); err != nil {
			return err
		}
	}
	return nil
}

func isStatus(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= 100 && n <= 999
}

// unknownCode returns the error for an error code that does not exist.
func (n LogNames) unknownCode(ctx context.Context, field, code string) error {
	if near := config.Nearest(code, apierr.Codes); near != "" {
		return Invalid(field, "must be an error code, not %.60q; did you mean %s?", code, near)
	}
	var logged []string
	if n.Sum != nil && n.Scope.Organisation != "" {
		now := time.Now()
		sums, err := n.Sum(ctx, logstore.GroupQuery{Scope: n.Scope, From: now.Add(-loggedRange), To: now, By: logstore.ByErrorCode})
		if err != nil {
			return err
		}
		for i := range sums {
			if sums[i].Value != "" {
				logged = append(logged, sums[i].Value)
			}
		}
	}
	return Invalid(field, "must be an error code, not %.60q%s; docs/errors.md lists those of the gateway", code, suggest(code, logged))
}

// UserKeys returns the ids of the keys of users, who must be known to the caller: those of
// whom the scope has keys or members.
func (n LogNames) UserKeys(ctx context.Context, field string, users []string) ([]string, error) {
	owners, err := n.DB.KeyOwners(ctx, n.Scope.Organisation, n.Scope.Workspace)
	if err != nil {
		return nil, err
	}
	keys := []string{}
	for _, user := range users {
		found := false
		for id, owner := range owners {
			if owner == user && (n.Scope.Keys == nil || slices.Contains(n.Scope.Keys, id)) {
				keys, found = append(keys, id), true
			}
		}
		if !found && n.Scope.Keys == nil {
			m, err := n.DB.Membership(ctx, n.Scope.Organisation, user)
			if err != nil {
				return nil, err
			}
			found = m.Role != "" && (n.Scope.Workspace == "" || m.RoleIn(n.Scope.Workspace) != "")
		}
		if !found {
			return nil, missingName(field, "user", user)
		}
	}
	return keys, nil
}

// ExpandStatuses returns statuses with those of classes, such as 5xx. Field is the name of the
// filter.
func ExpandStatuses(field string, list []string) (all []string, err error) {
	for _, s := range list {
		digit, class := strings.CutSuffix(s, "xx")
		n, err := strconv.Atoi(digit)
		switch {
		case err == nil && !class && n >= 100 && n <= 999:
			all = append(all, s)
		case err == nil && class && n >= 1 && n <= 9:
			for status := n * 100; status < n*100+100; status++ {
				all = append(all, strconv.Itoa(status))
			}
		default:
			return nil, Invalid(field, "must be numbers such as 429 or classes such as 5xx, not %.20q", s)
		}
	}
	return all, nil
}
