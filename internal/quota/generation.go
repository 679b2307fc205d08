package quota

import "time"

// Generation is the unit of time in which shared stores forget. A reservation
// lapses when the second generation after its own begins, which is after 10 to 20
// minutes, and so does a settlement of a budget, which the ledger has counted by
// then.
const Generation = 10 * time.Minute

// GenerationAt returns the number of the generation that contains now.
func GenerationAt(now time.Time) int64 { return floorDiv(now.UnixNano(), int64(Generation)) }
