package integrations_test

import (
	"fmt"
	"strings"
	"testing"
)

type models struct {
	Total          int
	AllowAllModels bool `json:"allow_all_models"`
	Models         []struct {
		Slug, Name     string
		Enabled        bool
		IsCustom       bool    `json:"is_custom"`
		IsFinetune     bool    `json:"is_finetune"`
		BaseModel      *string `json:"base_model_slug"`
		Pricing        any     `json:"pricing_config"`
		Configurations map[string]any
	}
}

const priced = `{"type":"static","pay_as_you_go":{"request_token":{"price":0.5},"response_token":{"price":1}}}`

func TestModelsAreEnabledAddedAndRemoved(t *testing.T) {
	b := bench(t)
	c := b.Root()
	m := create(t, c, `,"slug":"main"`)
	path := "/integrations/main/models"
	c.Must("PUT", path, `{"allow_all_models":false,"models":[{"slug":"gpt-x","enabled":true},
		{"slug":"mine/v1","enabled":true,"is_custom":true,"is_finetune":true,"base_model_slug":"gpt-x","pricing_config":`+priced+`,
		 "configurations":{"custom_host":"https://models.example.com/v1","custom_headers":{"X-Key":"`+canary+`"}}}]}`, nil)
	c.Must("PUT", path, `{"models":[{"slug":"gpt-x","enabled":false},{"slug":"mine/v1","enabled":true,"configurations":{"custom_host":"https://models.example.com/v1","custom_headers":{"X-Key":"sk***aa"}}}]}`, nil)
	var got models
	c.Must("GET", path, "", &got)
	if got.Total != 2 || got.AllowAllModels || read(t, c, "main").AllowAllModels {
		t.Fatalf("%+v", got)
	}
	if one := got.Models[0]; one.Slug != "gpt-x" || one.Enabled || one.IsCustom || one.BaseModel != nil || one.Pricing != nil {
		t.Errorf("%+v", one)
	}
	two := got.Models[1]
	if !two.Enabled || !two.IsCustom || !two.IsFinetune || *two.BaseModel != "gpt-x" || !strings.Contains(fmt.Sprint(two.Pricing), "response_token:map[price:1]") ||
		fmt.Sprint(two.Configurations) != "map[custom_headers:map[X-Key:sk***aa] custom_host:https://models.example.com/v1]" {
		t.Errorf("%+v", two)
	}
	list, err := b.DB.IntegrationModels(t.Context(), m.ID)
	if err != nil || open(t, b, list[1].Sealed) != `{"headers":{"X-Key":"`+canary+`"}}` {
		t.Errorf("sealed: %v", err)
	}
	wantRefused(t, "the headers to another host", c.Call("PUT", path,
		`{"models":[{"slug":"mine/v1","enabled":true,"configurations":{"custom_host":"https://evil.example.com","custom_headers":{"X-Key":"sk***aa"}}}]}`), 400, "AB01")
	c.Must("DELETE", path+"?slugs=gpt-x,%20mine/v1,nothing", "", nil)
	if c.Must("GET", path, "", &got); got.Total != 1 || got.Models[0].Slug != "gpt-x" {
		t.Errorf("left: %+v", got)
	}
}

func TestModelsThatAreWrongInOnePlaceChangeNothing(t *testing.T) {
	b := bench(t)
	c := b.Root()
	create(t, c, `,"slug":"main"`)
	good := `{"slug":"good","enabled":true}`
	for _, body := range []string{
		`{}`, `{"models":null}`, `{"models":[` + good + `,{"slug":"x"}]}`, `{"models":[` + good + `,{"enabled":true}]}`,
		`{"models":[` + good + `,` + good + `]}`, `{"models":[` + good + `,{"slug":"","enabled":true}]}`,
		`{"models":[` + good + `,{"slug":"` + strings.Repeat("x", 256) + `","enabled":true}]}`,
		`{"models":[` + good + `,{"slug":"x","enabled":true,"is_custom":"yes"}]}`,
		`{"models":[` + good + `,{"slug":"x","enabled":true,"extra":1}]}`,
		`{"models":[` + good + `,{"slug":"x","enabled":true,"base_model_slug":"` + strings.Repeat("x", 256) + `"}]}`,
		`{"models":[` + good + `,{"slug":"x","enabled":true,"pricing_config":{"pay_as_you_go":{"request_token":{"price":-1}}}}]}`,
		`{"models":[` + good + `,{"slug":"x","enabled":true,"pricing_config":{"type":"magic"}}]}`,
		`{"models":[` + good + `,{"slug":"x","enabled":true,"pricing_config":{"a":{"b":{"c":{"d":{"e":{"f":1}}}}}}}]}`,
		`{"models":[` + good + `,{"slug":"x","enabled":true,"configurations":{"key":"` + canary + `"}}]}`,
		`{"models":[` + good + `,{"slug":"x","enabled":true,"configurations":{"custom_host":"http://127.0.0.1"}}]}`,
		`{"models":[` + good + `],"allow_all_models":"no"}`,
	} {
		wantRefused(t, body, c.Call("PUT", "/integrations/main/models", body), 400, "AB01")
	}
	wantRefused(t, "no slugs", c.Call("DELETE", "/integrations/main/models", ""), 400, "AB01")
	var got models
	if c.Must("GET", "/integrations/main/models", "", &got); got.Total != 0 || b.Changes() != 1 {
		t.Errorf("%d models, %d changes", got.Total, b.Changes())
	}
}

