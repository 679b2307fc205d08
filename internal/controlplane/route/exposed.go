package route

import (
	"modelgate/config"
	"modelgate/internal/apierr"
)

// CheckExposed refuses the JSON text of a field that readers are shown in full if it
// holds a credential: see [config.CheckExposed].
func CheckExposed(field string, text []byte) error {
	if err := config.CheckExposed(field, text); err != nil {
		return apierr.New(apierr.Invalid, "%v", err).WithParam(field)
	}
	return nil
}
