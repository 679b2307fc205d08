package checks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/guardrail"
)

// partner is one check of a partner, as data: the request, the credential and
// the verdict.
type partner struct {
	id, summary string
	on          guardrail.Event // both if 0
	all         bool            // reads earlier messages too
	needs       []string        // required credentials
	optional    []string        // further credentials
	params      []guardrail.Param
	timeout     time.Duration // 5 s if 0
	closed      bool          // an error is a failure unless failOnError is false

	// url and headers are templates: {name} is a credential or a parameter. Only
	// credentials are part of a host, so nobody else can choose where they go.
	url     string
	headers map[string]string
	// fallbacks are values of absent credentials in templates.
	fallbacks map[string]string
	// prepare changes the request before it is sent, to sign it for example.
	prepare func(ctx context.Context, s Services, c *call, o *outgoing) error
	// places are those of credentials that prepare writes into addresses.
	places  map[string]place
	body    func(c *call) any
	read    func(c *call, response document) (reading, error)
	each    bool // sends one request for each text; otherwise they are joined
	changes bool // read can replace the text or the body, or add to a message
}

// call is one request to a partner.
type call struct {
	p    *guardrail.Params
	in   *guardrail.Input
	own  map[string]secret.String
	text string
}

// credential returns a credential, empty if there is none.
func (c *call) credential(name string) string { return c.own[name].Reveal() }

// side returns one of two values, for a request or a response.
func (c *call) side(request, response string) string {
	if c.in.Event == after {
		return response
	}
	return request
}

// role returns the role of the text.
func (c *call) role() string { return c.side("user", "assistant") }

// messages returns the text as the only message.
func (c *call) messages() []any { return []any{object{"role": c.role(), "content": c.text}} }

// object is a JSON object in a request.
type object map[string]any

// reading is what a response says about a text.
type reading struct {
	flagged bool
	// text replaces the text, if replaced. Flagged is then false.
	text     string
	replaced bool
	note     string          // explanation
	add      string          // text for the system message
	body     json.RawMessage // replaces the body
}

// maxTexts is the maximum number of requests of a check that sends each text.
const maxTexts = 50

// partnerChecks returns the checks of all partners.
func partnerChecks(s Services) (list []guardrail.Definition) {
	for _, row := range slices.Concat(textScanners(), policyServices(), responseEvaluators(), webSearches(), azure(), bedrock(),
		[]partner{alibaba()}) {
		list = append(list, row.definition(s))
	}
	return list
}

// family returns the name of the partner in ids of checks.
func (row *partner) family() string {
	family, _, _ := strings.Cut(row.id, ".")
	return family
}

func (row *partner) definition(s Services) guardrail.Definition {
	d := guardrail.Definition{
		ID: row.id, On: row.on, All: row.all, Summary: row.summary, Timeout: row.timeout, FailOnError: row.closed,
		Credentials: append(append([]string{}, row.needs...), row.optional...), Transforms: row.changes,
		Params: append(append([]guardrail.Param{}, row.params...), forwardHeaders),
	}
	if len(d.Credentials) > 0 {
		d.Partner = row.description()
	}
	if d.On == 0 {
		d.On = both
	}
	if d.Timeout == 0 {
		d.Timeout = 5 * time.Second
	}
	d.Compile = func(p *guardrail.Params) (guardrail.Compiled, error) {
		if err := checkForward(p); err != nil {
			return guardrail.Compiled{}, err
		}
		if err := row.checkAddress(p); err != nil {
			return guardrail.Compiled{}, err
		}
		run := func(ctx context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
			return row.run(ctx, s, p, in)
		}
		return guardrail.Compiled{Run: run, Reach: guardrail.Reach{Complete: true}, Transforms: row.changes, Remote: true}, nil
	}
	return d
}

// description returns what the control plane must know of the credentials.
func (row *partner) description() *guardrail.Partner {
	return &guardrail.Partner{Needs: row.needs, Address: row.addressCredentials(), Destination: row.destination}
}

// run sends the requests of the check and joins what they say.
func (row *partner) run(ctx context.Context, s Services, p *guardrail.Params, in *guardrail.Input) (guardrail.Verdict, error) {
	own, err := s.credentials(in, p, row)
	if err != nil {
		return guardrail.Verdict{}, err
	}
	texts := []string{currentText(in)}
	switch {
	case row.each:
		texts = textsOf(in.Parts)
	case p.String("scope") == "all":
		texts[0] = in.Text()
	}
	total := 0
	replaced, changed := textsOf(in.Parts), false
	v := guardrail.Verdict{Passed: true}
	notes := []string{}
	for i, text := range texts {
		if text == "" {
			continue
		}
		total++
		got, err := row.askOf(ctx, s, &call{p: p, in: in, own: own, text: text}, total)
		if err != nil && !v.Passed { // what was found before stands
			break
		}
		if err != nil {
			return guardrail.Verdict{}, err
		}
		v.Passed = v.Passed && !got.flagged
		if got.note != "" && len(notes) < 20 {
			notes = append(notes, excerpt(got.note))
		}
		if got.replaced && row.each {
			replaced[i], changed = got.text, true
		}
		if got.body != nil {
			v.Body = got.body
		}
		if got.add != "" {
			changed = addToSystem(in, replaced, got.add, &v) || changed
		}
	}
	if total == 0 {
		return guardrail.Verdict{}, errNoText
	}
	if changed {
		v.Texts = replaced
	}
	v.Data = &guardrail.Data{Verdict: v.Passed, Explanation: strings.Join(notes, "; "), TextExcerpt: excerpt(texts[0])}
	return v, nil
}