// A secret is looked for in every response, in the audit log and in every byte of
// the database's files.
func TestNoSecretIsSeenAnywhere(t *testing.T) {
	b := bench(t)
	c := b.Root()
	key := `"key":"` + canary + `","configurations":{"custom_host":"https://models.example.com/v1","custom_headers":{"X-Plain-Name":"` + canary + `"}}`
	var seen strings.Builder
	for _, call := range [][3]string{
		{"POST", "/integrations", `{"name":"x","slug":"main","ai_provider_id":"openai",` + key + `}`},
		{"POST", "/integrations", `{"name":"x","slug":"main","ai_provider_id":"openai",` + key + `}`},
		{"POST", "/integrations", `{"name":"","slug":"main","ai_provider_id":"openai",` + key + `}`},
		{"POST", "/integrations", `{"name":"x","ai_provider_id":"bedrock","key":"` + canary + `","configurations":{"cloud_a_access_key_id":"` + canary + `","cloud_a_secret_access_key":"` + canary + `","cloud_a_session_token":"` + canary + `","cloud_a_region":"eu-west-1"}}`},
		{"POST", "/integrations", `{"name":"x","ai_provider_id":"vertex-ai","configurations":{"cloud_b_region":"global","cloud_b_service_account_json":{"project_id":"p","private_key":"` + canary + `"}}}`},
		{"POST", "/integrations", `{"name":"x","ai_provider_id":"azure-openai","configurations":{"resourceName":"r","cloud_c_entra_client_secret":"` + canary + `","cloud_c_ad_token":"` + canary + `"}}`},
		{"POST", "/integrations", `{"name":"x","ai_provider_id":"oracle","configurations":{"oracle_region":"eu-frankfurt-1","oracle_private_key":"` + canary + `"}}`},
		{"PUT", "/integrations/main", `{"key":"` + canary + `2"}`},
		{"PUT", "/integrations/main", `{"key":"` + canary + `2","configurations":{"nonsense":"x"}}`},
		{"PUT", "/integrations/main/models", `{"models":[{"slug":"m","enabled":true,"is_custom":true,"configurations":{"custom_headers":{"X-Plain-Name":"` + canary + `"}}}]}`},
		{"POST", "/virtual-keys", `{"name":"vk","provider":"openai","key":"` + canary + `"}`},
		{"POST", "/virtual-keys", `{"name":"vk","provider":"bedrock","accessKeyId":"` + canary + `","secretAccessKey":"` + canary + `"}`},
		{"GET", "/integrations", ""}, {"GET", "/integrations/main", ""}, {"GET", "/integrations/main/models", ""},
		{"GET", "/integrations/main/workspaces", ""}, {"GET", "/providers", ""}, {"GET", "/providers/main", ""},
		{"GET", "/virtual-keys", ""}, {"GET", "/virtual-keys/main", ""},
		{"DELETE", "/integrations/main/models?slugs=m", ""}, {"DELETE", "/virtual-keys/main", ""}, {"DELETE", "/integrations/main", ""},
	} {
		a := c.Call(call[0], call[1], call[2])
		fmt.Fprintln(&seen, call[0], call[1], a.Status, a.Body)
		if a.Status == 500 {
			t.Errorf("%s %s: %s", call[0], call[1], a.Body)
		}
	}
	for _, row := range b.Query(`SELECT request_body || request_headers || query_params || uri FROM audit_logs`) {
		fmt.Fprintln(&seen, row)
	}
	if text := seen.String() + files(t, b); strings.Contains(text, canary) {
		at := strings.Index(text, canary)
		t.Errorf("the secret is seen in %q", text[max(0, at-300):at])
	}
	if n := len(b.Query(`SELECT id FROM integrations WHERE sealed <> ''`)); n != 6 {
		t.Errorf("%d integrations hold secrets", n)
	}
	if left := b.Query(`SELECT sealed FROM integrations WHERE slug = 'main'`); len(left) != 1 || left[0] != "" {
		t.Errorf("an archived integration keeps %q", left)
	}
}
