package route

import (
	"modelgate/config"
	"modelgate/internal/base/apierr"
)

// CheckExposed returns an error if the JSON text of a field that readers see in full
// contains a credential; see [config.CheckExposed].
func CheckExposed(field string, text []byte) error {
	if err := config.CheckExposed(field, text); err != nil {
		return apierr.New(apierr.Invalid, "%v", err).WithParam(field)
	}
	return nil
}
