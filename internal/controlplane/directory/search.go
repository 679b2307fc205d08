package directory

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/scim"
	"modelgate/internal/store"
)

// searched makes the handler of a search of that of a list: the body has the parameters.
// https://www.rfc-editor.org/rfc/rfc7644#section-3.4.3
func searched(list route.Handler) route.Handler {
	return func(ctx context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
		var in struct {
			Attributes, ExcludedAttributes []string
			Filter                         string
			StartIndex, Count              *int
		}
		if err := checkType(r); err != nil {
			return answer(w, err)
		}
		if err := json.Unmarshal(c.Body(), &in); err != nil {
			return answer(w, scim.Errorf(scim.InvalidSyntax, "the body must be a search request"))
		}
		query := url.Values{"filter": {in.Filter}, "attributes": {strings.Join(in.Attributes, ",")},
			"excludedAttributes": {strings.Join(in.ExcludedAttributes, ",")}}
		for name, n := range map[string]*int{"startIndex": in.StartIndex, "count": in.Count} {
			if n != nil {
				query.Set(name, strconv.Itoa(*n))
			}
		}
		found := r.Clone(ctx)
		found.URL.RawQuery = query.Encode()
		return list(ctx, c, w, found)
	}
}

// listAll lists users, then groups. A filter that only one of the types can have selects none of
// the other.
func (f *family) listAll(ctx context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
	p, err := readPage(r, f.users)
	if err != nil {
		return answer(w, err)
	}
	users, totalUsers, err := c.DB().DirectoryUsers(ctx, c.Organisation, p.filter, store.Span{Offset: p.start - 1, Limit: p.count})
	_, isFilter := errors.AsType[*scim.Error](err)
	if err != nil && !isFilter {
		return err
	}
	left := store.Span{Offset: max(0, p.start-1-totalUsers), Limit: p.count - len(users)}
	groups, totalGroups, err := c.DB().DirectoryGroups(ctx, c.Organisation, p.filter, left)
	if _, ok := errors.AsType[*scim.Error](err); ok && !isFilter {
		err = nil
	}
	if err == nil && p.Selects("members") {
		groups, err = cutPage(ctx, c, groups)
	}
	if err != nil {
		return answer(w, err)
	}
	list, err := f.showUsers(ctx, c, users, p.Projection)
	if err != nil {
		return err
	}
	further, err := showGroups(ctx, c, groups, p.Projection)
	if err != nil {
		return err
	}
	return writeList(w, p.start, totalUsers+totalGroups, append(list, further...))
}
