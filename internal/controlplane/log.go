// Package controlplane is the HTTP API of administration.
//
// Each family of routes is declared in a package of its own and listed in routes.go.
// This package itself serves the log (GET /v1/logs, GET /v1/logs/{id} and GET
// /v1/explain/{id}) to keys with the scope for it, within their organisation and
// workspace. It guarantees that no caller sees or changes what belongs to others. It
// does not serve models (see dataplane) or define log entries (see reqlog).
package controlplane

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// LogPath is the path of the log. ExplainPath explains a past request: it returns the
// same entry, with attempts and decisions.
const (
	LogPath     = api.BasePath + "/logs"
	ExplainPath = api.BasePath + "/explain"
)

// LogRoutes returns the routes that a [LogHandler] and a [Tail] serve.
func LogRoutes() []route.Documented {
	const tag = "Logs"
	return []route.Documented{
		{Method: http.MethodGet, Path: LogPath, Tag: tag, Summary: "List log entries, newest first"},
		{Method: http.MethodGet, Path: LogPath + "/{log}", Tag: tag, Summary: "Read a log entry"},
		{Method: http.MethodGet, Path: TailPath, Tag: tag, Summary: "Stream log entries as requests finish"},
		{Method: http.MethodGet, Path: ExplainPath + "/{log}", Tag: tag, Summary: "Explain a past request"},
	}
}

// InLog reports whether path is LogPath or below it.
func InLog(path string) bool {
	rest, ok := strings.CutPrefix(path, LogPath)
	return ok && (rest == "" || rest[0] == '/')
}

// LogHandler serves the log at LogPath and the paths below it.
type LogHandler struct {
	// Authenticate returns the identity of the sender. An error is an *apierr.Error.
	Authenticate func(r *http.Request) (*access.Identity, error)

	Store *logstore.Store
	// Flush returns when everything recorded so far can be read from Store.
	Flush  func(ctx context.Context) error
	DB     *store.DB             // roles of users, and names; service keys that filter by neither are served without it
	Files  func() route.Declared // what the settings file declares; nil is nothing
	Logger *slog.Logger          // logs internal errors
}

// ServeHTTP returns a page of entries, or one entry by its request id.
func (l *LogHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := l.responseBody(r)
	status := http.StatusOK
	if err != nil {
		e := apierr.From(l.DB.ClientError(err))
		status, body = e.Status(), e.Body()
		if e.Kind == apierr.Internal {
			l.Logger.Error("reading the log failed", "err", e.Error())
		}
		if e.Kind == apierr.MethodNotAllowed {
			w.Header().Set("Allow", http.MethodGet)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
}

func (l *LogHandler) responseBody(r *http.Request) ([]byte, error) {
	id, err := l.Authenticate(r)
	if err != nil {
		return nil, err
	}
	if r.Method != http.MethodGet {
		return nil, apierr.New(apierr.MethodNotAllowed, "use GET to read the log, or POST %s to add entries", LogPath)
	}
	if past, ok := strings.CutPrefix(r.URL.Path, ExplainPath+"/"); ok {
		return l.one(r, id, past)
	}
	if rest := strings.TrimPrefix(r.URL.Path, LogPath); rest != "" && rest != "/" {
		return l.one(r, id, rest[1:])
	}
	return l.list(r, id)
}

func (l *LogHandler) one(r *http.Request, who *access.Identity, text string) ([]byte, error) {
	ctx := r.Context()
	if err := allow(who, access.ScopeLogsView); err != nil {
		return nil, err
	}
	id, err := reqlog.ParseID(text)
	if err != nil {
		return nil, apierr.New(apierr.Invalid, "%v", err).WithParam("id")
	}
	if err := l.Flush(ctx); err != nil {
		return nil, err
	}
	scope := visibleScope(who)
	if readsAcross(who) {
		scope = everything
	}
	e, err := l.Store.Get(ctx, scope, id)
	if err == nil && readsAcross(who) {
		ofOther(who, e)
		err = l.auditAcross(ctx, who, r, e.Organisation)
	}
	if err == nil && who.IsPerson() {
		if scope, err = l.visible(ctx, who, e.Workspace, access.ScopeLogsView.Permission()); err == nil {
			e, err = l.Store.Get(ctx, scope, id)
		}
	}
	if err != nil {
		return nil, err
	}
	return e.AppendJSONWithBodies(nil), nil
}

func (l *LogHandler) list(r *http.Request, who *access.Identity) ([]byte, error) {
	q := r.URL.Query()
	if err := allow(who, access.ScopeLogsList); err != nil {
		return nil, err
	}
	sent, err := route.RenameParams(q, isFilter)
	if err != nil {
		return nil, err
	}
	page, next, err := l.page(r, who, q)
	if err != nil {
		return nil, route.RestoreNames(err, sent)
	}
	out := []byte(`{"object":"list","data":[`)
	for i, e := range page.Entries {
		if i > 0 {
			out = append(out, ',')
		}
		out = e.AppendJSON(out)
	}
	out = append(out, `],"has_more":`...)
	out = strconv.AppendBool(out, next != "")
	out = append(out, `,"next_cursor":`...)
	if next == "" {
		return append(out, "null}"...), nil
	}
	return append(strconv.AppendQuote(out, next), '}'), nil
}

// page returns the page of entries that a query selects, and the cursor of the next.
func (l *LogHandler) page(r *http.Request, who *access.Identity, q url.Values) (page logstore.Page, next string, err error) {
	ctx := r.Context()
	query, err := parseQuery(q)
	if err != nil {
		return page, "", err
	}
	from, to := query.From, query.To
	if query.Text != "" {
		if err := l.checkSearch(ctx, who, query); err != nil {
			return page, "", err
		}
	}
	if err := l.limit(ctx, who, &query, access.ScopeLogsList.Permission()); err != nil {
		return page, "", err
	}
	if readsAcross(who) && query.Text == "" { // text matches bodies, which are not visible across organisations
		query.Scope = everything
		if err := l.auditAcross(ctx, who, r, ""); err != nil {
			return page, "", err
		}
	}
	if err := l.Flush(ctx); err != nil {
		return page, "", err
	}
	page, err = l.Store.List(ctx, query)
	return page, pinned(q, from, to, page.Next), err
}

// checkSearch returns an error if a caller who may not read single entries searches for
// text: the result would reveal parts of bodies, which lists do not show.
func (l *LogHandler) checkSearch(ctx context.Context, who *access.Identity, q logstore.Query) error {
	if err := allow(who, access.ScopeLogsView); err != nil {
		return err
	}
	return l.limit(ctx, who, &q, access.ScopeLogsView.Permission())
}

func allow(id *access.Identity, scope access.Scope) error {
	if id.Type == access.PendingSession {
		return route.PendingError(id)
	}
	if id.Allows(scope) {
		return nil
	}
	return apierr.New(apierr.Forbidden, "this gateway key lacks the scope %q", scope)
}

func bad(name, format string, args ...any) error {
	return apierr.New(apierr.Invalid, "%.40q "+format, append([]any{name}, args...)...).WithParam(name)
}
