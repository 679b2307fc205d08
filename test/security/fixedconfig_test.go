package security

import (
	"net/http"
	"strings"
	"testing"
)

func TestFixedConfigNeedsAConfig(t *testing.T) {
	g, _ := start(t)
	slug := g.config(t, `{"provider":"@stored"}`)
	for _, c := range []struct{ name, kind, defaults string }{
		{"a key that fixes no config", "workspace/service", `{"allow_config_override":false}`},
		{"a key that fixes an empty config", "workspace/service", `{"allow_config_override":false,"config_id":""}`},
		{"a key that fixes the config null", "workspace/service", `{"allow_config_override":false,"config_id":null}`},
		{"an organisation's key that fixes no config", "organisation/service", `{"allow_config_override":false}`},
	} {
		attack(t, "escalation", c.name+" is refused", func(t *testing.T) {
			scopes, place := `["models.list"]`, `"workspace_id":"default",`
			if strings.HasPrefix(c.kind, "organisation") {
				scopes, place = `["organisation_users.read"]`, ""
			}
			g.as(t, rootKey, "POST", "/v1/api-keys/"+c.kind, `{"name":"k",`+place+`"scopes":`+scopes+`,"defaults":`+c.defaults+`}`).
				refused(t, http.StatusBadRequest, "defaults.allow_config_override", "config_id")
		})
	}
	attack(t, "escalation", "a change that fixes no config is refused", func(t *testing.T) {
		k := g.mint(t, rootKey, `["models.list"]`, "")
		g.as(t, rootKey, "PUT", "/v1/api-keys/"+k.id, `{"defaults":{"allow_config_override":false}}`).refused(t, http.StatusBadRequest, "defaults.allow_config_override")
		g.as(t, rootKey, "PUT", "/v1/api-keys/"+k.id, `{"defaults":{"allow_config_override":false,"config_id":"`+slug+`"}}`).ok(t)
	})
}
