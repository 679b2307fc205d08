package route

import (
	"strconv"
	"strings"
)

// SplitVersion splits the name of an object from the number of its version, as in
// pc-x@3. Zero is the current version.
func SplitVersion(field, ref string) (name string, version int64, err error) {
	name, text, ok := strings.Cut(ref, "@")
	if !ok {
		return ref, 0, nil
	}
	if version, err = strconv.ParseInt(text, 10, 32); err != nil || version < 1 {
		return "", 0, Invalid(field, "must have the number of a version after @, as in %.60s@3", name)
	}
	return name, version, nil
}
