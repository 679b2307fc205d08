package checks

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"modelgate/internal/guardrail"
)

func requestChecks() []guardrail.Definition {
	facts := func(id string, aliases []string, summary string, compile func(*guardrail.Params) (guardrail.Compiled, error),
		params ...guardrail.Param) guardrail.Definition {
		return guardrail.Definition{ID: id, Aliases: aliases, On: before, Facts: true, Summary: summary, Params: params, Compile: compile}
	}
	howMany := one("operator", "How many must be present.", "all", "any", "none")
	return []guardrail.Definition{
		facts("default.modelWhitelist", nil, "The requested model is in the list. A `*` matches any characters.", compileModelWhitelist,
			required("models", guardrail.StringList, "Models, such as `gpt-*`."), not),
		facts("default.modelRules", nil, "The requested model is in the lists of the metadata of the request, or in `defaults` if none applies.",
			compileModelRules,
			required("rules", guardrail.Object, "`defaults`: models; `metadata`: an object of lists of models by key and value."), not),
		facts("default.allowedRequestTypes", nil,
			"The operation is allowed and not blocked. Without either list, the metadata `supported_endpoints` and `blocked_endpoints` apply.",
			compileRequestTypes,
			param("allowedTypes", guardrail.StringOrList, "", "Operations such as `chatComplete`; empty allows all."),
			param("blockedTypes", guardrail.StringOrList, "", "Operations that are blocked, even if they are allowed."), not),
		facts("default.requiredMetadataKeys", nil, "The metadata of the request has the keys.", compileMetadataKeys,
			required("metadataKeys", guardrail.StringList, "Keys."), howMany, not),
		facts("default.requiredMetadataKeyValuePairs", nil, "The metadata of the request has the pairs.", compileMetadataPairs,
			required("metadataPairs", guardrail.StringMap, "Values by key."), howMany,
			one("matchType", "How values are compared.", "exact", "contains", "regex"), not),
		facts("default.requestParametersCheck", []string{"requestParams", "request-params"},
			"The request uses only allowed tools and parameters, and no blocked ones.", compileRequestParams,
			param("tools", guardrail.Object, "",
				"`allowedTypes`, `blockedTypes`, `allowedFunctionNames`, `blockedFunctionNames`: arrays of strings; empty allows all."),
			param("params", guardrail.Object, "",
				"`allowedKeys`, `blockedKeys`: arrays of strings; `values`: by key an object with `allowedValues` or `blockedValues`.")),
	}
}

// factual returns a check that reads only the facts of a request.
func factual(run func(r *guardrail.Request) (guardrail.Verdict, error)) guardrail.Compiled {
	return guardrail.Compiled{Reach: guardrail.Reach{Facts: true},
		Run: func(_ context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
			return run(in.Request)
		}}
}

// toolVerdict is the verdict of a check of models or parameters about a message to a tool
// server, which has none.
var toolVerdict = guardrail.Verdict{Passed: true,
	Data: &guardrail.Data{Verdict: true, Explanation: "the check does not apply to tool servers"}}

// glob is a pattern for names in which a star matches any characters: the strings between
// its stars.
type glob []string

// matches takes time in proportion to the name and the pattern.
func (g glob) matches(name string) bool {
	first, last := g[0], g[len(g)-1]
	if len(g) == 1 {
		return name == first
	}
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	name = name[len(first) : len(name)-len(last)]
	for _, part := range g[1 : len(g)-1] {
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		name = name[at+len(part):]
	}
	return true
}

func globs(names []string) (list []glob) {
	for _, n := range names {
		list = append(list, strings.Split(n, "*"))
	}
	return list
}

func matches(list []glob, name string) bool {
	return slices.ContainsFunc(list, func(g glob) bool { return g.matches(name) })
}

// maxModelName is the length in bytes of the longest name of a model that is compared with
// lists.
const maxModelName = 1000

