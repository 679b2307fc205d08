package route

import (
	"net/http"

	"modelgate/internal/access"
	"modelgate/internal/store"
)

// Family declares what the routes of one kind of object have in common.
type Family struct {
	Path     string   // of the first route, as [Route.Path]
	Also     string   // a further path for the same; empty for none
	Tag      string   // as [Route.Tag]
	Scopes   []string // resources, as scopes name them: a scope of one of them is enough
	Resource string   // in the audit log, of routes that change something

	// Versioned routes change an object that there is already: all but POST.
	Versioned bool
}

// Route returns the route at a path below the family's. Verb is what its scopes
// allow.
func (f Family) Route(method, path, name, verb, summary string) Route {
	r := Route{Method: method, Path: f.Path + path, Name: name, Tag: f.Tag, Summary: summary}
	if f.Also != "" {
		r.Also = []string{f.Also + path}
	}
	for _, resource := range f.Scopes {
		r.Scopes = append(r.Scopes, access.Scope(resource+"."+verb))
	}
	if method != http.MethodGet {
		r.Resource, r.Versioned = f.Resource, f.Versioned && method != http.MethodPost
	}
	return r
}

// Paging is the part of a list that a request asks for.
type Paging struct {
	Page int `query:"current_page" minimum:"0" maximum:"1000000"`
	Size int `query:"page_size" minimum:"1" maximum:"1000" default:"100"`
}

// Rows returns the part as the store reads it.
func (p Paging) Rows() store.Page { return store.Page{Number: p.Page, Size: p.Size} }

// Listing returns the list of rows as show has them, of which there are total in
// all. The error is that of reading them.
func Listing[Row, Item any](rows []Row, total int, err error, show func(Row) Item) (*List[Item], error) {
	if err != nil {
		return nil, err
	}
	items := make([]Item, 0, len(rows))
	for _, row := range rows {
		items = append(items, show(row))
	}
	return ListOf(items, total), nil
}

// Shown returns a row as show has it. The error is that of reading it.
func Shown[Row, Item any](row Row, err error, show func(Row) Item) (*Item, error) {
	if err != nil {
		return nil, err
	}
	item := show(row)
	return &item, nil
}
