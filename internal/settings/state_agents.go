package settings

// AgentIntegration is the address of an agent with its credentials. A credential that the file
// leaves out keeps its stored value.
type AgentIntegration struct {
	Slug        string `json:"slug" pattern:"^[a-zA-Z0-9_-]+$" maxLength:"64"`
	Workspace   string `json:"workspace,omitempty" maxLength:"255" doc:"Slug; absent for an integration of the organisation"`
	Name        string `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Description string `json:"description,omitempty" maxLength:"1024"`
	URL         string `json:"url" minLength:"1" maxLength:"2048" doc:"Address below which the agent has its card"`
	Auth        string `json:"auth_type" enum:"none,headers,oauth_client_credentials"`
	Status      string `json:"status,omitempty" enum:"active,disabled" doc:"Defaults to active"`

	Configurations MCPConfiguration `json:"configurations,omitzero"`

	AllWorkspaces bool            `json:"all_workspaces,omitempty" doc:"Access of workspaces that are not listed"`
	Workspaces    map[string]bool `json:"workspaces,omitempty" maxProperties:"1000" doc:"Access by slug"`

	Off    []string           `json:"off,omitempty" maxItems:"10" doc:"tool/message switches messages off"`
	Prices map[string]float64 `json:"prices,omitempty" maxProperties:"10" doc:"message: dollars for a message"`
}

// AgentServer is an agent of a workspace.
type AgentServer struct {
	Workspace   string          `json:"workspace,omitempty" maxLength:"255" doc:"Slug; defaults to the first workspace"`
	Slug        string          `json:"slug" minLength:"3" maxLength:"50"`
	Name        string          `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Description string          `json:"description,omitempty" maxLength:"500"`
	Integration string          `json:"agent_integration" minLength:"1" maxLength:"64" doc:"Slug"`
	Status      string          `json:"status,omitempty" enum:"active,disabled" doc:"Defaults to active"`
	HoldChanged bool            `json:"hold_changed,omitempty"`
	Access      string          `json:"default_user_access,omitempty" enum:"allow,deny" doc:"Defaults to allow"`
	Users       map[string]bool `json:"user_access,omitempty" maxProperties:"1000" doc:"Access by e-mail address"`

	Off    []string           `json:"off,omitempty" maxItems:"10" doc:"tool/message switches messages off"`
	Prices map[string]float64 `json:"prices,omitempty" maxProperties:"10" doc:"message: dollars for a message"`
}
