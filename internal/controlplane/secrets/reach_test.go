package secrets_test

import (
	"encoding/json"
	"strings"
	"testing"

	"modelgate/internal/identity/access"
	"modelgate/internal/testing/routetest"
)

func TestAReferenceIsTriedOut(t *testing.T) {
	t.Setenv("APP_KEY", "canary-value")
	t.Setenv("APP_JSON", `{"user":"canary-value"}`)
	b := routetest.New(t, routes.Add)
	c := b.As(access.Identity{Scopes: []access.Scope{"secret_references.read", "secret_references.create"}})
	for name, tt := range map[string]struct{ more, code string }{
		"APP_KEY":  {"", ""},
		"APP_NONE": {"", "secret_not_found"},
		"APP_JSON": {`,"secret_key":"password"`, "secret_not_found"},
		"APP_TEXT": {"", "secret_not_found"},
	} {
		c.Must("POST", "/secret-references", `{"name":"n","slug":"`+name+`","manager_type":"environment","secret_path":"`+name+`"`+tt.more+`}`, nil)
		a := c.Call("POST", "/secret-references/"+name+"/test", "")
		var got struct {
			OK     bool
			Error  *struct{ Code, Message string }
			Object string
		}
		if err := json.Unmarshal([]byte(a.Body), &got); err != nil || a.Status != 200 || got.Object != "secret-reference-test" {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
		if got.OK != (tt.code == "") || got.OK != (got.Error == nil) || got.Error != nil && (got.Error.Code != tt.code || got.Error.Message == "") {
			t.Errorf("%s: %s, want the code %q", name, a.Body, tt.code)
		}
		if strings.Contains(a.Body, "canary") {
			t.Errorf("%s: the response has the value: %s", name, a.Body)
		}
	}
	if a := b.As(access.Identity{Scopes: []access.Scope{"secret_references.update", "secret_references.list"}}).Call("POST", "/secret-references/APP_KEY/test", ""); a.Status != 403 {
		t.Errorf("without the right: %d %s", a.Status, a.Body)
	}
}
