package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/moment"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// filters parse each filter of a listing. metadata.<key> is handled separately. Names
// are resolved later by [LogHandler.resolve].
var filters = map[string]func(q *logstore.Query, value string) error{
	"from": func(q *logstore.Query, v string) (err error) {
		q.From, err = moment.Parse(v, time.Now(), time.UTC)
		return
	},
	"to": func(q *logstore.Query, v string) (err error) {
		q.To, err = moment.Parse(v, time.Now(), time.UTC)
		return
	},
	"status":  func(q *logstore.Query, v string) error { q.Status = v; return nil },
	"outcome": func(q *logstore.Query, v string) error { return setOf(q, logstore.ByOutcome, v, outcomes) },
	"model":   func(q *logstore.Query, v string) error { q.Model = one(q, logstore.ByModel, v); return nil },
	"upstream_model": func(q *logstore.Query, v string) error {
		q.UpstreamModel = one(q, logstore.ByUpstreamModel, v)
		return nil
	},
	"response_model": func(q *logstore.Query, v string) error {
		q.ResponseModel = one(q, logstore.ByResponseModel, v)
		return nil
	},
	"target":         func(q *logstore.Query, v string) error { q.Target = one(q, logstore.ByTarget, v); return nil },
	"provider":       func(q *logstore.Query, v string) error { q.Provider = v; return nil },
	"api_key":        func(q *logstore.Query, v string) error { return keyIDs(q, v) },
	"user":           func(q *logstore.Query, v string) error { return setList(q, byUser, v) },
	"error_code":     func(q *logstore.Query, v string) error { return setList(q, logstore.ByErrorCode, v) },
	"prompt":         func(q *logstore.Query, v string) error { return setList(q, logstore.ByPrompt, v) },
	"cache_status":   func(q *logstore.Query, v string) error { return setOf(q, logstore.ByCache, v, reqlog.CacheStatuses) },
	"order_by":       func(q *logstore.Query, v string) (err error) { q.Order.By, err = sortField(v); return },
	"order":          func(q *logstore.Query, v string) (err error) { q.Order.Ascending, err = ascending(v); return },
	"workspace":      func(q *logstore.Query, v string) error { q.Workspace = v; return nil },
	"config":         func(q *logstore.Query, v string) error { q.Configs = strings.Split(v, ","); return nil },
	"text":           func(q *logstore.Query, v string) error { q.Text = v; return nil },
	"trace_id":       func(q *logstore.Query, v string) error { q.TraceID = v; return nil },
	"operation":      func(q *logstore.Query, v string) (err error) { q.Operation, err = operation(v); return },
	"cursor":         func(q *logstore.Query, v string) error { q.Cursor = v; return nil },
	"limit":          func(q *logstore.Query, v string) (err error) { q.Limit, err = count(v); return },
	"min_latency_ms": func(q *logstore.Query, v string) (err error) { q.MinLatency, err = span(v); return },
	"max_latency_ms": func(q *logstore.Query, v string) (err error) { q.MaxLatency, err = span(v); return },
	"stream":         func(q *logstore.Query, v string) (err error) { q.Stream, err = flag(v); return },

	"cost_min":              func(q *logstore.Query, v string) (err error) { q.Cost.Min, err = cents(v); return },
	"cost_max":              func(q *logstore.Query, v string) (err error) { q.Cost.Max, err = cents(v); return },
	"cost_nano_usd_min":     func(q *logstore.Query, v string) (err error) { q.Cost.Min, err = figure(v); return },
	"cost_nano_usd_max":     func(q *logstore.Query, v string) (err error) { q.Cost.Max, err = figure(v); return },
	"total_units_min":       func(q *logstore.Query, v string) (err error) { q.Tokens.Min, err = figure(v); return },
	"total_units_max":       func(q *logstore.Query, v string) (err error) { q.Tokens.Max, err = figure(v); return },
	"prompt_token_min":      func(q *logstore.Query, v string) (err error) { q.PromptTokens.Min, err = figure(v); return },
	"prompt_token_max":      func(q *logstore.Query, v string) (err error) { q.PromptTokens.Max, err = figure(v); return },
	"completion_token_min":  func(q *logstore.Query, v string) (err error) { q.CompletionTokens.Min, err = figure(v); return },
	"weighted_feedback_min": func(q *logstore.Query, v string) (err error) { q.Weighted.Min, err = rating(v); return },
	"weighted_feedback_max": func(q *logstore.Query, v string) (err error) { q.Weighted.Max, err = rating(v); return },
	"completion_token_max":  func(q *logstore.Query, v string) (err error) { q.CompletionTokens.Max, err = figure(v); return },
}

