package limits

import (
	"time"
	_ "time/tzdata" // containers without a database of time zones

	"modelgate/internal/controlplane/route"
)

// CheckZone returns an error unless name is empty or a time zone of the IANA database.
func CheckZone(field, name string) error {
	if name == "" {
		return nil
	}
	if _, err := time.LoadLocation(name); err != nil || name == time.Local.String() {
		return route.Invalid(field, "must be a time zone such as Europe/Berlin, not %.60q", name)
	}
	return nil
}