// checkModelName returns an error for a name that cannot be compared with lists.
func checkModelName(name string) error {
	switch {
	case name == "":
		return errNoModel
	case len(name) > maxModelName:
		return guardrail.NewIncomplete("the name of the model has more than %d bytes", maxModelName)
	}
	return nil
}

var errNoModel = errors.New("the request names no model")

func compileModelWhitelist(p *guardrail.Params) (guardrail.Compiled, error) {
	models, inverted := globs(p.Strings("models")), p.Bool("not")
	if len(models) == 0 {
		return guardrail.Compiled{}, &guardrail.ParamError{Path: "models", Message: "must have at least one model"}
	}
	return factual(func(r *guardrail.Request) (guardrail.Verdict, error) {
		if r.Tools {
			return toolVerdict, nil
		}
		if err := checkModelName(r.Model); err != nil {
			return guardrail.Verdict{}, err
		}
		return verdict(matches(models, r.Model), inverted, "", "the model was compared with the list", map[string]any{"model": excerpt(r.Model)}),
			nil
	}), nil
}

// modelRule is the list of models for a value of metadata.
type modelRule struct {
	key, value string
	models     []glob
}

func compileModelRules(p *guardrail.Params) (guardrail.Compiled, error) {
	none, inverted := guardrail.Compiled{}, p.Bool("not")
	rules, err := p.Nested("rules", param("defaults", guardrail.StringList, "", ""), param("metadata", guardrail.Object, "", ""))
	if err != nil {
		return none, err
	}
	var list []modelRule
	values := rules.Object("metadata")
	for _, key := range slices.Sorted(maps.Keys(values)) {
		byValue := map[string][]string{}
		if json.Unmarshal(values[key], &byValue) != nil {
			return none, &guardrail.ParamError{Path: "rules.metadata." + excerpt(key), Message: "must be an object of arrays of models"}
		}
		for value, models := range byValue {
			list = append(list, modelRule{key, value, globs(models)})
		}
	}
	defaults := globs(rules.Strings("defaults"))
	if len(defaults) == 0 && len(list) == 0 {
		return none, &guardrail.ParamError{Path: "rules", Message: "must have defaults or metadata"}
	}
	return factual(func(r *guardrail.Request) (guardrail.Verdict, error) {
		if r.Tools {
			return toolVerdict, nil
		}
		var allowed []glob
		applied := []string{}
		for _, rule := range list {
			if slices.Contains(listOf(r.Metadata[rule.key]), rule.value) {
				allowed, applied = append(allowed, rule.models...), append(applied, rule.key)
			}
		}
		if len(applied) == 0 {
			allowed = defaults
		}
		if err := checkModelName(r.Model); err != nil {
			return guardrail.Verdict{}, err
		}
		if len(allowed) == 0 {
			return guardrail.Verdict{}, guardrail.NewIncomplete("no rule applies to the metadata of the request, and there are no defaults")
		}
		slices.Sort(applied)
		return verdict(matches(allowed, r.Model), inverted, "", "the model was compared with the rules",
			map[string]any{"model": excerpt(r.Model), "matchedKeys": slices.Compact(applied)}), nil
	}), nil
}

// listOf returns the values of a metadata entry: those of a JSON array of
// strings, else the value itself.
func listOf(value string) []string {
	var list []string
	if strings.HasPrefix(value, "[") && json.Unmarshal([]byte(value), &list) == nil {
		return list
	}
	return []string{value}
}

func compileRequestTypes(p *guardrail.Params) (guardrail.Compiled, error) {
	allowed, blocked, inverted := p.Strings("allowedTypes"), p.Strings("blockedTypes"), p.Bool("not")
	if overlap := common(allowed, blocked); overlap != "" {
		return guardrail.Compiled{}, &guardrail.ParamError{Path: "blockedTypes", Message: "must not repeat a type of allowedTypes: " + overlap}
	}
	given := p.Has("allowedTypes") || p.Has("blockedTypes")
	return factual(func(r *guardrail.Request) (guardrail.Verdict, error) {
		allowed, blocked := allowed, blocked
		if !given {
			allowed, blocked = typesOf(r.Metadata["supported_endpoints"]), typesOf(r.Metadata["blocked_endpoints"])
			if overlap := common(allowed, blocked); overlap != "" {
				return guardrail.Verdict{}, guardrail.NewIncomplete("a type is both supported and blocked by the metadata: %s", overlap)
			}
		}
		passed := !slices.Contains(blocked, r.Operation) && (len(allowed) == 0 || slices.Contains(allowed, r.Operation))
		return verdict(passed, inverted, "", "the type of the request was compared with the lists", map[string]any{"requestType": r.Operation}),
			nil
	}), nil
}

