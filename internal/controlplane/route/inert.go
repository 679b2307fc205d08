package route

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"modelgate/api"
)

// inert are the fields that are stored and shown but have no effect in this version, by
// family of routes. A path part [] stands for each element of an array. The response to
// a request that sets one names it in [api.HeaderParams].
var inert = map[string][]string{
	"/workspaces":       inWorkspaces,
	"/admin/workspaces": inWorkspaces,
	"/admin/users":      {"workspace_api_key_details"},
	"/integrations": {
		"models.[].pricing_config.fixed_cost", "models.[].pricing_config.finetune_config", "models.[].pricing_config.calculate",
	},
}

var inWorkspaces = []string{"settings.debug_log", "settings.user_key_metadata", "settings.user_key_metadata_override",
	"defaults.user_api_key_config"}

// ignoredFields returns the fields of a body that have no effect, as items of
// [api.HeaderParams].
func ignoredFields(path string, body []byte) string {
	path = strings.TrimPrefix(path, api.BasePath)
	var items []string
	var doc any
	for family, fields := range inert {
		if below, ok := strings.CutPrefix(path, family); !ok || below != "" && below[0] != '/' {
			continue
		}
		if doc == nil && json.Unmarshal(body, &doc) != nil {
			return ""
		}
		for _, field := range fields {
			if isSet(doc, strings.Split(field, ".")) {
				items = append(items, strings.ReplaceAll(field, ".[]", "")+";ignored")
			}
		}
	}
	slices.Sort(items)
	return strings.Join(items, ", ")
}

// isSet reports whether a field is set and not empty.
func isSet(v any, path []string) bool {
	if len(path) == 0 {
		switch v := v.(type) {
		case nil:
			return false
		case []any:
			return len(v) > 0
		case map[string]any:
			return len(v) > 0
		}
		return true
	}
	if path[0] == "[]" {
		list, _ := v.([]any)
		return slices.ContainsFunc(list, func(v any) bool { return isSet(v, path[1:]) })
	}
	object, _ := v.(map[string]any)
	return isSet(object[path[0]], path[1:])
}

// sign sets the gateway's headers, and on success the names of fields without effect.
func (c *Caller) sign(out *bufferedResponse) {
	out.header.Set("Cache-Control", "no-store") // responses contain keys, tokens and credentials
	out.header.Set(api.HeaderRequestID, c.RequestID)
	if c.appliedWithin > 0 {
		out.header.Set(api.HeaderAppliedWithin, strconv.FormatInt(c.appliedWithin.Milliseconds(), 10))
	}
	if ignored := ignoredFields(c.request.URL.Path, c.body); ignored != "" && out.status < http.StatusMultipleChoices {
		out.header.Set(api.HeaderParams, ignored)
	}
}
