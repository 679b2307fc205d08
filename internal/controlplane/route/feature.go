package route

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
)

// Feature is a part of the gateway that its operator may disable, named by the
// environment variable that does so.
type Feature string

// The features. Their routes are in families; comments name other effects of disabling
// them.
const (
	Guardrails  Feature = "GUARDRAILS_ENABLED" // guardrails of configs are not run
	APIAccess   Feature = "API_ACCESS_ENABLED" // the control plane accepts only sessions
	DataExports Feature = "DATA_EXPORTS_ENABLED"
	UsageLimits Feature = "USAGE_LIMITS_ENABLED" // fields of limits are rejected too
	AuditLogs   Feature = "AUDIT_LOGS_ENABLED"   // no events are written
	SCIM        Feature = "SCIM_ENABLED"
	Policies    Feature = "POLICY_ENABLED"
)

// Features are all features.
var Features = []Feature{Guardrails, APIAccess, DataExports, UsageLimits, AuditLogs, SCIM, Policies}

// families are the path prefixes of features.
var families = map[Feature][]string{
	Guardrails: {"/guardrails", "/guardrail-modules", "/guardrail-credentials", "/workspace-exclusions",
		"/admin/organisation/defaults", "/organisation/defaults"},
	DataExports: {"/logs/exports", "/logs/export-schedules"},
	AuditLogs:   {"/audit-logs"},
	SCIM:        {"/scim"},
	Policies:    {"/policies"},
	UsageLimits: {"/policies"},
}

// DisabledFeatures is the set of disabled features. Nil is none.
type DisabledFeatures map[Feature]bool

// ParseDisabledFeatures returns the features that an environment disables: those whose
// variable is exactly OFF. Doubts are variables with a value that probably means the
// same.
func ParseDisabledFeatures(env func(string) string) (off DisabledFeatures, doubts []Feature) {
	for _, f := range Features {
		switch v := env(string(f)); {
		case v == "OFF":
			if off == nil {
				off = make(DisabledFeatures)
			}
			off[f] = true
		case slices.Contains([]string{"off", "false", "no", "0", "disabled"}, strings.ToLower(strings.TrimSpace(v))):
			doubts = append(doubts, f)
		}
	}
	return off, doubts
}

// Retention is the retention of logs and metrics in days, as displayed.
type Retention struct{ Logs, Metrics int }

// ReadRetention reads LOG_RETENTION_DISPLAY and METRICS_RETENTION_DISPLAY, which
// default to 90 and 365 days.
func ReadRetention(env func(string) string) (r Retention, err error) {
	for _, v := range []struct {
		name string
		days int
		to   *int
	}{{"LOG_RETENTION_DISPLAY", 90, &r.Logs}, {"METRICS_RETENTION_DISPLAY", 365, &r.Metrics}} {
		*v.to = v.days
		text := env(v.name)
		if text == "" {
			continue
		}
		if *v.to, err = strconv.Atoi(text); err != nil || *v.to < 1 {
			return r, fmt.Errorf("%s must be a number of days from 1, not %q", v.name, text)
		}
	}
	return r, nil
}

// CheckPath returns an error if path belongs to a disabled feature.
func (o DisabledFeatures) CheckPath(path string) error {
	if len(o) == 0 {
		return nil
	}
	rest := strings.TrimPrefix(path, api.BasePath)
	for f := range o {
		for _, family := range families[f] {
			if below, ok := strings.CutPrefix(rest, family); ok && (below == "" || below[0] == '/') {
				return disabledError(f)
			}
		}
	}
	return nil
}

func disabledError(f Feature) *apierr.Error {
	return apierr.New(apierr.Forbidden, "this feature is disabled: the operator set %s=OFF", f).WithCode("AB03")
}

// checkBody returns an error if the body of a request uses a disabled feature on a path
// of another.
func (o DisabledFeatures) checkBody(id *access.Identity, body []byte) error {
	if o[APIAccess] && id.Type != access.Session && id.Type != access.PendingSession {
		return disabledError(APIAccess)
	}
	if !o[UsageLimits] {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return nil // no body, or reported by huma
	}
	return checkLimitFields("", fields)
}

// limitFields are the fields that set limits, and nested the fields that contain them.
var (
	limitFields = []string{"usage_limits", "rate_limits", "reset_usage"}
	nested      = []string{"workspaces", "global_workspace_access"}
)

// checkLimitFields returns an error if a field sets a limit. Removing one is allowed.
func checkLimitFields(path string, fields map[string]json.RawMessage) error {
	for _, name := range limitFields {
		if isNotEmpty(fields[name]) {
			return disabledError(UsageLimits).WithParam(path + name)
		}
	}
	for _, name := range nested {
		var one map[string]json.RawMessage
		if json.Unmarshal(fields[name], &one) == nil {
			if err := checkLimitFields(path+name+".", one); err != nil {
				return err
			}
		}
		var list []map[string]json.RawMessage
		if json.Unmarshal(fields[name], &list) != nil {
			continue
		}
		for i, item := range list {
			if err := checkLimitFields(fmt.Sprintf("%s%s[%d].", path, name, i), item); err != nil {
				return err
			}
		}
	}
	return nil
}

// isNotEmpty reports whether a value is set and not empty.
func isNotEmpty(raw json.RawMessage) bool {
	var v any
	json.Unmarshal(raw, &v) // absent values stay nil
	list, many := v.([]any)
	return v != nil && v != false && !(many && len(list) == 0)
}

// ServeOff serves a request for a path of a disabled feature, whether or not it has a
// route, and reports whether it did.
func (a *API) ServeOff(w http.ResponseWriter, path string) bool {
	err := a.Off.CheckPath(path)
	if err != nil {
		ForbidSniffing(w)
		a.failure(err).write(w)
	}
	return err != nil
}

// sections are the sections of a state of the control plane that belong to features, in
// addition to other things: with organisation, a state says which guardrails all requests have.
var sections = map[Feature][]string{
	Guardrails:  {"guardrails", "guardrail_credentials", "organisation"},
	Policies:    {"policies"},
	UsageLimits: {"policies"},
}

// CheckSection returns an error if a section of a state belongs to a disabled feature.
func (o DisabledFeatures) CheckSection(name string) error {
	for f := range o {
		if slices.Contains(sections[f], name) {
			return disabledError(f).WithParam("state." + name)
		}
	}
	return nil
}

// CheckState returns an error if a state, an object with sections, uses a disabled feature.
func (o DisabledFeatures) CheckState(state []byte) error {
	var given map[string]json.RawMessage
	if len(o) == 0 || json.Unmarshal(state, &given) != nil {
		return nil // no object, which is reported later
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		err := o.CheckSection(name)
		if err == nil && o[UsageLimits] && setsLimit(given[name]) {
			err = disabledError(UsageLimits).WithParam("state." + name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setsLimit reports whether a value has a field that sets a limit, at any depth.
func setsLimit(raw json.RawMessage) bool {
	var fields map[string]json.RawMessage
	var list []json.RawMessage
	if json.Unmarshal(raw, &fields) != nil && json.Unmarshal(raw, &list) != nil {
		return false
	}
	for name, value := range fields {
		if slices.Contains(limitFields, name) && isNotEmpty(value) || setsLimit(value) {
			return true
		}
	}
	return slices.ContainsFunc(list, setsLimit)
}