// typesOf returns a list of metadata: a JSON array, or names between commas.
func typesOf(value string) (list []string) {
	for _, v := range listOf(value) {
		for s := range strings.SplitSeq(v, ",") {
			if s = strings.TrimSpace(s); s != "" {
				list = append(list, s)
			}
		}
	}
	return list
}

// common returns the first entry of a that is in b too, or nothing.
func common(a, b []string) string {
	for _, s := range a {
		if slices.Contains(b, s) {
			return excerpt(s)
		}
	}
	return ""
}

// enough reports whether n of total satisfies an operator.
func enough(operator string, n, total int) bool {
	switch operator {
	case "all":
		return n == total
	case "any":
		return n > 0
	}
	return n == 0
}

func compileMetadataKeys(p *guardrail.Params) (guardrail.Compiled, error) {
	keys, operator, inverted := p.Strings("metadataKeys"), p.String("operator"), p.Bool("not")
	if len(keys) == 0 {
		return guardrail.Compiled{}, &guardrail.ParamError{Path: "metadataKeys", Message: "must have at least one key"}
	}
	return factual(func(r *guardrail.Request) (guardrail.Verdict, error) {
		found, missing := []string{}, []string{}
		for _, k := range keys {
			if _, ok := r.Metadata[k]; ok {
				found = append(found, k)
			} else {
				missing = append(missing, k)
			}
		}
		return verdict(enough(operator, len(found), len(keys)), inverted, "", operator+" of the keys must be present",
			map[string]any{"matched_keys": found, "missing_keys": missing, "operator": operator}), nil
	}), nil
}

func compileMetadataPairs(p *guardrail.Params) (guardrail.Compiled, error) {
	pairs, operator, inverted := p.Map("metadataPairs"), p.String("operator"), p.Bool("not")
	if len(pairs) == 0 {
		return guardrail.Compiled{}, &guardrail.ParamError{Path: "metadataPairs", Message: "must have at least one pair"}
	}
	tests := map[string]func(string) bool{}
	for k, want := range pairs {
		test, err := comparison(p.String("matchType"), want)
		if err != nil {
			return guardrail.Compiled{},
				&guardrail.ParamError{Path: "metadataPairs." + excerpt(k), Message: "must be a regular expression in RE2 syntax"}
		}
		tests[k] = test
	}
	keys := slices.Sorted(maps.Keys(tests))
	return factual(func(r *guardrail.Request) (guardrail.Verdict, error) {
		matched, other := []string{}, []string{}
		for _, k := range keys {
			if value, ok := r.Metadata[k]; ok && tests[k](value) {
				matched = append(matched, k)
			} else {
				other = append(other, k)
			}
		}
		return verdict(enough(operator, len(matched), len(keys)), inverted, "", operator+" of the pairs must match",
			map[string]any{"matched_keys": matched, "missing_keys": other, "operator": operator}), nil
	}), nil
}

// comparison returns a test of a string by a match type: exact, contains or
// regex.
func comparison(matchType, want string) (func(string) bool, error) {
	switch matchType {
	case "contains":
		return func(s string) bool { return strings.Contains(s, want) }, nil
	case "regex":
		p, err := compilePattern("", want)
		if err != nil {
			return nil, err
		}
		return func(s string) bool { return p.check(s, maxSteps) == nil && p.re.MatchString(s) }, nil
	}
	return func(s string) bool { return s == want }, nil
}
