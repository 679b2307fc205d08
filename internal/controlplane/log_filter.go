package controlplane

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"unicode/utf8"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/logstore"
	"modelgate/internal/store"
)

// filters parse each filter of a listing. metadata.<key> is handled separately. Names
// are resolved later by [LogHandler.resolve].
var filters = map[string]func(q *logstore.Query, value string) error{
	"from":           func(q *logstore.Query, v string) (err error) { q.From, err = moment(v); return },
	"to":             func(q *logstore.Query, v string) (err error) { q.To, err = moment(v); return },
	"status":         func(q *logstore.Query, v string) error { q.Status = v; return nil },
	"outcome":        func(q *logstore.Query, v string) error { q.Outcome = v; return nil },
	"model":          func(q *logstore.Query, v string) error { q.Model = v; return nil },
	"upstream_model": func(q *logstore.Query, v string) error { q.UpstreamModel = v; return nil },
	"response_model": func(q *logstore.Query, v string) error { q.ResponseModel = v; return nil },
	"target":         func(q *logstore.Query, v string) error { q.Target = v; return nil },
	"provider":       func(q *logstore.Query, v string) error { q.Provider = v; return nil },
	"api_key":        func(q *logstore.Query, v string) (err error) { q.KeyID, err = keyID(v); return },
	"workspace":      func(q *logstore.Query, v string) error { q.Workspace = v; return nil },
	"config":         func(q *logstore.Query, v string) error { q.Configs = []string{v}; return nil },
	"text":           func(q *logstore.Query, v string) error { q.Text = v; return nil },
	"trace_id":       func(q *logstore.Query, v string) error { q.TraceID = v; return nil },
	"operation":      func(q *logstore.Query, v string) (err error) { q.Operation, err = operation(v); return },
	"cursor":         func(q *logstore.Query, v string) error { q.Cursor = v; return nil },
	"limit":          func(q *logstore.Query, v string) (err error) { q.Limit, err = count(v); return },
	"min_latency_ms": func(q *logstore.Query, v string) (err error) { q.MinLatency, err = span(v); return },
	"stream":         func(q *logstore.Query, v string) (err error) { q.Stream, err = flag(v); return },

	"cost_min":              func(q *logstore.Query, v string) (err error) { q.Cost.Min, err = cents(v); return },
	"cost_max":              func(q *logstore.Query, v string) (err error) { q.Cost.Max, err = cents(v); return },
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
	return q, nil
}

// keyID checks the id of a gateway key. Its error never contains the value, which may
// be a key.
func keyID(v string) (string, error) {
	if strings.HasPrefix(v, access.KeyPrefix) {
		return "", errors.New("must be the id of a gateway key, not the key itself; it is api_key.id in log entries")
	}
	return v, nil
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
	names := route.LogNames{DB: l.DB.Queries, Scope: q.Scope, Files: filesOf(who, l.Files)}
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
		if q.Provider, q.Slug, err = names.Provider(ctx, "provider", q.Provider); err != nil {
			return err
		}
	}
	if q.KeyID != "" {
		if err = names.CheckKeys(ctx, "api_key", []string{q.KeyID}); err != nil {
			return err
		}
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
