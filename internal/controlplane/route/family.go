package route

import (
	"net/http"

	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// Family declares what the routes of one kind of object have in common.
type Family struct {
	Path     string   // of the first route; see [Route.Path]
	Also     string   // a further path of the same routes; empty for none
	Tag      string   // see [Route.Tag]
	Scopes   []string // resources in scopes; a scope of any of them is enough
	Resource string   // in the audit log, for routes that make changes

	// Versioned marks the routes that change an existing object, all except POST.
	Versioned bool
}

// Route returns the route at a path relative to the family's. Verb is the verb of its
// scopes.
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

// Paging selects a page of a list.
type Paging struct {
	Page int `query:"current_page" minimum:"0" maximum:"1000000"`
	Size int `query:"page_size" minimum:"1" maximum:"1000" default:"100"`
}

// Rows returns the page in the form of the store.
func (p Paging) Rows() store.Page { return store.Page{Number: p.Page, Size: p.Size} }

// LongPaging selects a page of a list that is read as one, and is one page by default.
type LongPaging struct {
	Page int `query:"current_page" minimum:"0" maximum:"1000000"`
	Size int `query:"page_size" minimum:"1" maximum:"1000" default:"1000"`
}

// PageOf converts the rows of a page to a list; rows are all that there are, and err is the
// error of reading them.
func PageOf[Row, Item any](rows []Row, p LongPaging, err error, show func(Row) Item) (*List[Item], error) {
	return Listing(Cut(rows, p.Page, p.Size), len(rows), err, show)
}

// Cut returns the rows of a page; rows are all that there are.
func Cut[Row any](rows []Row, number, size int) []Row {
	from := min(number*size, len(rows))
	return rows[from:min(from+size, len(rows))]
}

// Listing converts rows to a list; total is the number of all rows and err the error of
// reading them.
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

// ConvertList converts rows to a list with a function that may fail; total is the number of
// all rows.
func ConvertList[Row, Item any](rows []Row, total int, convert func(Row) (Item, error)) (*List[Item], error) {
	items := make([]Item, len(rows))
	for i, row := range rows {
		var err error
		if items[i], err = convert(row); err != nil {
			return nil, err
		}
	}
	return ListOf(items, total), nil
}

// ItemOf converts a row; err is the error of reading it.
func ItemOf[Row, Item any](row Row, err error, show func(Row) Item) (*Item, error) {
	if err != nil {
		return nil, err
	}
	item := show(row)
	return &item, nil
}