func parseQuery(values url.Values) (logstore.Query, error) {
	var q logstore.Query
	for _, end := range [...]string{"_min", "_max"} {
		if values.Has("cost"+end) && values.Has("cost_nano_usd"+end) {
			return q, bad("cost"+end, "is the same bound as cost_nano_usd%s in cents; set one of them", end)
		}
	}
	for name, v := range values {
		if len(v) > 1 {
			return q, bad(name, "is set %d times; set it once", len(v))
		}
		if key, ok := strings.CutPrefix(name, "metadata."); ok && key != "" {
			if q.Metadata == nil {
				q.Metadata = make(map[string]string)
			}
			q.Metadata[key] = v[0]
			if utf8.RuneCountInString(v[0]) > api.MaxMetadataValue {
				return q, bad(name, "must be at most %d characters long", api.MaxMetadataValue)
			}
			continue
		}
		read, ok := filters[name]
		if !ok {
			return q, bad(name, "is not a log filter; see docs/logs.md")
		}
		if v[0] == "" {
			return q, bad(name, "must not be empty; leave it out to match all")
		}
		if err := read(&q, v[0]); err != nil {
			return q, bad(name, "%v", err)
		}
	}
	return q, unpin(&q, values)
}

// isFilter reports whether a list has this filter.
func isFilter(name string) bool { return filters[name] != nil }

// Relative times move between the pages of a list. The cursors of such a list begin with the
// times of its first page, which is what the next pages are about.

// pinned returns the cursor next with the times of the list if they are relative in values.
func pinned(values url.Values, from, to time.Time, next string) string {
	if next == "" || !isRelative(values.Get("from")) && !isRelative(values.Get("to")) {
		return next
	}
	ms := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return strconv.FormatInt(t.UnixNano(), 10)
	}
	return ms(from) + "." + ms(to) + "." + next
}

func isRelative(text string) bool {
	if text == "" {
		return false
	}
	early, _ := moment.Parse(text, time.Unix(0, 0), time.UTC)
	late, err := moment.Parse(text, time.Unix(1, 0), time.UTC)
	return err == nil && !early.Equal(late)
}

// unpin sets the times of q to those in its cursor. A cursor of other times has the wrong
// checksum.
func unpin(q *logstore.Query, values url.Values) error {
	parts := strings.Split(q.Cursor, ".")
	if len(parts) != 3 {
		return nil
	}
	for i, at := range [...]struct {
		name string
		to   *time.Time
	}{{"from", &q.From}, {"to", &q.To}} {
		ns, err := strconv.ParseInt(parts[i], 10, 64)
		switch {
		case parts[i] == "" && !values.Has(at.name):
		case err != nil || !values.Has(at.name):
			return bad("cursor", "is not of this list; start again without it")
		default:
			*at.to = time.Unix(0, ns)
		}
	}
	q.Cursor = parts[2]
	return nil
}

// byUser stands for the user filter until [LogHandler.resolve] replaces it by keys.
const byUser = logstore.ByNothing

// outcomes are the names of outcomes.
var outcomes = []string{"success", "error", "cancelled", "other"}

// maxListed is the limit of the values of a list.
const maxListed = 100

// setList filters by a list of values of a field, separated by commas.
func setList(q *logstore.Query, field logstore.Field, v string) error {
	list := strings.Split(v, ",")
	if len(list) > maxListed || slices.Contains(list, "") {
		return fmt.Errorf("must be 1 to %d values separated by commas", maxListed)
	}
	if q.Is == nil {
		q.Is = make(map[logstore.Field][]string)
	}
	q.Is[field] = list
	return nil
}

