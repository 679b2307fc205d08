package route_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

type renameInput struct {
	Body struct {
		Name string `json:"name" maxLength:"20"`
	}
}

// newRenaming returns an API with a route that renames the default organisation.
func newRenaming(db *store.DB) *route.API {
	a := route.New(route.Deps{DB: db})
	route.Add(a, route.Route{Method: http.MethodPut, Path: "/name", Name: "rename", Resource: "organisation"},
		func(ctx context.Context, c *route.Caller, in *renameInput) (*route.Empty, error) {
			o, err := c.DB().Organisation(ctx, c.Organisation)
			if err != nil {
				return nil, err
			}
			if o.Name == in.Body.Name {
				return nil, route.Invalid("name", "is taken")
			}
			o.Name = in.Body.Name
			return &route.Empty{}, c.Change(ctx, func(tx *store.Tx) error { return tx.UpdateOrganisation(ctx, o) })
		})
	return a
}

func TestOperationsShareOneChange(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		a := newRenaming(db)
		rename := func(tx *store.Tx, body string) error {
			return a.Do(t.Context(), tx, route.Operation{Organisation: store.DefaultOrganisation, Method: http.MethodPut, Path: "/name", Body: []byte(body)})
		}
		name := func() string {
			o, err := db.Organisation(t.Context(), store.DefaultOrganisation)
			if err != nil {
				t.Fatal(err)
			}
			return o.Name
		}
		before := name()
		err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
			return errors.Join(rename(tx, `{"name":"one"}`), rename(tx, `{"name":"one"}`)) // the second reads the first
		})
		if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Param != "name" || e.Message != "name is taken" || name() != before {
			t.Errorf("a failed change: %v, the name is %q", err, name())
		}
		for body, want := range map[string]string{`{"name":1}`: "expected string", `{"colour":"red"}`: "is required", `{"name":"123456789012345678901"}`: "length <= 20"} {
			err := db.Update(t.Context(), nil, func(tx *store.Tx) error { return rename(tx, body) })
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "AB01") {
				t.Errorf("%s: %v, want %q", body, err, want)
			}
		}
		if err := db.Update(t.Context(), nil, func(tx *store.Tx) error { return rename(tx, `{"name":"two"}`) }); err != nil || name() != "two" {
			t.Errorf("%v, the name is %q", err, name())
		}
	})
}
