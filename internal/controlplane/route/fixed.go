package route

import (
	"net/http"
	"slices"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
)

// shapesRequests are the resources that say what happens to requests for models.
var shapesRequests = []string{"config", "prompt", "prompt_partial", "prompt_label"}

// checkFixed refuses a key whose config is fixed a change of what that config
// does: of saved configs and the prompts that they name.
func (r *Route) checkFixed(id *access.Identity) error {
	if !id.ConfigFixed || r.Method == http.MethodGet || !slices.Contains(shapesRequests, r.Resource) {
		return nil
	}
	return apierr.New(apierr.Forbidden, "the config of this key is fixed (defaults.allow_config_override is false), so it can't change configs and prompts; use another key or a session").
		WithParam("x-gateway-api-key").WithCode("AB03")
}
