package server

import (
	"fmt"

	"modelgate/internal/settings"
)

// fixed returns the settings that are read only at the start, as text.
func fixed(set *settings.Settings) string {
	return fmt.Sprint(set.Listener.ProxyProtocol, set.Listener.TLS, set.Limits, set.Timeouts, set.Drain, set.Upstream, set.References, set.Ledger, set.Logs.Retention, set.Log.Queue, set.Compat.PromptEnvelopeOnly, set.Cache)
}
