package pipeline

import (
	"encoding/json"

	"modelgate/config"
)

// lookups caches fields of the body that conditions and sticky nodes have
// looked up, and limits the searching.
type lookups struct {
	work  config.Work
	found map[string]json.RawMessage // nil means missing

	prefixTokens int64 // estimate; set with the prefix
}
