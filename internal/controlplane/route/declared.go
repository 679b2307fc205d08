package route

import (
	"strings"

	"modelgate/internal/apierr"
	"modelgate/internal/store"
)

// Declared are what the file declares that the gateway runs with, as the rows they
// would be: of the first organisation, with ids made by [FileID]. The file owns
// them: they are read like others and changed nowhere but there.
type Declared struct {
	Configs   []store.ConfigText
	Providers []store.Provider
	Keys      []store.Key
}

const fileID = "file:"

// FileID is the id of what a file declares under a name.
func FileID(name string) string { return fileID + name }

// ManagedBy says what changes the object with this id: file or api.
func ManagedBy(id string) string {
	if strings.HasPrefix(id, fileID) {
		return "file"
	}
	return "api"
}

// Files returns what the file declares, as far as it is the caller's
// organisation's.
func (c *Caller) Files() Declared {
	if c.api.Deps.Files == nil || c.Organisation != store.DefaultOrganisation {
		return Declared{}
	}
	return c.api.Deps.Files()
}

// RefuseFileManaged refuses a request that would change the object with this id, or take
// its name, when a file owns it. What is that of the object in words, with its
// name.
func (c *Caller) RefuseFileManaged(id, what, name string) error {
	if ManagedBy(id) != "file" || c.route.Resource == "" {
		return nil
	}
	return apierr.New(apierr.Conflict, "%s %q is managed by modelgate.yaml; change it there", what, name)
}

// FindDeclared returns the entry of a file's list that ref names by its id or slug,
// seen from a workspace; an empty one sees all.
func FindDeclared[T any](list []T, workspace, ref string, place func(T) (id, workspace, slug string)) (v T, ok bool) {
	for _, v := range list {
		if id, at, slug := place(v); (workspace == "" || workspace == at) && ref != "" && (ref == id || ref == slug) {
			return v, true
		}
	}
	return v, false
}

// DeclaredIn returns the entries of a file's list that are seen from a workspace.
func DeclaredIn[T any](list []T, workspace string, place func(T) (id, workspace, slug string)) (seen []T) {
	for _, v := range list {
		if _, at, _ := place(v); workspace == "" || workspace == at {
			seen = append(seen, v)
		}
	}
	return seen
}

// DeclaredOnPage returns what a page of a list shows of the entries that a file owns,
// which are before all others and next to the size of the page.
func DeclaredOnPage[T any](page int, owned []T) []T {
	if page > 0 {
		return nil
	}
	return owned
}
