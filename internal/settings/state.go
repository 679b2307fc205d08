package settings

import (
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"modelgate/internal/limits/quota"
)

// The following types are control-plane objects in a file. They refer to one another by
// slugs, users by e-mail addresses and keys by hashes, because ids differ between
// installations. Counters and states are not in files.

// Organisation holds the settings of the organisation.
type Organisation struct {
	Name     string `json:"name,omitempty" maxLength:"255"`
	Settings Object `json:"settings,omitempty" doc:"The settings of PUT /v1/admin/organisation"`
}

// Workspace is a part of the organisation.
type Workspace struct {
	Slug             string `json:"slug" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*$" maxLength:"255"`
	Name             string `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Icon             string `json:"icon,omitempty" maxLength:"255"`
	Description      string `json:"description,omitempty" maxLength:"1024"`
	Defaults         Object `json:"defaults,omitempty" doc:"metadata, input_guardrails and output_guardrails of requests without their own"`
	Settings         Object `json:"settings,omitempty"`
	SecuritySettings Object `json:"security_settings,omitempty" doc:"Permissions of roles"`
	UsageLimits      Usages `json:"usage_limits,omitempty" maxItems:"10"`
	RateLimits       []Rate `json:"rate_limits,omitempty" maxItems:"11"`

	Tools []string `json:"tools,omitzero" maxItems:"500" doc:"Patterns of what its keys may use of MCP servers; defaults to all, and [] is nothing"`
}

// Member is a user of the organisation. Passwords are not in files.
type Member struct {
	Email      string            `json:"email" minLength:"3" maxLength:"320" pattern:"^[^@\\s]+@[^@\\s]+$"`
	FirstName  string            `json:"first_name,omitempty" maxLength:"255"`
	LastName   string            `json:"last_name,omitempty" maxLength:"255"`
	Role       string            `json:"role,omitempty" enum:"owner,admin,member" doc:"Role in the organisation; defaults to member"`
	Disabled   bool              `json:"disabled,omitempty"`
	Workspaces map[string]string `json:"workspaces,omitempty" doc:"admin, manager or member, by the workspace's slug"`

	UsageLimits *Usage `json:"usage_limits,omitempty"`
	RateLimits  []Rate `json:"rate_limits,omitempty" maxItems:"11"`

	Tools []string `json:"tools,omitzero" maxItems:"500" doc:"Patterns of what the user may use of MCP servers; defaults to all, and [] is nothing"`
}

// Guardrail is a saved list of checks and the actions for their verdicts.
type Guardrail struct {
	Slug      string   `json:"slug" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*$" maxLength:"255"`
	Workspace string   `json:"workspace,omitempty" maxLength:"255" doc:"Slug; absent for an organisation guardrail"`
	Name      string   `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Checks    []Object `json:"checks" minItems:"1" maxItems:"100" doc:"The checks of POST /v1/guardrails"`
	Actions   Object   `json:"actions,omitempty"`
}

// GuardrailCredential holds the credentials of a partner that checks ask. A credential
// that the file leaves out keeps its stored value.
type GuardrailCredential struct {
	Partner        string            `json:"partner" minLength:"1" maxLength:"128" doc:"A family of checks, such as azure, or one check, such as azure.pii"`
	Workspace      string            `json:"workspace,omitempty" maxLength:"255" doc:"Slug; absent for credentials of the organisation"`
	Credentials    map[string]string `json:"credentials,omitempty" maxProperties:"32" doc:"By name; each as ${NAME} or sealed"`
	SecretMappings []PartnerMapping  `json:"secret_mappings,omitempty" maxItems:"32"`
}

// PartnerMapping fills a credential of a partner at run time.
type PartnerMapping struct {
	Target    string `json:"target_field" pattern:"^[A-Za-z0-9_]{1,64}$" maxLength:"64"`
	Reference string `json:"secret_reference" minLength:"1" maxLength:"255" doc:"Slug"`
	Key       string `json:"secret_key,omitempty" maxLength:"255"`
	Format    string `json:"value_format,omitempty" enum:"string,json"`
}

// SecretReference identifies a secret in a secret manager.
type SecretReference struct {
	Slug        string            `json:"slug" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*$" maxLength:"255"`
	Name        string            `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Description string            `json:"description,omitempty" maxLength:"1024"`
	Manager     string            `json:"manager_type" enum:"environment,file,hashicorp_vault,cloud_a_secrets,cloud_c_vault"`
	Auth        map[string]string `json:"auth_config,omitempty" maxProperties:"32" doc:"Address and credentials of the manager; secrets as ${NAME} or sealed"`
	Path        string            `json:"secret_path" minLength:"1" maxLength:"1024"`
	Key         string            `json:"secret_key,omitempty" maxLength:"255" doc:"Key of a secret with several values"`
	Workspaces  []string          `json:"allowed_workspaces,omitempty" maxItems:"1000" doc:"Slugs; defaults to all"`
	Providers   []string          `json:"allowed_providers,omitempty" maxItems:"200" doc:"Ids of the providers that it may be sent to; defaults to all"`
	Hosts       []string          `json:"allowed_hosts,omitempty" maxItems:"100" doc:"Hosts that it may be sent to in addition to the providers' own"`
	Tags        map[string]string `json:"tags,omitempty" maxProperties:"64"`
}

// Integration holds credentials for a provider. A secret that the file leaves out keeps
// its stored value.
type Integration struct {
	Slug           string             `json:"slug" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*$" maxLength:"255"`
	Workspace      string             `json:"workspace,omitempty" maxLength:"255" doc:"Slug of the only workspace that has it; absent for an organisation integration"`
	Name           string             `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Description    string             `json:"description,omitempty" maxLength:"1024"`
	Provider       string             `json:"provider" minLength:"1" maxLength:"128" doc:"Id of a provider"`
	APIKey         string             `json:"api_key,omitempty" doc:"${NAME} for an environment variable, or a sealed value"`
	CustomHost     string             `json:"custom_host,omitempty" maxLength:"2048"`
	Options        map[string]string  `json:"options,omitempty" maxProperties:"64" doc:"Settings of the provider; secrets as ${NAME} or sealed"`
	Headers        map[string]string  `json:"custom_headers,omitempty" maxProperties:"32" doc:"Headers sent with each request; each as ${NAME} or sealed"`
	Deployed       []ModelDeployment  `json:"deployment_config,omitempty" maxItems:"100" doc:"Models that the provider serves under the customer's names"`
	Reserved       bool               `json:"reserved,omitempty" doc:"Capacity is already paid for, so requests cost nothing"`
	SecretMappings []SecretMapping    `json:"secret_mappings,omitempty" maxItems:"64"`
	Pricing        Object             `json:"pricing_adjustments,omitempty"`
	Tags           map[string]string  `json:"tags,omitempty" maxProperties:"64"`
	OnlyModels     bool               `json:"only_models,omitempty" doc:"Rejects models that are not listed"`
	Implicit       bool               `json:"implicit,omitempty" doc:"Created for one virtual key and archived with it"`
	Global         *DefaultAccess     `json:"global,omitempty" doc:"Access of workspaces that are not listed"`
	Models         []IntegrationModel `json:"models,omitzero"`
	Workspaces     []Grant            `json:"workspaces,omitzero"`
}

// ModelDeployment is a model served under a customer's name.
type ModelDeployment struct {
	Alias      string `json:"alias,omitempty" maxLength:"255"`
	Name       string `json:"deployment_name" minLength:"1" maxLength:"255"`
	APIVersion string `json:"api_version,omitempty" maxLength:"30"`
	Model      string `json:"model_slug,omitempty" maxLength:"255"`
	Default    bool   `json:"is_default,omitempty"`
}

// SecretMapping fills a field of an integration at run time.
type SecretMapping struct {
	Target    string `json:"target_field" pattern:"^(key|(configurations|model_config)\\.[A-Za-z0-9_.-]{1,128})$" maxLength:"160"`
	Reference string `json:"secret_reference" minLength:"1" maxLength:"255" doc:"Slug"`
	Key       string `json:"secret_key,omitempty" maxLength:"255"`
	Format    string `json:"value_format,omitempty" enum:"string,json"`
}

// DefaultAccess is the access of every workspace to an integration.
type DefaultAccess struct {
	Enabled     bool   `json:"enabled,omitempty"`
	UsageLimits Usages `json:"usage_limits,omitempty" maxItems:"10"`
	RateLimits  []Rate `json:"rate_limits,omitempty" maxItems:"11"`
}

// IntegrationModel is the configuration of a model in an integration.
type IntegrationModel struct {
	Slug       string            `json:"slug" minLength:"1" maxLength:"255" doc:"Name in requests"`
	Name       string            `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Disabled   bool              `json:"disabled,omitempty"`
	Custom     bool              `json:"is_custom,omitempty" doc:"Not in the provider's catalogue"`
	Finetune   bool              `json:"is_finetune,omitempty"`
	BaseModel  string            `json:"base_model_slug,omitempty" maxLength:"255"`
	Pricing    Object            `json:"pricing_config,omitempty"`
	CustomHost string            `json:"custom_host,omitempty" maxLength:"2048"`
	Headers    map[string]string `json:"custom_headers,omitempty" maxProperties:"32" doc:"Each as ${NAME} or sealed"`
}

