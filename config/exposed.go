package config

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// exposed is what is wrong with a credential in an object that readers are shown.
const exposed = "is a credential by its name, and everybody who may read or render this object would see it; leave it out and keep it in an integration or a config, which seal credentials"

// CheckExposed refuses a JSON text that readers are shown in full if it holds a
// credential, by the rule for free-form objects of a config: see [Credential].
// A value that is only a variable of a template, such as "Bearer {{token}}", is
// none. A text that is not JSON is not searched; JSON that readers could read
// differently is refused. The error is an *Errors whose paths begin with field.
func CheckExposed(field string, text []byte) error {
	if !json.Valid(text) {
		return nil
	}
	list, err := exposedCredentials(field, text)
	if err != nil {
		return err
	}
	var fs faults
	for _, c := range list {
		fs.add(c.Path, exposed)
	}
	return fs.err()
}

// MaskExposed returns text with "***" for every credential that [CheckExposed]
// refuses, for objects that were stored before they were checked.
func MaskExposed(text []byte) []byte {
	list, err := exposedCredentials("$", text)
	if err != nil || len(list) == 0 {
		return text
	}
	var out bytes.Buffer
	at := 0
	for _, c := range list {
		out.Write(text[at:c.start])
		out.WriteString(`"***"`)
		at = c.end
	}
	out.Write(text[at:])
	return out.Bytes()
}

func exposedCredentials(field string, text []byte) ([]Credential, error) {
	var fs faults
	v, _ := decode(text, &fs)
	if err := fs.err(); err != nil {
		return nil, err
	}
	s := credentialScan{text: text}
	s.look(field, v, false)
	return slices.DeleteFunc(s.found, func(c Credential) bool { return isVariable(c.Value.Reveal()) }), nil
}

// variable matches a variable of a template, and scheme the word before a
// credential in a header.
var (
	variable = regexp.MustCompile(`\{\{\{?[^{}]{1,128}\}?\}\}`)
	scheme   = regexp.MustCompile(`(?i)^(bearer|basic|token|apikey)$`)
)

// isVariable reports whether a value holds nothing but variables of a template.
func isVariable(text string) bool {
	rest := strings.TrimSpace(variable.ReplaceAllString(text, ""))
	return len(rest) < len(strings.TrimSpace(text)) && (rest == "" || scheme.MatchString(rest))
}
