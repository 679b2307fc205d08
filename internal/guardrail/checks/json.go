package checks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/guardrail"
)

func jsonChecks() []guardrail.Definition {
	return []guardrail.Definition{
		{
			ID: "default.jsonSchema", On: both, Kinds: guardrail.Prose | guardrail.ToolArguments, Compile: compileJSONSchema,
			Summary: "A JSON value in the text satisfies the schema (draft 2020-12 unless `$schema` names another). Values are read from code blocks labelled `json` or nothing, else from anywhere in the text.",
			Params:  []guardrail.Param{required("schema", guardrail.JSON, "JSON Schema; references to other documents are not followed."), not},
		},
		{
			ID: "default.jsonKeys", On: both, Kinds: guardrail.Prose | guardrail.ToolArguments, Compile: compileJSONKeys,
			Summary: "The top level of the JSON object in the text has any, all or none of the keys. If there are several objects, the one with most of the keys is checked.",
			Params: []guardrail.Param{required("keys", guardrail.StringList, "Names of members."),
				{Name: "operator", Type: guardrail.String, Required: true, Enum: []string{"any", "all", "none"},
					Doc: "How many of the keys must occur."}, not},
		},
	}
}

// Limits of reading JSON from text.
const (
	maxCandidates = 100
	maxJSONDepth  = 200
	scanFactor    = 8 // bytes read for each byte of a text
)

// candidates returns the JSON values of a text: those of code blocks or, if
// there are none, objects and arrays from anywhere.
func candidates(text string) (list []json.RawMessage) {
	for _, b := range codeBlocks(text) {
		if b.label == "json" || b.label == "" {
			if raw := json.RawMessage(strings.TrimSpace(b.text)); shallow(raw) && json.Valid(raw) && len(list) < maxCandidates {
				list = append(list, raw)
			}
		}
	}
	if len(list) > 0 {
		return list
	}
	if raw := json.RawMessage(strings.TrimSpace(text)); len(raw) > 0 && shallow(raw) && json.Valid(raw) {
		return []json.RawMessage{raw}
	}
	budget, all := scanFactor*len(text), []byte(text)
	for at := 0; at < len(text) && budget > 0 && len(list) < maxCandidates; {
		n := strings.IndexAny(text[at:], "{[")
		if n < 0 {
			break
		}
		at += n
		size, read := valueAt(all[at:])
		budget -= read
		if size > 0 {
			list = append(list, json.RawMessage(all[at:at+size]))
			at += size
		} else {
			at++
		}
	}
	return list
}

// valueAt returns the length of the JSON value at the beginning of text, 0 if
// there is none, and how many bytes it has read.
func valueAt(text []byte) (size, read int) {
	c := jsonedit.NewCursor(text)
	raw := c.Raw()
	if c.Failed() {
		return 0, c.Offset()
	}
	if !shallow(raw) || !json.Valid(raw) {
		return 0, 3 * len(raw)
	}
	return len(raw), 3 * len(raw)
}

// shallow reports whether a value, which need not be JSON, is at most maxJSONDepth
// deep.
func shallow(raw []byte) bool {
	c := jsonedit.NewCursor(raw)
	for depth := 0; depth <= maxJSONDepth; {
		switch first, _ := c.Token(); first {
		case 0:
			return true
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
	}
	return false
}

// Limits of JSON Schemas and of the JSON that they validate.
const (
	maxPatterns = 200 // of a schema
	maxAnchors  = 50  // of a schema, for dynamic references
	maxDigits   = 400 // of a number, and of zeros that its exponent stands for
)

// digitsOf returns the number of digits of a number that hasPlainNumbers accepts, written
// out.
func digitsOf(n json.Number) int {
	digits, exponent, _ := strings.Cut(strings.ToLower(string(n)), "e")
	zeros, _ := strconv.Atoi(strings.TrimPrefix(exponent, "+"))
	return len(digits) + max(zeros, -zeros)
}

// hasPlainNumbers reports whether the numbers in a value can be compared exactly without
// writing out more than maxDigits of each: 1e400000000 would take gigabytes.
func hasPlainNumbers(value any) bool {
	switch v := value.(type) {
	case json.Number:
		digits, exponent, _ := strings.Cut(strings.ToLower(string(v)), "e")
		n, err := strconv.Atoi(strings.TrimPrefix(exponent, "+"))
		return len(digits) <= maxDigits && (exponent == "" || err == nil && -maxDigits <= n && n <= maxDigits)
	case []any:
		return !slices.ContainsFunc(v, func(item any) bool { return !hasPlainNumbers(item) })
	case map[string]any:
		for _, item := range v {
			if !hasPlainNumbers(item) {
				return false
			}
		}
	}
	return true
}

// noLoader refuses references of schemas to other documents.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not followed")
}

// schema is a compiled JSON Schema.
type schema struct {
	*jsonschema.Schema
	anchored []*jsonschema.Schema // see [coster]
}