// Grant is the access of a workspace to an integration, with its limits.
type Grant struct {
	Workspace   string `json:"workspace" minLength:"1" maxLength:"255" doc:"Slug"`
	Disabled    bool   `json:"disabled,omitempty"`
	UsageLimits Usages `json:"usage_limits,omitempty" maxItems:"10"`
	RateLimits  []Rate `json:"rate_limits,omitempty" maxItems:"11"`

	CreateProvider *bool `json:"create_default_provider,omitempty" doc:"false creates no provider in a workspace without one of the integration"`
}

// Deployment is a gateway of the organisation, or several with one identity.
type Deployment struct {
	Slug         string   `json:"slug" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*$" maxLength:"255"`
	Name         string   `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Type         string   `json:"type,omitempty" enum:"production,non-production" doc:"Defaults to production"`
	Inactive     bool     `json:"inactive,omitempty"`
	Config       Object   `json:"config,omitempty"`
	Workspaces   []string `json:"workspaces,omitempty" maxItems:"1000" doc:"Slugs; defaults to all"`
	AuthSettings Object   `json:"auth_settings,omitempty"`
	ClientSHA256 string   `json:"client_sha256" pattern:"^[0-9a-f]{64}$" doc:"Hash of the secret with which it authenticates"`
}

// Usages are the budgets of an object that may have several. In a file they may be one
// mapping.
type Usages []Usage

// UnmarshalYAML reads a list of budgets, or one.
func (u *Usages) UnmarshalYAML(n ast.Node) error {
	list, err := readUsages(n)
	*u = list
	return err
}

// UnmarshalYAML reads a budget, or a list of one.
func (u *Usage) UnmarshalYAML(n ast.Node) error {
	list, err := readUsages(n)
	switch {
	case err != nil:
		return err
	case len(list) != 1:
		return wrongValue(n, "must be one budget: this object has no more")
	}
	*u = list[0]
	return nil
}

func readUsages(n ast.Node) (list []Usage, err error) {
	type plain Usage // without methods
	if _, many := n.(*ast.SequenceNode); !many {
		var one plain
		err = yaml.NodeToValue(n, &one, yaml.Strict())
		return []Usage{Usage(one)}, err
	}
	var all []plain
	err = yaml.NodeToValue(n, &all, yaml.Strict())
	for _, one := range all {
		list = append(list, Usage(one))
	}
	return list, err
}

// Usage is a budget without its usage, which is not in files.
type Usage struct {
	Type              string   `json:"type,omitempty" enum:"cost,tokens" doc:"Defaults to cost"`
	CreditLimit       *float64 `json:"credit_limit,omitempty" minimum:"1" maximum:"1000000000000000" doc:"US dollars, or at least 100 tokens"`
	AlertThreshold    *float64 `json:"alert_threshold,omitempty" minimum:"1" maximum:"1000000000000000"`
	AlertPercent      *float64 `json:"alert_threshold_percent,omitempty" minimum:"1" maximum:"99" doc:"Instead of alert_threshold: in per cent of credit_limit"`
	PeriodicReset     string   `json:"periodic_reset,omitempty" enum:"monthly,weekly"`
	PeriodicResetDays int      `json:"periodic_reset_days,omitempty" minimum:"1" maximum:"365"`
	TimeZone          string   `json:"time_zone,omitempty" maxLength:"64" doc:"Time zone of periodic resets, such as Europe/Berlin; defaults to UTC"`
	OnBudgetEnd       string   `json:"on_budget_end,omitempty" enum:"finish,stop" doc:"finish admits requests while anything is left of the budget; stop ends streams when it is used up, and rejects other requests whose largest possible use does not fit"`
}

// Rate limits requests or tokens in a fixed window.
type Rate = quota.Rate

// Rotation says when a key's secret is due for rotation.
type Rotation struct {
	Period       string `json:"rotation_period,omitempty" enum:"weekly,monthly"`
	PeriodDays   int    `json:"rotation_period_days,omitempty" minimum:"1" maximum:"365"`
	NextAt       string `json:"next_rotation_at,omitempty" format:"date-time"`
	TransitionMS int64  `json:"key_transition_period_ms,omitempty" minimum:"0" maximum:"7776000000" doc:"How long the previous secret stays valid; 0 revokes it at once"`
}
