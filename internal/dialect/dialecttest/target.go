package dialecttest

import (
	"modelgate/internal/dialect"
	"modelgate/internal/provider/table"
)

// TargetOf returns the target of requests for a model of the provider, with the
// profile of its row. An id without a row has the profile of most providers.
func TargetOf(provider, model string) dialect.RequestTarget {
	if row, ok := table.Lookup(provider); ok && row.ID == provider {
		return row.RequestTarget(model)
	}
	return dialect.RequestTarget{Provider: provider, Model: model}
}
