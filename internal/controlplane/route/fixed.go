package route

import (
	"net/http"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
)

// shapesRequests are the resources that determine how model requests are handled.
var shapesRequests = []string{"config", "prompt", "prompt_partial", "prompt_label"}

// checkFixed refuses changes that would alter what a fixed config does, with the key
// whose config is fixed: changes of saved configs and of the prompts that they name.
func (r *Route) checkFixed(id *access.Identity) error {
	if !id.ConfigFixed || r.Method == http.MethodGet || !slices.Contains(shapesRequests, r.Resource) {
		return nil
	}
	return apierr.New(apierr.Forbidden, "the config of this key is fixed (defaults.allow_config_override is false), so it cannot change configs and prompts; use another key or a session").
		WithParam("x-gateway-api-key").WithCode("AB03")
}
