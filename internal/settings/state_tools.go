package settings

// MCPIntegration is the address of an MCP server with its credentials. A credential that the
// file leaves out keeps its stored value.
type MCPIntegration struct {
	Slug        string `json:"slug" pattern:"^[a-zA-Z0-9_-]+$" maxLength:"64"`
	Workspace   string `json:"workspace,omitempty" maxLength:"255" doc:"Slug; absent for an integration of the organisation"`
	Name        string `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Description string `json:"description,omitempty" maxLength:"1024"`
	URL         string `json:"url" minLength:"1" maxLength:"2048"`
	Transport   string `json:"transport" enum:"http,sse,openapi"`
	Auth        string `json:"auth_type" enum:"none,headers,oauth_client_credentials,oauth_auto"`
	Status      string `json:"status,omitempty" enum:"active,disabled" doc:"Defaults to active"`

	Configurations MCPConfiguration `json:"configurations,omitzero"`

	AllWorkspaces bool            `json:"all_workspaces,omitempty" doc:"Access of workspaces that are not listed"`
	Workspaces    map[string]bool `json:"workspaces,omitempty" maxProperties:"1000" doc:"Access by slug"`

	Off    []string           `json:"off,omitempty" maxItems:"10000" doc:"What is switched off, such as tool/delete_issue"`
	Prices map[string]float64 `json:"prices,omitempty" maxProperties:"10000" doc:"Dollars for a call, by the name of the tool; * is for all others"`
}

// MCPConfiguration has the fields of the API with the same names, which checks them.
type MCPConfiguration struct {
	Headers      map[string]string `json:"custom_headers,omitempty" maxProperties:"32" doc:"Each as ${NAME} or sealed"`
	PassHeaders  []string          `json:"passthrough_headers,omitempty" maxItems:"32"`
	ClientID     string            `json:"client_id,omitempty" maxLength:"512"`
	Secret       string            `json:"client_secret,omitempty" doc:"As ${NAME} or sealed"`
	Scopes       []string          `json:"scopes,omitempty" maxItems:"64"`
	TokenURL     string            `json:"token_url,omitempty" maxLength:"2048"`
	AuthorizeURL string            `json:"authorization_url,omitempty" maxLength:"2048"`
	CallTimeout  int64             `json:"call_timeout,omitempty" minimum:"1" maximum:"3600"`
	IdleTimeout  int64             `json:"idle_timeout,omitempty" minimum:"1" maximum:"3600"`
	SearchAbove  int               `json:"search_above,omitempty" minimum:"1" maximum:"5000"`
	Document     string            `json:"document,omitempty" maxLength:"3145728" doc:"Of openapi: the OpenAPI document, as JSON or YAML"`
	Trust        bool              `json:"trust_annotations,omitempty"`
	Writes       string            `json:"writes,omitempty" enum:"allow,ask,deny"`
	Destroys     string            `json:"destroys,omitempty" enum:"allow,ask,deny"`
	HoldChanged  bool              `json:"hold_changed,omitempty"`
}

// MCPServer is an MCP server of a workspace.
type MCPServer struct {
	Workspace   string          `json:"workspace,omitempty" maxLength:"255" doc:"Slug; defaults to the first workspace"`
	Slug        string          `json:"slug" minLength:"3" maxLength:"50"`
	Name        string          `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Description string          `json:"description,omitempty" maxLength:"500"`
	Integration string          `json:"mcp_integration" minLength:"1" maxLength:"64" doc:"Slug"`
	Status      string          `json:"status,omitempty" enum:"active,disabled" doc:"Defaults to active"`
	Writes      string          `json:"writes,omitempty" enum:"allow,ask,deny"`
	Destroys    string          `json:"destroys,omitempty" enum:"allow,ask,deny"`
	HoldChanged bool            `json:"hold_changed,omitempty"`
	Access      string          `json:"default_user_access,omitempty" enum:"allow,deny" doc:"Defaults to allow"`
	Users       map[string]bool `json:"user_access,omitempty" maxProperties:"1000" doc:"Access by e-mail address"`

	Off    []string           `json:"off,omitempty" maxItems:"10000" doc:"What is switched off, such as tool/delete_issue"`
	Prices map[string]float64 `json:"prices,omitempty" maxProperties:"10000" doc:"Dollars for a call, by the name of the tool; * is for all others"`
}

// MCPBundle is a named selection of what the MCP servers of a workspace offer.
type MCPBundle struct {
	Workspace   string   `json:"workspace,omitempty" maxLength:"255" doc:"Slug; defaults to the first workspace"`
	Slug        string   `json:"slug" minLength:"3" maxLength:"50"`
	Name        string   `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Description string   `json:"description,omitempty" maxLength:"500"`
	Tools       []string `json:"tools" minItems:"1" maxItems:"500" doc:"Patterns such as github/tool/create_*"`
	SearchAbove int      `json:"search_above,omitempty" minimum:"1" maximum:"5000" doc:"Replaces the list by tools for searching if it has more tools"`
}
