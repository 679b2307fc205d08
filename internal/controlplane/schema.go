package controlplane

import (
	"context"
	"net/http"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/settings"
)

// addSchema adds the route that returns the JSON Schema of the settings file, for
// editors.
func addSchema(a *route.API) {
	route.Add(a, route.Route{Method: http.MethodGet, Path: "/schema/settings", Name: "get-settings-schema", Tag: "Settings file",
		Summary: "Read the JSON Schema of the settings file (modelgate.yaml)"},
		func(context.Context, *route.Caller, *struct{}) (*route.JSON, error) {
			text := route.JSON(settings.Schema())
			return &text, nil
		})
}
