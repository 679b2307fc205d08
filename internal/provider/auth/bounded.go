package auth

import "regexp"

// boundedText is the form of a text of so many bytes. A bound inside an expression is
// compiled into a copy for each byte, which stays in memory: here a megabyte.
type boundedText struct {
	form        *regexp.Regexp
	least, most int
}

// MatchString reports whether s has the form.
func (b boundedText) MatchString(s string) bool {
	return len(s) >= b.least && len(s) <= b.most && b.form.MatchString(s)
}