// setOf filters like setList, by values that must be in known.
func setOf(q *logstore.Query, field logstore.Field, v string, known []string) error {
	for value := range strings.SplitSeq(v, ",") {
		if !slices.Contains(known, value) {
			return fmt.Errorf("must be one or more of %s, not %.40q", strings.Join(known, ", "), value)
		}
	}
	return setList(q, field, v)
}

// one returns v if it is a single value, which the log finds fastest; otherwise it filters by
// the list.
func one(q *logstore.Query, field logstore.Field, v string) string {
	if !strings.Contains(v, ",") || setList(q, field, v) != nil {
		return v
	}
	return ""
}

// keyIDs filters by ids of gateway keys. Its error never contains the values, which may be keys.
func keyIDs(q *logstore.Query, v string) error {
	for id := range strings.SplitSeq(v, ",") {
		if strings.HasPrefix(id, access.KeyPrefix) {
			return errors.New("must be the id of a gateway key, not the key itself; it is api_key.id in log entries")
		}
	}
	q.KeyID = one(q, logstore.ByKey, v)
	return nil
}

func sortField(v string) (logstore.SortField, error) {
	f := logstore.SortField(v)
	if !slices.Contains(logstore.SortFields, f) {
		return "", fmt.Errorf("must be one of %v, not %.40q", logstore.SortFields, v)
	}
	return f, nil
}

func ascending(v string) (bool, error) {
	if v != "asc" && v != "desc" {
		return false, errors.New("must be asc or desc")
	}
	return v == "asc", nil
}

func operation(v string) (api.Operation, error) {
	op := api.Operation(v)
	if !op.IsLogged() {
		return "", errors.New("must be an operation such as chat or embeddings; see docs/logs.md")
	}
	return op, nil
}

// resolve replaces names in q by the ids and slugs of entries. A workspace, provider, key
// or config outside the caller's view is not found.
func (l *LogHandler) resolve(ctx context.Context, who *access.Identity, q *logstore.Query) (err error) {
	names := route.LogNames{DB: l.DB.Queries, Caller: who, Scope: q.Scope, Files: filesOf(who, l.Files)}
	if l.Store != nil {
		names.Sum = l.Store.Groups
	}
	if q.Workspace != "" {
		ref := q.Workspace
		q.Workspace, err = names.Workspace(ctx, "workspace", ref)
		if err != nil && readsAcross(who) && apierr.IsNotFound(err) {
			q.Workspace, err = names.AnyWorkspace(ctx, "workspace", ref)
		}
		if err != nil {
			return err
		}
	}
	if readsAcross(who) {
		names.Scope = everything
	}
	if q.Provider != "" {
		if q.Providers, err = names.Providers(ctx, "provider", strings.Split(q.Provider, ",")); err != nil {
			return err
		}
		q.Provider = ""
	}
	keys := q.Is[logstore.ByKey]
	if q.KeyID != "" {
		keys = []string{q.KeyID}
	}
	if err = names.CheckKeys(ctx, "api_key", keys); err != nil {
		return err
	}
	if err = names.CheckPrompts(ctx, "prompt", q.Is[logstore.ByPrompt]); err != nil {
		return err
	}
	if err = names.CheckErrorCodes(ctx, "error_code", q.Is[logstore.ByErrorCode]); err != nil {
		return err
	}
	if users, ok := q.Is[byUser]; ok {
		of, err := names.UserKeys(ctx, "user", users)
		if err != nil {
			return err
		}
		if keys != nil {
			of = slices.DeleteFunc(of, func(id string) bool { return !slices.Contains(keys, id) })
		}
		delete(q.Is, byUser)
		q.KeyID, q.Is[logstore.ByKey] = "", of
	}
	if q.Configs != nil {
		q.Configs, err = names.Configs(ctx, "config", q.Configs)
	}
	return err
}

// filesOf returns what the settings file declares if the caller may see it.
func filesOf(who *access.Identity, files func() route.Declared) route.Declared {
	if files == nil || who.Organisation != store.DefaultOrganisation && !readsAcross(who) {
		return route.Declared{}
	}
	return files()
}
