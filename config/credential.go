package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strings"
)

// Credential is a credential inside the text of a config: the value of a
// credential property, or a string in a free-form object whose name indicates a
// credential.
type Credential struct {
	// Path is its path in wire names: "$.targets[0].api_key". It does not
	// depend on the spelling of properties.
	Path string
	// Value is the string, or JSON text if it is an object.
	Value Secret
	// Declared is true for the value of a credential property.
	Declared bool
	// Destination is a digest of everything that decides where the credential
	// is sent: provider, virtual key, custom host and provider options of its
	// node, and for free-form objects those of every node below and the object
	// itself. It does not cover values of credentials.
	Destination string
	// Unbound is true if the request rather than the config names the provider
	// that gets the credential.
	Unbound bool
	// Object is true if the property is an object.
	Object bool

	start, end int // in the text
}

// Credentials returns the credentials in the text of a config, in order. The
// text must be JSON; [Parse] checks whether it is a valid config. The error is
// an *Errors.
func Credentials(text []byte) ([]Credential, error) {
	var fs faults
	v, ok := decode(text, &fs)
	if !ok || len(fs) > 0 {
		return nil, fs.err()
	}
	s := credentialScan{text: text}
	s.node("$", v, "")
	return s.found, nil
}

// ReplaceCredentials returns text with every credential replaced by the result
// of with. If the property is an object, a result that is a JSON object is
// written as an object; everything else is written as a string. The rest of the
// text is unchanged. An error from with is returned unchanged.
func ReplaceCredentials(text []byte, with func(Credential) (string, error)) ([]byte, error) {
	list, err := Credentials(text)
	if err != nil || len(list) == 0 {
		return text, err
	}
	var out bytes.Buffer
	at := 0
	for _, c := range list {
		value, err := with(c)
		if err != nil {
			return nil, err
		}
		out.Write(text[at:c.start])
		if c.Object && strings.HasPrefix(value, "{") && json.Valid([]byte(value)) {
			out.WriteString(value)
		} else {
			writeText(&out, value)
		}
		at = c.end
	}
	out.Write(text[at:])
	return out.Bytes(), nil
}

// MaskParams returns the JSON text of parameters with "***" in place of every
// string whose name indicates a credential. The error is an *Errors.
func MaskParams(text []byte) ([]byte, error) {
	const before, after = `{"override_params":`, `}`
	out, err := ReplaceCredentials([]byte(before+string(text)+after), func(Credential) (string, error) { return "***", nil })
	if err != nil {
		return nil, err
	}
	return out[len(before) : len(out)-len(after)], nil
}

// Masked returns o for display, masked like MaskParams.
func (o Object) Masked() Object {
	if o == nil {
		return nil
	}
	text, _ := o.MarshalJSON() // cannot fail
	text, err := MaskParams(text)
	if err != nil {
		return nil
	}
	var ignored faults
	v, _ := decode(text, &ignored)
	return v.object()
}

// CheckBound returns an error for a config whose credentials in override_params
// and default_params are sent to a provider that the request names. [Parse]
// checks credential properties. The error is an *Errors.
func CheckBound(list []Credential) error {
	var fs faults
	for _, c := range list {
		if c.Unbound {
			fs.add(c.Path, unbound)
		}
	}
	return fs.err()
}

// unbound is the message about a credential that any provider could get.
const unbound = "is a credential without a provider; add provider next to it, because a request must not choose where the credential is sent"

// freeForms are the properties with free-form content. True are those whose
// content is sent to the provider.
var freeForms = map[string]bool{
	"override_params": true, "default_params": true,
	"before_request_hooks": false, "after_request_hooks": false, "input_guardrails": false, "output_guardrails": false,
	"input_mutators": false, "output_mutators": false,
}

var (
	credentialName = regexp.MustCompile(`apikey|accesskey|privatekey|secretkey|signingkey|secret|passw(or)?d|passphrase|credential|authorization|bearer|cookie|serviceaccount|^auth$|^key$|token$|headers$`)
	// plainToken matches names that end in token but do not hold a credential.
	plainToken = regexp.MustCompile(`^((bos|eos|pad|unk|sep|cls|mask|stop|start|end|next|page|continuation)token|.*per.*token)$`)
	separators = strings.NewReplacer("_", "", "-", "", ".", "", " ", "")
)

