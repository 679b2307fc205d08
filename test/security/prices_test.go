package security

import (
	"net/http"
	"testing"
)

func TestCallersBoundByABudgetSetNoPrices(t *testing.T) {
	t.Parallel()
	g := launch(t, options{settings: "version: 1\nsecrets:\n  environment: [ORG_*]\n"})
	manager := g.member(t, "manager", "member", `[{"id":"default","role":"manager"}]`)
	admin := g.member(t, "admin", "member", `[{"id":"default","role":"admin"}]`)
	g.create(t, rootKey, "/v1/integrations", `{"name":"own","slug":"own","ai_provider_id":"openai","key":"sk-x","workspace_id":"default"}`, "slug")
	const models = "/v1/integrations/own/models?workspace_id=default"
	const free = `"pricing_config":{"type":"static","pay_as_you_go":{"request_token":{"price":0},"response_token":{"price":0}}}`
	g.as(t, rootKey, "PUT", models, `{"models":[{"slug":"dear","enabled":true,"is_custom":true,"base_model_slug":"gpt-4o"}]}`).ok(t)
	bound := g.mint(t, rootKey, `["workspace_integrations.update","workspace_integrations.read"]`, `,"usage_limits":{"credit_limit":5}`).secret
	azure := func(model, version string) string {
		return `"cloud_c_resource_name":"r","cloud_c_deployment_config":[{"alias":"a","cloud_c_deployment_name":"d","cloud_c_api_version":"` + version + `","cloud_c_model_slug":"` + model + `"}]`
	}
	g.create(t, rootKey, "/v1/integrations", `{"name":"az","slug":"az","ai_provider_id":"azure-openai","key":"sk-x","workspace_id":"default","configurations":{`+azure("gpt-4o", "v1")+`}}`, "slug")
	g.create(t, rootKey, "/v1/integrations", `{"name":"vx","slug":"vx","ai_provider_id":"vertex-ai","key":"sk-x","workspace_id":"default","configurations":{"cloud_b_region":"global","cloud_b_project_id":"p"}}`, "slug")
	virtual := "/v1/virtual-keys/" + g.create(t, rootKey, "/v1/virtual-keys", `{"name":"vk","provider":"azure-openai","key":"sk-x","workspace_id":"default",`+azure("gpt-4o", "v1")+`}`, "data.slug")
	g.create(t, rootKey, "/v1/secret-references", `{"name":"theirs","slug":"theirs","manager_type":"environment","secret_path":"ORG_KEY","allowed_hosts":["r.openai.azure.com"]}`, "slug")
	const mapping = `"secret_mappings":[{"target_field":"key","secret_reference_id":"theirs"}]`
	const in = "?workspace_id=default"
	open := func(t *testing.T) {
		g.as(t, rootKey, "PUT", "/v1/workspaces/default", `{"usage_limits":[]}`).ok(t)
	}
	attack(t, "escalation", "a manager can set prices where no budget binds", func(t *testing.T) {
		open(t)
		g.as(t, manager, "PUT", models, `{"models":[{"slug":"mine","enabled":true,`+free+`}]}`).ok(t)
	})
	attack(t, "escalation", "a key with a budget can't set prices", func(t *testing.T) {
		g.as(t, bound, "PUT", models, `{"models":[{"slug":"gpt-4o","enabled":true,`+free+`}]}`).refused(t, http.StatusForbidden, "budget")
	})
	attack(t, "escalation", "a key with a budget of a lower rank can't set prices", func(t *testing.T) {
		k := g.mint(t, rootKey, `["workspace_integrations.update","workspace_integrations.read"]`, "")
		g.as(t, k.secret, "PUT", models, `{"models":[{"slug":"cheap","enabled":true,"is_custom":true,`+free+`}]}`).ok(t)
		g.as(t, manager, "PUT", "/v1/api-keys/"+k.id, `{"usage_limits":{"credit_limit":5}}`).ok(t)
		g.as(t, k.secret, "PUT", models, `{"models":[{"slug":"cheaper","enabled":true,"is_custom":true,`+free+`}]}`).refused(t, http.StatusForbidden, "budget")
	})
	for _, who := range []struct{ name, token string }{{"a manager", manager}, {"a workspace admin", admin}} {
		for _, c := range []struct{ name, method, target, body string }{
			{"make a model free", "PUT", models, `{"models":[{"slug":"gpt-4o","enabled":true,` + free + `}]}`},
			{"make a further model free", "PUT", models, `{"models":[{"slug":"free","enabled":true,"is_custom":true,` + free + `}]}`},
			{"bill a model as a cheaper one", "PUT", models, `{"models":[{"slug":"dear","enabled":true,"base_model_slug":"gpt-4o-mini"}]}`},
			{"delete a model with its price", "DELETE", models + "&slugs=%20dear", ""},
			{"make all models free", "PUT", "/v1/integrations/own" + in, `{"pricing_adjustments":{"default":{"multiplier":0}}}`},
			{"make a new integration that is free", "POST", "/v1/integrations", `{"name":"n","ai_provider_id":"openai","key":"sk-x","workspace_id":"default","pricing_adjustments":{"default":{"multiplier":0}}}`},
			{"say that its capacity is paid for", "PUT", "/v1/integrations/vx" + in, `{"configurations":{"cloud_b_region":"global","cloud_b_project_id":"p","skip_ptu_cost_attribution":true}}`},
			{"make a new integration whose capacity is paid for", "POST", "/v1/integrations", `{"name":"n","ai_provider_id":"vertex-ai","key":"sk-x","workspace_id":"default","configurations":{"cloud_b_region":"global","cloud_b_project_id":"p","skip_ptu_cost_attribution":true}}`},
			{"bill a deployment as a cheaper model", "PUT", "/v1/integrations/az" + in, `{"configurations":{` + azure("gpt-4o-mini", "v1") + `}}`},
			{"bill a deployment of a virtual key as a cheaper model", "PUT", virtual + in, `{` + azure("gpt-4o-mini", "v1") + `}`},
		} {
			attack(t, "escalation", who.name+" whose workspace has a budget of the organisation can't "+c.name, func(t *testing.T) {
				g.as(t, rootKey, "PUT", "/v1/workspaces/default", `{"usage_limits":[{"credit_limit":1000}]}`).ok(t)
				g.as(t, who.token, c.method, c.target, c.body).refused(t, http.StatusForbidden, "budget")
				g.as(t, who.token, "PUT", models, `{"models":[{"slug":"dear","enabled":true,"name":"renamed"}]}`).ok(t)
				g.as(t, who.token, "PUT", "/v1/integrations/az"+in, `{"name":"renamed","key":"sk-y","configurations":{`+azure("gpt-4o", "v2")+`}}`).ok(t)
			})
		}
	}
	attack(t, "escalation", "a manager can name deployments of their own credential, and not bill those of another's", func(t *testing.T) {
		g.as(t, rootKey, "PUT", "/v1/workspaces/default", `{"usage_limits":[{"credit_limit":1000}]}`).ok(t)
		own := `{"name":"mine","slug":"mine","ai_provider_id":"azure-openai","workspace_id":"default","configurations":{` + azure("gpt-4o-mini", "v1") + `},`
		g.as(t, manager, "POST", "/v1/integrations", own+mapping+`}`).refused(t, http.StatusForbidden, "budget")
		g.as(t, manager, "POST", "/v1/integrations", own+`"key":"sk-mine"}`).ok(t)
		g.as(t, manager, "PUT", "/v1/integrations/mine"+in, `{`+mapping+`}`).refused(t, http.StatusForbidden, "budget")
	})
	for _, c := range []struct{ name, target, set, lift string }{
		{"provider", "/v1/providers/own" + in, `{"usage_limits":{"credit_limit":5}}`, `{"usage_limits":null}`},
		{"integration", "/v1/integrations/own/workspaces", `{"workspaces":[{"id":"default","enabled":true,"usage_limits":[{"credit_limit":10}]}]}`, `{"workspaces":[{"id":"default","enabled":true,"usage_limits":[]}]}`},
	} {
		attack(t, "escalation", "a manager whose "+c.name+" has a budget of the organisation can't set prices", func(t *testing.T) {
			open(t)
			g.as(t, rootKey, "PUT", c.target, c.set).ok(t)
			g.as(t, manager, "PUT", models, `{"models":[{"slug":"gpt-4o","enabled":true,`+free+`}]}`).refused(t, http.StatusForbidden, "budget")
			g.as(t, rootKey, "PUT", c.target, c.lift).ok(t)
			g.as(t, manager, "PUT", models, `{"models":[{"slug":"gpt-4o","enabled":true,`+free+`}]}`).ok(t)
			g.as(t, manager, "PUT", models, `{"models":[{"slug":"gpt-4o","enabled":true,"pricing_config":null}]}`).ok(t)
		})
	}
	attack(t, "escalation", "a key made by a key with a budget can't set prices", func(t *testing.T) {
		open(t)
		maker := g.mint(t, rootKey, `["workspace_integrations.update","workspace_integrations.read","workspace_service_api_keys.create"]`, `,"usage_limits":{"credit_limit":5}`)
		child := g.mint(t, maker.secret, `["workspace_integrations.update","workspace_integrations.read"]`, "")
		g.as(t, child.secret, "PUT", models, `{"models":[{"slug":"gpt-4o","enabled":true,`+free+`}]}`).refused(t, http.StatusForbidden, "budget")
	})
	attack(t, "escalation", "a manager whose key has a budget of somebody else can't set prices", func(t *testing.T) {
		open(t)
		g.personKey(t, admin, g.userID(t, manager), `,"usage_limits":{"credit_limit":5}`)
		g.as(t, manager, "PUT", models, `{"models":[{"slug":"gpt-4o","enabled":true,`+free+`}]}`).refused(t, http.StatusForbidden, "budget")
		g.as(t, admin, "PUT", models, `{"models":[{"slug":"gpt-4o","enabled":true,`+free+`}]}`).ok(t)
	})
}
