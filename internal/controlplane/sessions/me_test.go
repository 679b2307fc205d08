package sessions_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestPeopleChangeTheirProfile(t *testing.T) {
	b, s := claimInstallation(t)
	id, err := identify(b, s.Token, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := b.As(*id)
	c.Must("PUT", "/auth/me", `{"first_name":"Ada","last_name":"Lovelace"}`, nil)
	var me struct {
		Email        string
		FirstName    string `json:"first_name"`
		LastName     string `json:"last_name"`
		Organisation struct{ Name string }
		Workspaces   []struct {
			Slug, Role string
			Rights     []string
		}
	}
	c.Must("GET", "/auth/me", "", &me)
	if me.FirstName != "Ada" || me.LastName != "Lovelace" || me.Email != "boss@example.com" || len(me.Workspaces) != 1 ||
		me.Workspaces[0].Role != "admin" || len(me.Workspaces[0].Rights) < 10 {
		t.Errorf("me %+v", me)
	}
	const next = "another password of some length"
	a := c.Call("PUT", "/auth/me", `{"password":{"current":"not the password","new":"`+next+`"}}`)
	if a.Status != http.StatusBadRequest || !strings.Contains(a.Body, `"param":"password.current"`) {
		t.Errorf("with a wrong password: %d %s", a.Status, a.Body)
	}
	c.Must("PUT", "/auth/me", `{"password":{"current":"`+password+`","new":"`+next+`"}}`, nil)
	expect(t, "the old password", try(b.Nobody(), "boss@example.com", password), http.StatusUnauthorized)
	expect(t, "the new password", try(b.Nobody(), "boss@example.com", next), http.StatusOK)
}
