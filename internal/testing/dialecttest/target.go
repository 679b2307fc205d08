package dialecttest

import (
	"modelgate/internal/dialect"
	"modelgate/internal/provider/table"
)

// TargetOf returns the target for a model of the provider, with the provider's
// profile. An unknown id has no deviations.
func TargetOf(provider, model string) dialect.RequestTarget {
	if row, ok := table.Lookup(provider); ok && row.ID == provider {
		return row.RequestTarget(model)
	}
	return dialect.RequestTarget{Provider: provider, Model: model}
}
