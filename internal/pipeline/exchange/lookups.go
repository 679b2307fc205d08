package exchange

import (
	"encoding/json"

	"modelgate/config"
)

// Lookups caches fields of the body that conditions and sticky nodes have
// looked up, and limits the searching.
type Lookups struct {
	Work  config.Work
	Found map[string]json.RawMessage // nil means missing

	PrefixTokens int64 // estimate; set with the prefix
}
