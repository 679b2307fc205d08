package settings

// LimitPolicy is a rate-limit or usage-limit policy, identified by its name in its workspace.
type LimitPolicy struct {
	Name        string            `json:"name" minLength:"1" maxLength:"255"`
	Workspace   string            `json:"workspace,omitempty" maxLength:"255" doc:"Slug. Without one the policy applies to all workspaces"`
	Kind        string            `json:"kind" enum:"rate,usage"`
	Description string            `json:"description,omitempty" maxLength:"500"`
	Conditions  []PolicyCondition `json:"conditions" minItems:"1" maxItems:"20" doc:"All must be met"`
	GroupBy     []string          `json:"group_by" minItems:"1" maxItems:"10" doc:"Keys; each combination of values has its own counter"`
	Type        string            `json:"type" enum:"requests,tokens,cost,seconds" doc:"cost and seconds only for usage limits"`
	Target      string            `json:"target,omitempty" enum:",llm,mcp_tools" doc:"What it limits: requests to models (llm, the default) or messages to tool servers (mcp_tools)"`

	Unit  string   `json:"unit,omitempty" enum:",rpm,rph,rpd,rpw" doc:"Of a rate limit"`
	Value *float64 `json:"value,omitempty" doc:"Of a rate limit: an integer from 1"`

	CreditLimit       *float64 `json:"credit_limit,omitempty" doc:"Of a usage limit"`
	AlertThreshold    *float64 `json:"alert_threshold,omitempty"`
	AlertPercent      *float64 `json:"alert_threshold_percent,omitempty" minimum:"1" maximum:"99" doc:"Instead of alert_threshold: in per cent of credit_limit"`
	PeriodicReset     string   `json:"periodic_reset,omitempty" enum:",monthly,weekly"`
	PeriodicResetDays int      `json:"periodic_reset_days,omitempty" minimum:"0" maximum:"365"`
	FirstReset        string   `json:"next_usage_reset_at,omitempty" format:"date-time" doc:"Time of the first reset"`
	TimeZone          string   `json:"time_zone,omitempty" maxLength:"64" doc:"Time zone of periodic resets, such as Europe/Berlin; defaults to UTC"`
	OnBudgetEnd       string   `json:"on_budget_end,omitempty" enum:",finish,stop"`

	OnStoreDown string      `json:"on_store_down,omitempty" enum:",cached,open,closed" doc:"Defaults to cached"`
	Loop        *PolicyLoop `json:"loop_detection,omitempty"`
}

// PolicyCondition is a condition of a policy.
type PolicyCondition struct {
	Key      string   `json:"key" maxLength:"255"`
	Value    []string `json:"value" minItems:"1" maxItems:"100" doc:"One of these. Workspaces by their slugs, keys and users by their ids"`
	Excludes []string `json:"excludes,omitempty" maxItems:"100" doc:"Matches none of these"`
}

// PolicyLoop are the thresholds of loop detection. Zero is none.
type PolicyLoop struct {
	SameCalls int `json:"same_tool_call,omitempty" minimum:"0" maximum:"10000"`
	Stalled   int `json:"context_growth_without_progress,omitempty" minimum:"0" maximum:"10000"`
}
