package workspaces

import (
	"encoding/json"
	"fmt"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
)

// Settings returns the stored form of a workspace's settings, for callers that store
// workspaces without a route.
func Settings(given map[string]any) (json.RawMessage, error) {
	w := new(store.Workspace)
	err := setSettings(w, given)
	return w.Settings, err
}

const requestLogging = "request_logging"

// Overridden returns the names of stored settings without effect because the
// organisation does not delegate them to workspaces.
func Overridden(stored json.RawMessage, above *store.OrganisationSettings) ([]string, error) {
	var s store.KeyDefaults
	if len(stored) > 0 {
		if err := json.Unmarshal(stored, &s); err != nil {
			return nil, fmt.Errorf("reading the settings of a workspace: %w", err)
		}
	}
	if s.Logging == "" || above.LoggingOverridable {
		return []string{}, nil
	}
	return []string{requestLogging}, nil
}

// CheckOverridden returns an error for settings that would have no effect, unless they
// are stored already in before.
func CheckOverridden(given, before json.RawMessage, above *store.OrganisationSettings) error {
	names, err := Overridden(given, above)
	if err != nil {
		return err
	}
	var now, stored map[string]any
	if err := json.Unmarshal(given, &now); err != nil {
		return err
	}
	if len(before) > 0 {
		if err := json.Unmarshal(before, &stored); err != nil {
			return err
		}
	}
	for _, name := range names {
		if now[name] != stored[name] {
			return apierr.New(apierr.Forbidden, "settings.%s of a workspace has no effect unless the organisation sets %s_override; leave it out or set that first", name, name).
				WithParam("settings." + name).WithCode("AB03")
		}
	}
	return nil
}
