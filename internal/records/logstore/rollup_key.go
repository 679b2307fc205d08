package logstore

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"modelgate/internal/records/reqlog"
)

// Field is a property by which entries can be grouped. The zero Field is none.
type Field uint8

// Fields. The key of a rollup has a string for each field except ByStatus and ByOutcome.
const (
	ByNothing Field = iota
	ByWorkspace
	ByKey
	ByService  // id of the provider
	ByProvider // slug of the managed provider; empty for credentials by header
	ByModel    // requested model
	ByConfig   // id of the saved config; otherwise empty
	ByPrompt   // slug of the saved prompt; empty for none
	ByCache
	ByUpstreamModel
	ByResponseModel
	ByTarget // path of the target in its config
	ByStatus
	ByOutcome

	// The following are details: see [groupSet.append].
	ByErrorCode
	ByTargetName    // name of the target in its config
	ByConfigVersion // ref of the saved config and its version, written main@3
	ByPromptVersion // slug of the saved prompt and its version
	ByOperation

	numFields = int(ByOperation) + 1
)

// otherValues replaces the rarest values of a bounded field in a minute or hour of an
// organisation, because clients and providers choose these names, and how many there
// are.
const otherValues = "other"

const (
	maxText   = 128 // limit of a stored string, in bytes
	maxValues = 512 // limit of each bounded field
	maxRoutes = 2048
)

// bounded are the fields whose values clients or providers choose.
var bounded = [...]Field{ByModel, ByUpstreamModel, ByResponseModel, ByTarget, ByErrorCode, ByTargetName}

// groupKey holds the values that grouped entries have in common.
type groupKey struct {
	texts   [numFields]string // by field; empty for ByNothing, ByStatus and ByOutcome
	status  int
	outcome reqlog.ExchangeOutcome
}

func keyOf(e *reqlog.Entry) groupKey {
	k := groupKey{status: e.Status, outcome: e.Outcome()}
	k.texts[ByWorkspace] = clip(e.Workspace)
	k.texts[ByKey] = clip(e.KeyID)
	k.texts[ByService] = clip(e.Provider)
	k.texts[ByProvider] = clip(e.Slug)
	k.texts[ByModel] = clip(e.Model)
	k.texts[ByConfig] = clip(e.Config)
	k.texts[ByPrompt] = clip(e.Prompt.Slug)
	k.texts[ByCache] = clip(e.CacheStatus)
	k.texts[ByUpstreamModel] = clip(e.UpstreamModel)
	k.texts[ByResponseModel] = clip(e.ResponseModel)
	k.texts[ByTarget] = clip(e.OptionIndex)
	k.texts[ByErrorCode] = clip(e.ErrorCode)
	k.texts[ByTargetName] = clip(e.TargetName)
	k.texts[ByConfigVersion] = versionOf(e.Config, e.ConfigVersion)
	k.texts[ByPromptVersion] = versionOf(e.Prompt.Slug, e.Prompt.Version)
	k.texts[ByOperation] = clip(string(e.Operation))
	return k
}

// finer are the fields whose values select some entries of another field's values: a filter
// by the other field accepts them as well.
var finer = map[Field]Field{ByTarget: ByTargetName, ByConfig: ByConfigVersion, ByPrompt: ByPromptVersion}

// is reports whether the value of a field is in list.
func (k *groupKey) is(f Field, list []string) bool {
	if slices.Contains(list, k.text(f)) {
		return true
	}
	detail, ok := finer[f]
	return ok && k.texts[detail] != "" && slices.Contains(list, k.texts[detail])
}

// versionOf returns a version in the form of groups and filters, empty for none.
func versionOf(ref string, version int64) string {
	if ref == "" || version <= 0 {
		return ""
	}
	return clip(ref) + "@" + strconv.FormatInt(version, 10)
}

// text returns the value of a field.
func (k *groupKey) text(f Field) string {
	switch f {
	case ByStatus:
		return strconv.Itoa(k.status)
	case ByOutcome:
		return k.outcome.String()
	}
	return k.texts[f]
}

// clip returns the stored beginning of s, without cutting a character.
func clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	n := maxText
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// countKey adds the values that follow from the key, for all requests of s.
func (s *Totals) countKey(k *groupKey) {
	switch k.outcome {
	case reqlog.OutcomeSuccess:
		s.Successes = s.Requests
	case reqlog.OutcomeError:
		s.Errors = s.Requests
	case reqlog.OutcomeCancelled:
		s.Cancelled = s.Requests
	}
	switch k.texts[ByCache] {
	case "HIT":
		s.Hits = s.Requests
	case "SEMANTIC HIT":
		s.Hits, s.SemanticHits = s.Requests, s.Requests
	}
}

// bound limits the values of each bounded field to maxValues, and their combinations to
// about maxRoutes, in which the requested model is kept.
func (set groupSet) bound() {
	for _, f := range bounded {
		rest := rare(set, maxValues, func(k *groupKey) string { return k.texts[f] })
		delete(rest, otherValues)
		set.replace(func(k *groupKey) bool { return rest[k.texts[f]] }, f)
	}
	route := func(k *groupKey) (r [len(bounded)]string) {
		for i, f := range bounded {
			r[i] = k.texts[f]
		}
		return r
	}
	rest := rare(set, maxRoutes, route)
	set.replace(func(k *groupKey) bool { return rest[route(k)] }, bounded[1:]...)
}

// rare returns the values with the fewest requests if there are more than most: all but
// most-1.
func rare[K comparable](set groupSet, most int, of func(*groupKey) K) map[K]bool {
	requests := make(map[K]int64)
	first := make(map[K]*groupKey) // a key for each value, for a stable order of equals
	for k, s := range set {
		v := of(&k)
		requests[v] += s.Requests
		if f := first[v]; f == nil || compareKeys(&k, f) < 0 {
			first[v] = &k
		}
	}
	if len(requests) <= most {
		return nil
	}
	values := slices.SortedFunc(maps.Keys(requests), func(a, b K) int {
		return cmp.Or(cmp.Compare(requests[b], requests[a]), compareKeys(first[a], first[b]))
	})
	rest := make(map[K]bool, len(values))
	for _, v := range values[most-1:] {
		rest[v] = true
	}
	return rest
}

func compareKeys(a, b *groupKey) int { return slices.Compare(a.texts[:], b.texts[:]) }

// replace sets fields of the chosen keys to otherValues.
func (set groupSet) replace(chosen func(*groupKey) bool, fields ...Field) {
	for k, s := range maps.Clone(set) {
		if !chosen(&k) {
			continue
		}
		delete(set, k)
		for _, f := range fields {
			if k.texts[f] == "" && f > ByOutcome {
				continue // a success is not of another error code
			}
			k.texts[f] = otherValues
		}
		set.at(k).Merge(s)
	}
}
