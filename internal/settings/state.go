package settings

// What follows are objects of the control plane as a file has them. They name
// one another by slugs, people by e-mail addresses and keys by hashes: ids are
// an installation's own. What counts up or runs out is in no file.

// Organisation is what a file says of the organisation itself.
type Organisation struct {
	Name     string `json:"name,omitempty" maxLength:"255"`
	Settings Object `json:"settings,omitempty" doc:"As PUT /v1/admin/organisation takes them"`
}

// Workspace is a part of the organisation.
type Workspace struct {
	Slug             string  `json:"slug" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*$" maxLength:"255"`
	Name             string  `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Icon             string  `json:"icon,omitempty" maxLength:"255"`
	Description      string  `json:"description,omitempty" maxLength:"1024"`
	Defaults         Object  `json:"defaults,omitempty" doc:"metadata, input_guardrails and output_guardrails of requests that bring none"`
	Settings         Object  `json:"settings,omitempty"`
	SecuritySettings Object  `json:"security_settings,omitempty" doc:"What roles may see and change"`
	UsageLimits      []Usage `json:"usage_limits,omitempty" maxItems:"10"`
	RateLimits       []Rate  `json:"rate_limits,omitempty" maxItems:"10"`
}

// Member is a person of the organisation. Passwords are in no file.
type Member struct {
	Email      string            `json:"email" minLength:"3" maxLength:"320" pattern:"^[^@\\s]+@[^@\\s]+$"`
	FirstName  string            `json:"first_name,omitempty" maxLength:"255"`
	LastName   string            `json:"last_name,omitempty" maxLength:"255"`
	Role       string            `json:"role,omitempty" enum:"owner,admin,member" doc:"In the organisation; member when absent"`
	Disabled   bool              `json:"disabled,omitempty"`
	Workspaces map[string]string `json:"workspaces,omitempty" doc:"admin, manager or member, by the workspace's slug"`
}

// Guardrail is a saved list of checks and what follows from their verdicts.
type Guardrail struct {
	Slug      string   `json:"slug" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*$" maxLength:"255"`
	Workspace string   `json:"workspace,omitempty" maxLength:"255" doc:"Slug; absent for one of the organisation"`
	Name      string   `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Checks    []Object `json:"checks" minItems:"1" maxItems:"100" doc:"As POST /v1/guardrails takes them"`
	Actions   Object   `json:"actions,omitempty"`
}

// SecretReference says where a secret is kept that is not stored here.
type SecretReference struct {
	Slug        string            `json:"slug" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*$" maxLength:"255"`
	Name        string            `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Description string            `json:"description,omitempty" maxLength:"1024"`
	Manager     string            `json:"manager_type" enum:"environment,file,hashicorp_vault,cloud_a_secrets,cloud_c_vault"`
	Auth        map[string]string `json:"auth_config,omitempty" maxProperties:"32" doc:"How the manager is reached; secrets as ${NAME} or sealed"`
	Path        string            `json:"secret_path" minLength:"1" maxLength:"1024"`
	Key         string            `json:"secret_key,omitempty" maxLength:"255" doc:"Which value of a secret that has several"`
	Workspaces  []string          `json:"allowed_workspaces,omitempty" maxItems:"1000" doc:"Slugs; absent for all"`
	Providers   []string          `json:"allowed_providers,omitempty" maxItems:"200" doc:"Ids of the providers that it may be sent to; absent for all"`
	Hosts       []string          `json:"allowed_hosts,omitempty" maxItems:"100" doc:"Hosts that it may be sent to in addition to the providers' own"`
	Tags        map[string]string `json:"tags,omitempty" maxProperties:"64"`
}

// Integration is someone's credentials at a provider. A secret that the file
// leaves out stays as it is stored.
type Integration struct {
	Slug           string             `json:"slug" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*$" maxLength:"255"`
	Workspace      string             `json:"workspace,omitempty" maxLength:"255" doc:"Slug of the only workspace that has it; absent for the organisation's"`
	Name           string             `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Description    string             `json:"description,omitempty" maxLength:"1024"`
	Provider       string             `json:"provider" minLength:"1" maxLength:"128" doc:"Id of a row of the provider table"`
	APIKey         string             `json:"api_key,omitempty" doc:"${NAME} for an environment variable, or a sealed value"`
	CustomHost     string             `json:"custom_host,omitempty" maxLength:"2048"`
	Options        map[string]string  `json:"options,omitempty" maxProperties:"64" doc:"Settings of the provider; secrets as ${NAME} or sealed"`
	Headers        map[string]string  `json:"custom_headers,omitempty" maxProperties:"32" doc:"Sent with each request; each as ${NAME} or sealed"`
	Deployed       []ModelDeployment  `json:"deployment_config,omitempty" maxItems:"100" doc:"Models that the provider serves under names of its own"`
	Reserved       bool               `json:"reserved,omitempty" doc:"Capacity is paid for, so that requests cost nothing"`
	SecretMappings []SecretMapping    `json:"secret_mappings,omitempty" maxItems:"64"`
	Pricing        Object             `json:"pricing_adjustments,omitempty"`
	Tags           map[string]string  `json:"tags,omitempty" maxProperties:"64"`
	OnlyModels     bool               `json:"only_models,omitempty" doc:"Models that are not listed are refused"`
	Implicit       bool               `json:"implicit,omitempty" doc:"It was made for one provider, as a virtual key, and goes with it"`
	Global         *DefaultAccess     `json:"global,omitempty" doc:"What workspaces get that are not listed"`
	Models         []IntegrationModel `json:"models,omitzero"`
	Workspaces     []Grant            `json:"workspaces,omitzero"`
}

// ModelDeployment is a model under its provider's own name.
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

// DefaultAccess is what every workspace gets of an integration.
type DefaultAccess struct {
	Enabled     bool    `json:"enabled,omitempty"`
	UsageLimits []Usage `json:"usage_limits,omitempty" maxItems:"10"`
	RateLimits  []Rate  `json:"rate_limits,omitempty" maxItems:"10"`
}

// IntegrationModel is what an integration says of one model.
type IntegrationModel struct {
	Slug       string            `json:"slug" minLength:"1" maxLength:"255" doc:"As requests have it"`
	Name       string            `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Disabled   bool              `json:"disabled,omitempty"`
	Custom     bool              `json:"is_custom,omitempty" doc:"The provider's catalogue does not have it"`
	Finetune   bool              `json:"is_finetune,omitempty"`
	BaseModel  string            `json:"base_model_slug,omitempty" maxLength:"255"`
	Pricing    Object            `json:"pricing_config,omitempty"`
	CustomHost string            `json:"custom_host,omitempty" maxLength:"2048"`
	Headers    map[string]string `json:"custom_headers,omitempty" maxProperties:"32" doc:"Each as ${NAME} or sealed"`
}