// askOf asks for the n-th text of a check. An error that the number of texts may have caused is
// one of what was sent.
func (row *partner) askOf(ctx context.Context, s Services, c *call, n int) (reading, error) {
	if n > maxTexts {
		return reading{},
			guardrail.NewIncomplete("there are more than %d texts, which the check sends one by one; send fewer messages or parts", maxTexts)
	}
	var got reading
	err := c.in.CountRequest()
	counted := err == nil
	if counted {
		got, err = row.ask(ctx, s, c)
	}
	if err != nil && n > 1 && (!counted || ctx.Err() != nil) {
		err = guardrail.NewIncomplete("%v", err)
	}
	return got, err
}

// currentText returns the joined texts of the last message.
func currentText(in *guardrail.Input) string {
	var last guardrail.Input
	for _, p := range in.Parts {
		if !p.Earlier {
			last.Parts = append(last.Parts, p)
		}
	}
	return last.Text()
}

// addToSystem appends text to the system prompt, and reports whether there is
// one. Otherwise it adds one.
func addToSystem(in *guardrail.Input, texts []string, text string, v *guardrail.Verdict) bool {
	for i, p := range in.Parts {
		if p.Role != "" && p.Kind != guardrail.Parameters && hasRole(p.Role, "system") {
			texts[i] += text
			return true
		}
	}
	v.Add = append(v.Add, guardrail.Message{Role: "system", Text: text})
	return false
}

// ask sends one request and reads the response.
func (row *partner) ask(ctx context.Context, s Services, c *call) (reading, error) {
	address, chosen, err := row.expand(c, row.url, true)
	if err != nil {
		return reading{}, err
	}
	o := outgoing{method: http.MethodPost, url: address, chosen: chosen, header: headerFor(c.in, c.p.Strings("forwardHeaders"), nil),
		counted: true, decides: true}
	for name, template := range row.headers {
		value, _, err := row.expand(c, template, false)
		if err != nil || !validHeader(name, value) {
			return reading{}, errors.New("a credential has characters that a header cannot have")
		}
		o.header.Set(name, value)
	}
	if o.body, err = json.Marshal(row.body(c)); err != nil {
		return reading{}, err
	}
	if row.prepare != nil {
		if err := row.prepare(ctx, s, c, &o); err != nil {
			return reading{}, err
		}
	}
	raw, err := s.send(ctx, c.in, o)
	if err != nil {
		return reading{}, err
	}
	var value any
	family := row.family()
	if err := decode(raw, &value, family); err != nil {
		return reading{}, err
	}
	got, err := row.read(c, document{value})
	if err != nil {
		return reading{}, fmt.Errorf("the response of %s %w", family, err)
	}
	return got, nil
}

// expand replaces the names in a template. chosen reports whether the host comes
// from one.
func (row *partner) expand(c *call, template string, inURL bool) (text string, chosen bool, err error) {
	var b strings.Builder
	from := 0
	for name, at := range names(template) {
		b.WriteString(template[from:at])
		from = at + len(name) + 2
		place := placeAt(template, at)
		value := c.credential(name)
		if value == "" && !(inURL && place.ofHost()) {
			value = c.p.String(name)
		}
		if value == "" {
			value = row.fallbacks[name]
		}
		switch {
		case value == "":
			return "", false, fmt.Errorf("%s is not set", name)
		case inURL:
			if message := place.check(value); message != "" {
				return "", false, fmt.Errorf("%s %s", name, message)
			}
			chosen = chosen || place == label || place.ofHost() && value != row.fallbacks[name]
			value = place.write(value)
		}
		b.WriteString(value)
	}
	b.WriteString(template[from:])
	return b.String(), chosen, nil
}

// document is decoded JSON. Its methods return an error, never a guess, for what
// is not there: an unexpected response must not pass.
type document struct{ value any }

// at returns the value at a path of names and indexes between dots.
func (d document) at(path string) document {
	for name := range strings.SplitSeq(path, ".") {
		switch v := d.value.(type) {
		case map[string]any:
			d = document{v[name]}
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) {
				return document{}
			}
			d = document{v[i]}
		default:
			return document{}
		}
	}
	return d
}

func (d document) boolean(path string) (bool, error) {
	v, ok := d.at(path).value.(bool)
	return v, missing(path, "boolean", ok)
}

func (d document) text(path string) (string, error) {
	v, ok := d.at(path).value.(string)
	return v, missing(path, "string", ok)
}

func (d document) number(path string) (float64, error) {
	v, ok := d.at(path).value.(float64)
	return v, missing(path, "number", ok)
}

func (d document) list(path string) ([]any, error) {
	v, ok := d.at(path).value.([]any)
	return v, missing(path, "array", ok)
}

func (d document) object(path string) (map[string]any, error) {
	v, ok := d.at(path).value.(map[string]any)
	return v, missing(path, "object", ok)
}

func missing(path, kind string, ok bool) error {
	if ok {
		return nil
	}
	return fmt.Errorf("has no %s %s", kind, path)
}

var redactParam = param("redact", guardrail.Boolean, "false",
	"`true` replaces what is found, if nothing else is found, and the check passes.")

var bearer = map[string]string{"Authorization": "Bearer {apiKey}"}

// setTexts sets members of o from parameters that are not empty.
func setTexts(o object, c *call, names map[string]string) {
	for member, name := range names {
		if v := c.p.String(name); v != "" {
			o[member] = v
		}
	}
}
