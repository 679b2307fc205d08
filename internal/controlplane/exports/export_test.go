package exports

import (
	"context"
	"time"
)

// Fields are the names of all fields, in their order.
func Fields() []string {
	var names []string
	for i := range fields {
		names = append(names, fields[i].Name)
	}
	return names
}

// SweepNow takes away what is old.
func (r *Runner) SweepNow(ctx context.Context) { r.sweep(ctx) }

// LinkLife is how long links are of use.
const LinkLife time.Duration = linkLife

// AllowedFields returns fields without the denied ones.
func AllowedFields(fields, denied []string) []string { return allowedFields(fields, denied) }