// namesCredential reports whether a member with this name holds a credential.
func namesCredential(name string) bool {
	if len(name) > 128 {
		return false
	}
	name = separators.Replace(strings.ToLower(name))
	return credentialName.MatchString(name) && !plainToken.MatchString(name)
}

// credentialScan collects the credentials of a config.
type credentialScan struct {
	text  []byte
	found []Credential
}

// node scans a node and the nodes below it. It returns the destinations of all
// of them, and whether each leaf names its provider.
func (s *credentialScan) node(path string, v value, host string) (destinations string, bound bool) {
	own := map[string]string{"custom_host": host}
	var targets value
	for _, m := range v.members {
		name, f := s.property(m.name)
		switch {
		case name == "targets":
			targets = m.value
		case f != nil && !f.secret && m.value.kind == isString && f.destination:
			own[name] = m.value.text
		}
	}
	here := string(mustJSON(own))
	named := own["provider"] != "" || own["virtual_key"] != ""
	first := len(s.found)
	destinations, bound = here, named || len(targets.items) > 0
	for i, t := range targets.items {
		below, ok := s.node(item(path+".targets", i), t, own["custom_host"])
		destinations, bound = destinations+below, bound && ok
	}
	below := s.found[first:]
	s.found = s.found[:first:first]
	for _, m := range v.members {
		name, f := s.property(m.name)
		at := property(path, name)
		switch sent, free := freeForms[name]; {
		case name == "targets":
			s.found = append(s.found, below...)
		case f == nil:
		case f.secret:
			s.add(Credential{Path: at, Declared: true, Destination: digest(here), Object: f.object}, m.value)
		case free:
			s.free(at, m.value, destinations, sent && !bound)
		}
	}
	return destinations, bound
}

// property returns the wire name and the field of a property, nil if there is
// none.
func (s *credentialScan) property(name string) (string, *field[Config]) {
	i, ok := nodes.spellings[name]
	if !ok {
		return name, nil
	}
	return nodes.fields[i].name, &nodes.fields[i]
}

// add adds the credential in a value. Only non-empty strings and objects are
// credentials.
func (s *credentialScan) add(c Credential, v value) {
	switch {
	case v.kind == isString && v.text != "":
		c.Value = Secret{v.text}
	case v.kind == isObject && c.Object && len(v.members) > 0:
		c.Value = Secret{string(v.raw)}
	default:
		return
	}
	c.start, c.end = v.start, v.start+len(v.raw)
	s.found = append(s.found, c)
}

// free scans a property with free-form content.
func (s *credentialScan) free(path string, v value, destinations string, unbound bool) {
	first := len(s.found)
	s.look(path, v, false)
	var rest bytes.Buffer // without the credentials
	at := v.start
	for _, c := range s.found[first:] {
		rest.Write(s.text[at:c.start])
		at = c.end
	}
	rest.Write(s.text[at : v.start+len(v.raw)])
	for i := range s.found[first:] {
		c := &s.found[first+i]
		c.Destination, c.Unbound = digest(destinations+rest.String()), unbound
	}
}

// look adds the strings below members whose name indicates a credential; held
// is true below such a member.
func (s *credentialScan) look(path string, v value, held bool) {
	switch v.kind {
	case isString:
		if held {
			s.add(Credential{Path: path}, v)
		}
	case isArray:
		for i, one := range v.items {
			s.look(item(path, i), one, held)
		}
	case isObject:
		for _, m := range v.members {
			at := property(path, m.name)
			if m.name == "properties" && m.value.kind == isObject { // of a JSON Schema: names of parameters
				for _, p := range m.value.members {
					s.look(property(at, p.name), p.value, held)
				}
				continue
			}
			s.look(at, m.value, held || namesCredential(m.name))
		}
	}
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings always marshal
	}
	return b
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
