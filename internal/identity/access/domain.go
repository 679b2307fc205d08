package access

import (
	"fmt"
	"strings"
)

// ParseDomain returns the name of a domain of e-mail addresses in its stored form: lower
// case, without a dot at the end. International names must be in their xn-- form.
func ParseDomain(text string) (string, error) {
	name := strings.ToLower(strings.TrimSuffix(strings.TrimSpace(text), "."))
	labels := strings.Split(name, ".")
	bad := len(labels) < 2 || len(name) > 253
	for _, l := range labels {
		bad = bad || l == "" || len(l) > 63 || strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || l[0] == '-' || l[len(l)-1] == '-'
	}
	if bad {
		return "", fmt.Errorf("%.60q is not a domain such as example.com; write international names in their xn-- form", text)
	}
	return name, nil
}
