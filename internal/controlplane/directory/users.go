package directory

import (
	"context"
	"errors"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/scim"
	"modelgate/internal/store"
)

func (f *family) listUsers(ctx context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
	p, err := readPage(r, f.users)
	if err != nil {
		return answer(w, err)
	}
	rows, total, err := c.DB().DirectoryUsers(ctx, c.Organisation, p.filter, store.Span{Offset: p.start - 1, Limit: p.count})
	if err != nil {
		return answer(w, err)
	}
	list, err := f.showUsers(ctx, c, rows, p.Projection)
	if err != nil {
		return err
	}
	return writeList(w, p.start, total, list)
}

func (f *family) getUser(ctx context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
	row, err := findUser(ctx, c, c.DB(), r.PathValue("user"))
	if err != nil {
		return answer(w, err)
	}
	return f.writeUser(ctx, c, w, r, row)
}

// findUser returns a user of the directory.
func findUser(ctx context.Context, c *route.Caller, q store.Queries, id string) (store.DirectoryUser, error) {
	row, err := q.DirectoryUser(ctx, c.Organisation, id)
	if apierr.IsNotFound(err) {
		return row, notFound("user", id)
	}
	return row, err
}

// writeUser writes a user with the attributes that the request selects.
func (f *family) writeUser(ctx context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request, row store.DirectoryUser) error {
	p, err := projection(r, f.users)
	if err != nil {
		return answer(w, err)
	}
	list, err := f.showUsers(ctx, c, []store.DirectoryUser{row}, p)
	if err != nil {
		return err
	}
	return writeOne(w, r, list[0], row.Version)
}

// decodeUser reads the user that a request sends completely.
func (f *family) decodeUser(c *route.Caller, r *http.Request) (u user, err error) {
	if err := checkType(r); err != nil {
		return u, err
	}
	attributes, err := f.users.Decode(c.Body())
	if err != nil {
		return u, err
	}
	return f.readUser(attributes)
}

func (f *family) createUser(ctx context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
	u, err := f.decodeUser(c, r)
	if err != nil {
		return answer(w, err)
	}
	p, err := projection(r, f.users)
	if err != nil {
		return answer(w, err)
	}
	row, err := u.row(store.DirectoryUser{ID: c.NewID(), Organisation: c.Organisation, Version: 1, CreatedAt: c.Now, UpdatedAt: c.Now})
	if err != nil {
		return err
	}
	c.SetAuditSubject("", row.ID)
	if err := c.Change(ctx, func(tx *store.Tx) error { return f.insertUser(ctx, c, tx, u, row) }); err != nil {
		return answer(w, inUse(err))
	}
	list, err := f.showUsers(ctx, c, []store.DirectoryUser{row}, p)
	if err != nil {
		return err
	}
	w.Header().Set("Location", location(c, "/Users/"+row.ID))
	w.Header().Set("Etag", etag(row.Version))
	return write(w, http.StatusCreated, list[0])
}

// errInUse is the error for a name or address that somebody has. It does not say in which
// organisation.
var errInUse = conflict("a user with this userName or e-mail address exists already")

// inUse converts the error of a violated constraint.
func inUse(err error) error {
	if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind == apierr.Conflict {
		return errInUse
	}
	return err
}

// insertUser adds a user to the organisation and its directory.
func (f *family) insertUser(ctx context.Context, c *route.Caller, tx *store.Tx, u user, row store.DirectoryUser) error {
	account := u.account(c, row.ID)
	if err := f.checkFree(ctx, c, tx, row, account.Email); err != nil {
		return err
	}
	if err := tx.CreateUser(ctx, c.Organisation, account); err != nil {
		return err
	}
	if !row.Active {
		if err := tx.SetMemberStatus(ctx, c.Organisation, row.ID, deactivated, c.Now); err != nil {
			return err
		}
	}
	if err := tx.CreateDirectoryUser(ctx, row); err != nil {
		return err
	}
	return f.putGroups(ctx, c, tx, u, row.ID)
}

// checkFree returns an error if another user has the name or the address.
func (f *family) checkFree(ctx context.Context, c *route.Caller, tx *store.Tx, row store.DirectoryUser, email string) error {
	same := &scim.Filter{Op: scim.Equal, Path: "username", Value: row.NameKey}
	others, _, err := tx.DirectoryUsers(ctx, c.Organisation, same, store.Span{Limit: 1})
	if err != nil {
		return err
	}
	if len(others) > 0 && others[0].ID != row.ID {
		return errInUse
	}
	switch id, err := tx.UserIDByEmail(ctx, email); {
	case err != nil:
		return err
	case id != "" && id != row.ID:
		return errInUse
	}
	// A user whom an administrator added by the address that is the user name.
	switch id, err := tx.MemberIDByEmail(ctx, c.Organisation, row.NameKey); {
	case err != nil:
		return err
	case id != "" && id != row.ID:
		return errInUse
	}
	if f.CheckEmail == nil {
		return nil
	}
	return f.CheckEmail(ctx, tx.Queries, c.Organisation, email)
}

func (f *family) deleteUser(ctx context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("user")
	c.SetAuditSubject("", id)
	err := c.Change(ctx, func(tx *store.Tx) error {
		row, err := findUser(ctx, c, tx.Queries, id)
		if err == nil {
			err = checkMatch(r, row.Version)
		}
		if err == nil {
			err = endAccess(ctx, c, tx, id)
		}
		if err != nil {
			return err
		}
		return tx.RemoveUser(ctx, c.Organisation, id, c.Now)
	})
	if err != nil {
		return answer(w, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
