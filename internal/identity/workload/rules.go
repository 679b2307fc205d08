package workload

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// separators end the segments of a value.
const separators = "/:@|"

// pullRequest begins the names of events with code that anybody can propose.
const pullRequest = "pull_request"

// checkRules returns an error for rules that would accept workloads of anybody.
func (t *Trust) checkRules(k kind) error {
	if len(t.Claims) > maxRules {
		return bad("claims", "must have at most %d rules", maxRules)
	}
	identified := false
	for _, claim := range slices.Sorted(maps.Keys(t.Claims)) {
		field := "claims." + claim
		values := t.Claims[claim]
		switch {
		case claim == "" || len(claim) > 255 || !isPlain(claim):
			return bad("claims", "has a name that is empty, too long or has control characters")
		case slices.Contains([]string{"iss", "aud", "exp", "nbf", "iat"}, claim):
			return bad(field, "is checked anyway; use issuer and audience")
		case len(values) == 0 || len(values) > maxValues:
			return bad(field, "must have 1 to %d values", maxValues)
		}
		identifies := slices.Contains(k.identify, claim)
		identified = identified || identifies
		for _, v := range values {
			problem := checkValue(v)
			if problem == "" && identifies {
				problem = k.checkValue(claim, v)
			}
			if problem != "" {
				return bad(field, "%s", problem)
			}
		}
	}
	if !identified {
		return bad("claims", "must have a rule that identifies the workload: on %s. Without one, every workload of the issuer would be accepted",
			strings.Join(k.identify, ", "))
	}
	return nil
}

// checkValue returns what is wrong with the value of a rule, empty for nothing.
func checkValue(v string) string {
	switch {
	case v == "" || len([]rune(v)) > maxValue || !isPlain(v):
		return fmt.Sprintf("must have values of 1 to %d characters", maxValue)
	case strings.Trim(v, "*"+separators) == "":
		return fmt.Sprintf("has the value %.60q, which would match everything; leave the rule out", v)
	}
	for segment := range strings.FieldsFuncSeq(v, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
		if strings.Count(segment, "*") > 1 {
			return fmt.Sprintf("has the value %.60q: each segment may have one *, which stands for characters of that segment only", v)
		}
	}
	return ""
}

// checkExact refuses patterns.
func checkExact(claim, v string) string {
	if strings.Contains(v, "*") {
		return fmt.Sprintf("has the value %.60q: %s identifies the workload and must be exact", v, claim)
	}
	return ""
}

// checkLastSegment allows a * only in the last of several segments.
func checkLastSegment(claim, v string) string {
	i := strings.LastIndexAny(v, separators)
	if strings.Contains(v[:i+1], "*") || i <= 0 && strings.Contains(v, "*") {
		return fmt.Sprintf("has the value %.60q: %s identifies the workload, so only its last segment may have a *", v, claim)
	}
	return ""
}

// checkGitHub requires an exact owner of the repository.
func checkGitHub(claim, v string) string {
	owner := v
	switch claim {
	case "sub":
		rest, ok := strings.CutPrefix(v, "repo:")
		if !ok {
			return fmt.Sprintf("has the value %.60q, which must begin with repo:{owner}/", v)
		}
		owner = rest
		fallthrough
	case "repository":
		var rest string
		owner, rest, _ = strings.Cut(owner, "/")
		if rest == "" {
			return fmt.Sprintf("has the value %.60q, which has no repository after the owner and /", v)
		}
	}
	if owner == "" || strings.Contains(owner, "*") {
		return fmt.Sprintf("has the value %.60q: the owner of the repository must be exact", v)
	}
	return ""
}

// checkServiceAccount requires an exact namespace.
func checkServiceAccount(_, v string) string {
	parts := strings.Split(v, ":")
	if len(parts) != 4 || parts[0] != "system" || parts[1] != "serviceaccount" || parts[2] == "" || parts[3] == "" {
		return fmt.Sprintf("has the value %.60q, which must be system:serviceaccount:{namespace}:{name}", v)
	}
	if strings.Contains(parts[2], "*") {
		return fmt.Sprintf("has the value %.60q: the namespace must be exact", v)
	}
	return ""
}

// checkSPIFFE requires an id of the trust domain with an exact first segment.
func (t *Trust) checkSPIFFE(_, v string) string {
	path, ok := strings.CutPrefix(v, "spiffe://"+t.TrustDomain+"/")
	first, _, _ := strings.Cut(path, "/")
	if !ok || first == "" || strings.Contains(first, "*") {
		return fmt.Sprintf("has the value %.60q, which must begin with spiffe://%s/ and a segment without a *", v, t.TrustDomain)
	}
	return ""
}

// matches reports whether a value matches a pattern: it has the same segments and
// separators, with one or more characters in place of a *.
func matches(pattern, v string) bool {
	for {
		i, j := strings.IndexAny(pattern, separators), strings.IndexAny(v, separators)
		if i < 0 || j < 0 {
			return i == j && matchesSegment(pattern, v)
		}
		if pattern[i] != v[j] || !matchesSegment(pattern[:i], v[:j]) {
			return false
		}
		pattern, v = pattern[i+1:], v[j+1:]
	}
}

func matchesSegment(pattern, v string) bool {
	before, after, ok := strings.Cut(pattern, "*")
	if !ok {
		return pattern == v
	}
	return len(v) > len(before)+len(after) && strings.HasPrefix(v, before) && strings.HasSuffix(v, after)
}

// checkClaims returns an error for claims that do not satisfy the rules.
func (t *Trust) checkClaims(claims map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(t.Claims)) {
		v, ok := scalar(claims[name])
		if !ok {
			return refuse("claims", "the claim %s is absent, or is not a string, number or boolean", name)
		}
		if !slices.ContainsFunc(t.Claims[name], func(pattern string) bool { return matches(pattern, v) }) {
			return refuse("claims", "the claim %s is %.200q, which no value of its rule matches", name, v)
		}
	}
	return t.checkPullRequest(claims)
}

// checkPullRequest refuses tokens of pull requests of GitHub, which run code that others
// propose, unless a rule asks for them.
func (t *Trust) checkPullRequest(claims map[string]json.RawMessage) error {
	if t.Type != GitHub {
		return nil
	}
	sub, _ := scalar(claims["sub"])
	event, ok := scalar(claims["event_name"])
	if asked := t.Claims["event_name"]; len(asked) > 0 || slices.ContainsFunc(t.Claims["sub"], endsInPullRequest) {
		return nil // the rule was satisfied
	}
	if !ok {
		return refuse("pull_request", "the claim event_name is absent, so the token may be of a pull request")
	}
	if strings.HasPrefix(event, pullRequest) || endsInPullRequest(sub) {
		return refuse("pull_request", "the token is of a pull request (event_name %.60q); add a rule on event_name to accept it", event)
	}
	return nil
}

func endsInPullRequest(sub string) bool { return strings.HasSuffix(sub, ":"+pullRequest) }

// scalar returns a claim that is a string, or a number or boolean as it is written.
func scalar(raw json.RawMessage) (string, bool) {
	var s string
	if len(raw) == 0 || raw[0] == '{' || raw[0] == '[' || string(raw) == "null" {
		return "", false
	}
	if raw[0] != '"' {
		return string(raw), true
	}
	if json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}
