package directory_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/controlplane/directory"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

func TestOnlyTokensOfTheDirectoryOpenSCIM(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		ann := b.user("ann")
		for _, tt := range []struct {
			token string
			want  int
		}{
			{" ", 401}, {"mgd-unknown", 401}, {"root", 403}, {b.other, 404}, {b.token, 200},
		} {
			w := b.send(call{method: "GET", path: "/scim/v2/Users/" + ann, token: tt.token})
			if w.Code != tt.want {
				t.Errorf("token %q: %d %s, want %d", tt.token, w.Code, w.Body, tt.want)
			}
			if w.Code != 200 && !strings.Contains(w.Body.String(), "api:messages:2.0:Error") {
				t.Errorf("token %q: %s is not an error of SCIM", tt.token, w.Body)
			}
		}
		route.Add(b.api, route.Route{Method: "GET", Path: "/everybody", Name: "everybody"},
			func(context.Context, *route.Caller, *struct{}) (*route.Empty, error) { return &route.Empty{}, nil })
		if w := b.send(call{method: "GET", path: "/v1/everybody"}); w.Code != http.StatusForbidden {
			t.Errorf("the token opens a route without a scope: %d %s", w.Code, w.Body)
		}
		if w := b.send(call{method: "GET", path: "/v1/scim/tokens"}); w.Code != http.StatusForbidden {
			t.Errorf("the token lists tokens: %d %s", w.Code, w.Body)
		}
	})
}

func TestDirectoriesOfOthersChangeNothing(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		ann := b.user("ann@example.com")
		staff := b.group("Staff", ann)
		for _, c := range []call{
			{method: "PUT", path: "/Users/" + ann, body: `{"userName":"other"}`},
			{method: "PATCH", path: "/Users/" + ann, body: `{"Operations":[{"op":"replace","path":"active","value":false}]}`},
			{method: "DELETE", path: "/Users/" + ann},
			{method: "GET", path: "/Groups/" + staff},
			{method: "PUT", path: "/Groups/" + staff, body: `{"displayName":"x"}`},
			{method: "PATCH", path: "/Groups/" + staff, body: `{"Operations":[{"op":"remove","path":"members"}]}`},
			{method: "DELETE", path: "/Groups/" + staff},
		} {
			c.token, c.path = b.other, "/v1/scim/v2"+c.path
			if w := b.send(c); w.Code != http.StatusNotFound {
				t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
			}
		}
		// Neither the user nor a member of a group of the other organisation can be taken.
		w := b.send(call{method: "POST", path: "/v1/scim/v2/Groups", token: b.other, body: `{"displayName":"G","members":[{"value":"` + ann + `"}]}`})
		if w.Code != http.StatusCreated || strings.Contains(w.Body.String(), ann) {
			t.Errorf("a member of another organisation: %d %s", w.Code, w.Body)
		}
		own := b.send(call{method: "POST", path: "/v1/scim/v2/Users", body: `{"userName":"ann2","emails":[{"value":"ann@example.com"}]}`})
		foreign := b.send(call{method: "POST", path: "/v1/scim/v2/Users", token: b.other, body: `{"userName":"ann@example.com"}`})
		if own.Code != http.StatusConflict || own.Body.String() != foreign.Body.String() {
			t.Errorf("the refusals of taken addresses differ: %s and %d %s", own.Body, foreign.Code, foreign.Body)
		}
		if u := b.scim(200, "GET", "/Users/"+ann, ""); u["userName"] != "ann@example.com" || u["active"] != true {
			t.Errorf("the user is %v", u)
		}
	})
}

func TestTwoTokensAreValidDuringARotation(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		made := b.admin(200, "POST", "/scim/tokens", `{"name":"second"}`)
		second, _ := made["token"].(string)
		if !access.IsDirectoryToken(second) || made["url"] != "http://listen.example/v1/scim/v2" {
			t.Fatalf("created %v", made)
		}
		b.admin(409, "POST", "/scim/tokens", `{"name":"third"}`)
		for _, token := range []string{b.token, second} {
			if w := b.send(call{method: "GET", path: "/scim/v2/Users", token: token}); w.Code != 200 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
		list := b.admin(200, "GET", "/scim/tokens", "")
		data := list["data"].([]any)
		if len(data) != 2 || strings.Contains(toJSON(list), second) {
			t.Fatalf("listed %v", list)
		}
		for _, e := range data {
			if e.(map[string]any)["last_used_at"] != "2026-05-01T12:00:00.000Z" {
				t.Errorf("last use of %v", e)
			}
		}
		b.admin(200, "DELETE", "/scim/tokens/token-of-"+store.DefaultOrganisation, "")
		b.admin(404, "DELETE", "/scim/tokens/token-of-"+store.DefaultOrganisation, "")
		b.admin(404, "DELETE", "/scim/tokens/token-of-"+otherOrganisation, "")
		if w := b.send(call{method: "GET", path: "/scim/v2/Users"}); w.Code != 401 {
			t.Errorf("the deleted token: %d %s", w.Code, w.Body)
		}
	})
}
