package route

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// Names of the parameters that select a page of a list.
const (
	pageParam, sizeParam   = "current_page", "page_size"
	cursorParam, sizeAlias = "cursor", "limit" // as in the lists of the log
)

// oldParams are earlier names of parameters.
var oldParams = map[string]string{"currentPage": pageParam, "pageSize": sizeParam, sizeAlias: sizeParam}

// PageInfo is the part of a list's response about further pages.
type PageInfo struct {
	More bool    `json:"has_more"`
	Next *string `json:"next_cursor" doc:"The cursor of the next page; null for the last"`
}

// Set sets where the page of this number and size ends, in a list of total rows.
func (p *PageInfo) Set(number, size, total int) {
	if p.More = (number+1)*size < total; !p.More {
		return
	}
	next := encodeCursor(number+1, size)
	p.Next = &next
}

func encodeCursor(number, size int) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d", number, size))
}

func decodeCursor(text string) (number, size int, err error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		_, err = fmt.Sscanf(string(b), "%d.%d", &number, &size)
	}
	if err != nil || encodeCursor(number, size) != text {
		return 0, 0, Invalid(cursorParam, "must be the next_cursor of a page of the same list")
	}
	return number, size, nil
}

// isPaged reports whether a request type has the parameters of a page.
func isPaged(in reflect.Type) bool {
	f, ok := in.FieldByName("Size")
	return ok && f.Tag.Get("query") == sizeParam
}

// pagedParams describe the parameters that every list accepts in addition to its own.
func pagedParams() []*huma.Param {
	least, longest := 1.0, 64
	return []*huma.Param{
		{Name: cursorParam, In: "query", Description: "next_cursor of the previous page",
			Schema: &huma.Schema{Type: huma.TypeString, MaxLength: &longest}},
		{Name: sizeAlias, In: "query", Description: "Another name of page_size", Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: &least}},
	}
}

// pageQuery returns the query of a list with the parameters of its page under one name.
func pageQuery(query url.Values) (url.Values, error) {
	for old, name := range oldParams {
		if list, ok := query[old]; ok {
			if len(list) > 1 {
				return nil, sentTwice(old, len(list))
			}
			if query.Has(name) {
				return nil, Invalid(old, "is another name of %s; send one of them", name)
			}
			query[name] = list
			delete(query, old)
		}
	}
	cursor, ok := query[cursorParam]
	if !ok {
		return query, nil
	}
	if len(cursor) > 1 {
		return nil, sentTwice(cursorParam, len(cursor))
	}
	number, size, err := decodeCursor(cursor[0])
	switch given := query.Get(sizeParam); {
	case err != nil:
		return nil, err
	case query.Has(pageParam):
		return nil, Invalid(cursorParam, "cannot be combined with "+pageParam)
	case given != "" && given != strconv.Itoa(size):
		return nil, Invalid(sizeParam, "must be that of the page before the cursor, %d", size)
	}
	query.Set(pageParam, strconv.Itoa(number))
	query.Set(sizeParam, strconv.Itoa(size))
	delete(query, cursorParam)
	return query, nil
}

func sentTwice(name string, times int) error {
	return Invalid(name, "was sent %d times; send it once", times)
}

// pageOf returns the page that a decoded request selects.
func pageOf(in reflect.Value) (number, size int) {
	return int(in.FieldByName("Page").Int()), int(in.FieldByName("Size").Int())
}

// Selection selects the objects of a list: a page of those with a name and a status.
type Selection struct {
	Paging
	Name   string `query:"name" maxLength:"255" doc:"Case-sensitive substring of the name"`
	Status string `query:"status" maxLength:"64" doc:"active (default), archived, or both separated by a comma; archived ones are visible only to the organisation's owner and admins"`
}

// Rows returns the selection in the form of the store.
func (s Selection) Rows(ctx context.Context, c *Caller) (store.Page, error) {
	p := s.Paging.Rows()
	p.Name = s.Name
	var err error
	p.Statuses, err = c.Statuses(ctx, s.Status)
	return p, err
}

// NamedPaging selects a page of the objects with a name, in lists of objects that are never
// archived.
type NamedPaging struct {
	Paging
	Name string `query:"name" maxLength:"255" doc:"Case-sensitive substring of the name"`
}

// Rows returns the selection in the form of the store.
func (s NamedPaging) Rows() store.Page {
	p := s.Paging.Rows()
	p.Name = s.Name
	return p
}

// Administers reports whether the caller is the owner or an admin of the organisation,
// or an organisation key.
func (c *Caller) Administers(ctx context.Context) (bool, error) {
	if c.Type == access.OrganisationService || c.Allows(access.ScopeAll) {
		return true, nil
	}
	if !c.IsPerson() {
		return false, nil
	}
	m, err := c.DB().Membership(ctx, c.Organisation, c.UserID)
	return m.Role == "owner" || m.Role == "admin", err
}

// Statuses returns the statuses in a list separated by commas, nil for the default. Only
// the owner and admins of the organisation may see archived objects.
func (c *Caller) Statuses(ctx context.Context, text string) ([]string, error) {
	list, err := store.ParseStatuses(text)
	if err != nil {
		return nil, Invalid("status", "%v", err)
	}
	for _, s := range list {
		if s != store.Archived {
			continue
		}
		if wide, err := c.Administers(ctx); err != nil || !wide {
			if err == nil {
				err = apierr.New(apierr.Forbidden, "only the owner and admins of the organisation can list archived objects").WithCode("AB03")
			}
			return nil, err
		}
	}
	return list, nil
}