// Grant is whether and how far a workspace may use an integration.
type Grant struct {
	Workspace   string  `json:"workspace" minLength:"1" maxLength:"255" doc:"Slug"`
	Disabled    bool    `json:"disabled,omitempty"`
	UsageLimits []Usage `json:"usage_limits,omitempty" maxItems:"10"`
	RateLimits  []Rate  `json:"rate_limits,omitempty" maxItems:"10"`

	CreateProvider *bool `json:"create_default_provider,omitempty" doc:"false makes no provider in a workspace that has none of the integration"`
}

// Deployment is a gateway of the organisation, or several that act as one.
type Deployment struct {
	Slug         string   `json:"slug" pattern:"^[A-Za-z0-9_-][A-Za-z0-9._-]*$" maxLength:"255"`
	Name         string   `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Type         string   `json:"type,omitempty" enum:"production,non-production" doc:"production when absent"`
	Inactive     bool     `json:"inactive,omitempty"`
	Config       Object   `json:"config,omitempty"`
	Workspaces   []string `json:"workspaces,omitempty" maxItems:"1000" doc:"Slugs; absent for all"`
	AuthSettings Object   `json:"auth_settings,omitempty"`
	ClientSHA256 string   `json:"client_sha256" pattern:"^[0-9a-f]{64}$" doc:"Hash of the secret it identifies itself by"`
}

// Usage is a budget. What was used of it is no part of a file.
type Usage struct {
	Type              string   `json:"type,omitempty" enum:"cost,tokens" doc:"cost when absent"`
	CreditLimit       *float64 `json:"credit_limit,omitempty" minimum:"1" maximum:"1000000000000000" doc:"US dollars, or at least 100 tokens"`
	AlertThreshold    *float64 `json:"alert_threshold,omitempty" minimum:"1" maximum:"1000000000000000"`
	PeriodicReset     string   `json:"periodic_reset,omitempty" enum:"monthly,weekly"`
	PeriodicResetDays int      `json:"periodic_reset_days,omitempty" minimum:"1" maximum:"365"`
}

// Rate is how much is let through in a fixed window of time.
type Rate struct {
	Type  string `json:"type" enum:"requests,tokens"`
	Unit  string `json:"unit" enum:"rps,rpm,rph,rpd,rpw"`
	Value int64  `json:"value" minimum:"0" maximum:"1000000000000"`
}

// Rotation is when a key is to get another secret.
type Rotation struct {
	Period       string `json:"rotation_period,omitempty" enum:"weekly,monthly"`
	PeriodDays   int    `json:"rotation_period_days,omitempty" minimum:"1" maximum:"365"`
	NextAt       string `json:"next_rotation_at,omitempty" format:"date-time"`
	TransitionMS int64  `json:"key_transition_period_ms,omitempty" minimum:"0" maximum:"7776000000" doc:"How long the secret before a rotation is accepted; 0 ends it at once"`
}
