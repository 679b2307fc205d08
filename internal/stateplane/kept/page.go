package kept

import (
	"net/url"
	"strconv"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
)

// Page is what a request asks for of a list.
type Page struct {
	After     string // id, own or a provider's
	Limit     int
	Ascending bool
}

// List is a page of objects as the protocol of OpenAI has it.
type List[T any] struct {
	Object  string  `json:"object"` // list
	Data    []T     `json:"data"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore bool    `json:"has_more"`
}

// NewList returns a page of objects as show describes each. An object that a provider has
// not described yet is left out.
func NewList[T any](found []store.Object, more bool, show func(*store.Object) (T, error)) (l List[T], err error) {
	l = List[T]{Object: "list", Data: make([]T, 0, len(found)), HasMore: more}
	for i := range found {
		if found[i].State == StateCreating || found[i].State == StateUnknown {
			continue
		}
		shown, err := show(&found[i])
		if err != nil {
			return l, err
		}
		id := found[i].ShownID()
		if l.FirstID == nil {
			l.FirstID = &id
		}
		l.LastID, l.Data = &id, append(l.Data, shown)
	}
	return l, nil
}

// ParsePage reads after, limit and order of a query.
func ParsePage(query url.Values, most, def int) (Page, error) {
	p := Page{After: query.Get("after"), Limit: def}
	if text := query.Get("limit"); query.Has("limit") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > most {
			return p, apierr.New(apierr.Invalid, "limit must be an integer from 1 to %d, not %.40q", most, text).WithParam("limit")
		}
		p.Limit = n
	}
	switch order := query.Get("order"); order {
	case "", "desc":
	case "asc":
		p.Ascending = true
	default:
		return p, apierr.New(apierr.Invalid, "order must be asc or desc, not %.40q", order).WithParam("order")
	}
	return p, nil
}

// List returns a page of the workspace's objects of a kind with a label; empty is any.
func (q *Request) List(kind, label string, p Page) (list []store.Object, more bool, err error) {
	x := store.ObjectQuery{Workspace: q.From.Identity.Workspace, Kind: kind, Provider: q.From.Provider, Label: label, Limit: p.Limit,
		Ascending: p.Ascending}
	if p.After != "" {
		last, err := q.Find(kind, p.After)
		if err != nil {
			return nil, false, NotFound(kind, "after")
		}
		x.After = last.ID
	}
	list, more, err = q.Deps.DB.Objects(q.HTTP.Context(), x)
	return list, more, q.Deps.DB.ClientError(err)
}
