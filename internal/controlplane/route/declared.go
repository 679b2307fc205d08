package route

import (
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
)

// Declared are the objects declared in the settings file, in the form of rows. They
// belong to the first organisation and have ids made by [FileID]. They can be read like
// other objects but changed only in the file.
type Declared struct {
	Configs   []store.ConfigText
	Providers []store.Provider
	Keys      []store.Key
}

const fileID = "file:"

// FileID returns the id of the declared object with this name.
func FileID(name string) string { return fileID + name }

// ManagedBy returns what manages the object with this id: file or api.
func ManagedBy(id string) string {
	if strings.HasPrefix(id, fileID) {
		return "file"
	}
	return "api"
}

// Files returns the declared objects, if they belong to the caller's organisation.
func (c *Caller) Files() Declared {
	if c.api.Deps.Files == nil || c.Organisation != store.DefaultOrganisation {
		return Declared{}
	}
	return c.api.Deps.Files()
}

// RefuseFileManaged returns an error if the object with this id is declared in the
// settings file and the route would change it or take its name. What and name describe
// it in the error.
func (c *Caller) RefuseFileManaged(id, what, name string) error {
	if ManagedBy(id) != "file" || c.route.Resource == "" {
		return nil
	}
	return apierr.New(apierr.Conflict, "%s %q is managed by modelgate.yaml; change it there", what, name)
}

// FindDeclared returns the declared object that ref names by id or slug and that is
// visible from a workspace; an empty workspace sees all.
func FindDeclared[T any](list []T, workspace, ref string, place func(T) (id, workspace, slug string)) (v T, ok bool) {
	for _, v := range list {
		if id, at, slug := place(v); (workspace == "" || workspace == at) && ref != "" && (ref == id || ref == slug) {
			return v, true
		}
	}
	return v, false
}

// DeclaredIn returns the declared objects that are visible from a workspace.
func DeclaredIn[T any](list []T, workspace string, place func(T) (id, workspace, slug string)) (seen []T) {
	for _, v := range list {
		if _, at, _ := place(v); workspace == "" || workspace == at {
			seen = append(seen, v)
		}
	}
	return seen
}

// DeclaredOnPage returns the declared objects on a page of a list: all of them on the
// first page, in addition to its size, and none on others.
func DeclaredOnPage[T any](page int, owned []T) []T {
	if page > 0 {
		return nil
	}
	return owned
}

// ConvertDeclared is [ConvertList] for a page of a list with declared objects. Total is the
// number of all other rows.
func ConvertDeclared[Row, Item any](owned, found []Row, page, total int, convert func(Row) (Item, error)) (*List[Item], error) {
	list, err := ConvertList(append(DeclaredOnPage(page, owned), found...), total, convert)
	if err != nil {
		return nil, err
	}
	return list.AddDeclared(len(owned)), nil
}
