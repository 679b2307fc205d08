package store

import (
	"fmt"
	"slices"
	"strings"
)

// Page selects Size elements of a list from element Number*Size. A Size of zero selects
// all.
type Page struct {
	Number, Size int

	// Name is a case-sensitive substring of the names of listed rows. Empty selects all.
	Name string

	// Statuses are the statuses of listed rows, from [ParseStatuses]. Nil selects what
	// the list contains by default, which is not archived.
	Statuses []string
}

// limit returns the page as the arguments of LIMIT and OFFSET.
func (p Page) limit() (limit, offset int64) {
	if p.Size <= 0 {
		return 1 << 31, 0
	}
	return int64(p.Size), int64(p.Number) * int64(p.Size)
}

// state returns the SQL condition for the status of listed rows. Usual is the condition
// without Statuses.
func (p Page) state(usual string) string {
	if p.Statuses == nil {
		return usual
	}
	return `status IN ('` + strings.Join(p.Statuses, `', '`) + `')` // known words
}

// named adds the condition for the name of listed rows to a condition and its arguments.
func (p Page) named(where string, args []any) (string, []any) {
	if p.Name == "" {
		return where, args
	}
	return fmt.Sprintf(`%s AND REPLACE(name, $%d, '') <> name`, where, len(args)+1), append(slices.Clone(args), p.Name)
}

// ParseStatuses returns the statuses in a list of active and archived, separated by
// commas. Empty is nil.
func ParseStatuses(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	var list []string
	for s := range strings.SplitSeq(text, ",") {
		if s = strings.TrimSpace(s); s != Active && s != Archived {
			return nil, fmt.Errorf("must be active, archived or both, not %.40q", s)
		}
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list, nil
}
