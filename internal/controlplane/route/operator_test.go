package route_test

import (
	"errors"
	"testing"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func TestOperatorMakesItsChangesInOne(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		a := route.New(route.Deps{DB: db})
		// rename adds a letter to the organisation's name, as it is in the change.
		rename := func(tx *store.Tx) error {
			c := a.Operator(tx, store.DefaultOrganisation)
			o, err := c.DB().Organisation(t.Context(), c.Organisation)
			if err != nil {
				return err
			}
			o.Name += "x"
			return c.Change(t.Context(), func(tx *store.Tx) error { return tx.UpdateOrganisation(t.Context(), o) })
		}
		before, err := db.Organisation(t.Context(), store.DefaultOrganisation)
		if err != nil {
			t.Fatal(err)
		}
		broken := errors.New("broken")
		for _, tt := range []struct {
			err  error
			want string
		}{{broken, before.Name}, {nil, before.Name + "xx"}} {
			err := db.Update(t.Context(), nil, func(tx *store.Tx) error { return errors.Join(rename(tx), rename(tx), tt.err) })
			after, reading := db.Organisation(t.Context(), store.DefaultOrganisation)
			if !errors.Is(err, tt.err) || reading != nil || after.Name != tt.want {
				t.Errorf("a change that ends with %v: %v, the name is %q, want %q", tt.err, err, after.Name, tt.want)
			}
		}
	})
}
