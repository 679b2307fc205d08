package config

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// exposed is the message about a credential in an object that is shown to
// readers.
const exposed = "is a credential by its name, and everybody who may read or render this object would see it; leave it out and keep it in an integration or a config, which seal credentials"

// CheckExposed returns an error for a JSON text that is shown to its readers in
// full and contains a credential, by the rule for free-form objects of a
// config: see [Credential]. A value that consists of template variables, such
// as "Bearer {{token}}", is not one. A text that is not JSON is not searched;
// ambiguous JSON is an error. The error is an *Errors whose paths begin with
// field.
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

// MaskExposed returns text with "***" in place of every credential that
// [CheckExposed] finds, for objects stored before that check existed.
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

// variable matches a template variable, and scheme the word before a credential
// in a header.
var (
	variable = regexp.MustCompile(`\{\{\{?[^{}]{1,128}\}?\}\}`)
	scheme   = regexp.MustCompile(`(?i)^(bearer|basic|token|apikey)$`)
)

// isVariable reports whether a value consists of template variables.
func isVariable(text string) bool {
	rest := strings.TrimSpace(variable.ReplaceAllString(text, ""))
	return len(rest) < len(strings.TrimSpace(text)) && (rest == "" || scheme.MatchString(rest))
}
