package limits

import (
	"encoding/json"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider/toolserver"
)

// CheckTools checks the patterns of what may be used of MCP servers. Nil are all, and an
// empty list is nothing.
func CheckTools(field string, patterns []string) error {
	if _, err := toolserver.ParseSelection(patterns); err != nil {
		return route.Invalid(field, "is invalid: %v", err)
	}
	return nil
}

// ToolsField returns the value of patterns for [Change]. Nil has no value.
func ToolsField(patterns []string) string {
	if patterns == nil {
		return ""
	}
	text, _ := json.Marshal(patterns) // strings can be encoded
	return string(text)
}
