package store

import (
	"maps"
	"slices"
)

// NamedTypes are the types of objects that have names.
var NamedTypes = slices.Sorted(maps.Keys(nameQueries))
