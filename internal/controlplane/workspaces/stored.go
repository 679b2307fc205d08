package workspaces

import (
	"encoding/json"

	"modelgate/internal/store"
)

// Settings returns what is stored of a workspace's settings, for what brings
// workspaces otherwise than by a route.
func Settings(given map[string]any) (json.RawMessage, error) {
	w := new(store.Workspace)
	err := setSettings(w, given)
	return w.Settings, err
}