// compileSchema compiles a JSON Schema; its patterns have the limits of
// regexMatch.
func compileSchema(raw json.RawMessage) (schema, error) {
	if len(raw) > 0 && raw[0] == '"' { // as JSON text
		var text string
		if json.Unmarshal(raw, &text) == nil {
			raw = json.RawMessage(text)
		}
	}
	if !shallow(raw) {
		return schema{}, errors.New("the schema is too deep")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return schema{}, errors.New("must be a JSON Schema")
	}
	if !hasPlainNumbers(doc) {
		return schema{}, fmt.Errorf("must have no numbers of more than %d digits or with exponents above that", maxDigits)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	engine := &patternEngine{}
	c.UseRegexpEngine(engine.compile)
	const place = "urn:guardrail:schema"
	if err := c.AddResource(place, doc); err != nil {
		return schema{}, errors.New("must be a JSON Schema")
	}
	s, err := c.Compile(place)
	if err != nil {
		return schema{}, errors.New("must be a JSON Schema: " + excerpt(strings.ReplaceAll(err.Error(), place, "")))
	}
	roots := []*jsonschema.Schema{s}
	for _, pointer := range anchorsIn(doc, "") {
		if len(roots) > maxAnchors {
			return schema{}, fmt.Errorf("has more than %d dynamic anchors", maxAnchors)
		}
		if s, err := c.Compile(place + "#" + pointer); err == nil { // else it is a value, such as of enum
			roots = append(roots, s)
		}
	}
	engine.compiled = true
	return schema{s, anchoredIn(roots)}, nil
}

// anchorsIn returns the places in a schema that dynamic references can lead to, which need
// not be below another schema, as fragments of URLs.
func anchorsIn(value any, at string) (list []string) {
	switch v := value.(type) {
	case []any:
		for i, item := range v {
			list = append(list, anchorsIn(item, at+"/"+strconv.Itoa(i))...)
		}
	case map[string]any:
		if v["$dynamicAnchor"] != nil || v["$recursiveAnchor"] != nil {
			list = append(list, at)
		}
		for name, item := range v {
			name = strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
			list = append(list, anchorsIn(item, at+"/"+url.PathEscape(name))...)
		}
	}
	return list
}

// patternEngine compiles the patterns of one schema.
type patternEngine struct {
	patterns int
	compiled bool // the schema: from then on, texts of the format "regex" are parsed
}

func (e *patternEngine) compile(s string) (jsonschema.Regexp, error) {
	if e.compiled {
		_, err := syntax.Parse(s, syntax.Perl)
		return nil, err
	}
	if e.patterns++; e.patterns > maxPatterns {
		return nil, fmt.Errorf("has more than %d patterns", maxPatterns)
	}
	p, err := compilePattern("pattern", s)
	if err != nil {
		return nil, err
	}
	return schemaPattern{p}, nil
}

// schemaPattern is a pattern of a schema.
type schemaPattern struct{ *pattern }

// MatchString implements jsonschema.Regexp. [checkCost] has refused a text that is too
// long.
func (p schemaPattern) MatchString(s string) bool { return p.re.MatchString(s) }

// String implements jsonschema.Regexp.
func (p schemaPattern) String() string { return p.re.String() }

func compileJSONSchema(p *guardrail.Params) (guardrail.Compiled, error) {
	schema, err := compileSchema(p.Raw("schema"))
	if err != nil {
		return guardrail.Compiled{}, &guardrail.ParamError{Path: "schema", Message: err.Error()}
	}
	inverted := p.Bool("not")
	run := func(ctx context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		text := in.Text()
		if text == "" {
			return guardrail.Verdict{}, noText(!inverted)
		}
		explanation, found := "the text has no JSON", candidates(text)
		for _, raw := range found {
			if ctx.Err() != nil {
				return guardrail.Verdict{}, ctx.Err()
			}
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
			if err != nil {
				continue
			}
			if !hasPlainNumbers(value) {
				return guardrail.Verdict{},
					guardrail.NewIncomplete("the JSON has a number of more than %d digits, or with an exponent above that", maxDigits)
			}
			if err := checkCost(schema, value); err != nil {
				return guardrail.Verdict{}, err
			}
			err = schema.Validate(value)
			if err == nil {
				return verdict(true, inverted, text, "the JSON satisfies the schema", nil), nil
			}
			explanation = "the JSON does not satisfy the schema: " + schemaFault(err)
		}
		return verdict(false, inverted, text, explanation, map[string]any{"candidates": len(found)}), nil
	}
	return guardrail.Compiled{Run: run, Reach: guardrail.Reach{Complete: true}}, nil
}

// schemaFault returns the place of the first fault. The value itself is not
// repeated.
func schemaFault(err error) string {
	var fault *jsonschema.ValidationError
	if !errors.As(err, &fault) {
		return "invalid"
	}
	for len(fault.Causes) > 0 {
		fault = fault.Causes[0]
	}
	return excerpt("at /" + strings.Join(fault.InstanceLocation, "/") + " by " + strings.Join(fault.ErrorKind.KeywordPath(), "/"))
}

func compileJSONKeys(p *guardrail.Params) (guardrail.Compiled, error) {
	keys, operator, inverted := p.Strings("keys"), p.String("operator"), p.Bool("not")
	if len(keys) == 0 {
		return guardrail.Compiled{}, &guardrail.ParamError{Path: "keys", Message: "must have at least one key"}
	}
	run := func(_ context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		text := in.Text()
		if text == "" {
			return guardrail.Verdict{}, noText(inverted == (operator == "none"))
		}
		objects, present := 0, []string{}
		for _, raw := range candidates(text) {
			var members map[string]json.RawMessage
			if json.Unmarshal(raw, &members) != nil || members == nil {
				continue
			}
			objects++
			var have []string
			for _, k := range keys {
				if _, ok := members[k]; ok {
					have = append(have, k)
				}
			}
			if len(have) > len(present) {
				present = have
			}
		}
		if objects == 0 {
			return verdict(false, inverted, text, "the text has no JSON object", nil), nil
		}
		passed := len(present) == 0 // none
		switch operator {
		case "any":
			passed = len(present) > 0
		case "all":
			passed = len(present) == len(keys)
		}
		return verdict(passed, inverted, text, operator+" of the keys must be present",
			map[string]any{"presentKeys": present, "operator": operator}), nil
	}
	return guardrail.Compiled{Run: run, Reach: guardrail.Reach{Complete: true}}, nil
}
