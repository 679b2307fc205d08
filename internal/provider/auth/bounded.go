package auth

import "regexp"

// boundedText matches a string with a minimum and a maximum length. The length
// is not part of the expression, because a repetition count is compiled into a
// copy for each character, which would take a megabyte here.
type boundedText struct {
	form        *regexp.Regexp
	least, most int
}

// MatchString reports whether s matches.
func (b boundedText) MatchString(s string) bool {
	return len(s) >= b.least && len(s) <= b.most && b.form.MatchString(s)
}
