package route

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"modelgate/api"
)

// OpenAPI returns the OpenAPI document as JSON.
func (a *API) OpenAPI() ([]byte, error) { return json.Marshal(a.described().huma.OpenAPI()) }

// Add adds a route that f serves. In is a struct that huma decodes requests into:
// fields with path, query or header tags, and a Body. Out is the response body; the
// status is always 200. An error of f is an *apierr.Error, or becomes an internal
// error.
func Add[In, Out any](a *API, r Route, f func(ctx context.Context, c *Caller, in *In) (*Out, error)) {
	type response struct{ Body *Out }
	if r.Method == http.MethodPut {
		r.keptByNull = keptByNull(reflect.TypeFor[In]())
	}
	r.params, r.filters = paramsOf(reflect.TypeFor[In]()), filtersOf(reflect.TypeFor[In]())
	r.budgets = budgetFormOf(reflect.TypeFor[In]())
	if r.Form {
		r.fields = bodyFields(reflect.TypeFor[In]())
	}
	r.paged = isPaged(reflect.TypeFor[In]())
	a.listed = append(a.listed, &r)
	for i, p := range r.Paths() {
		op := r.operation(p)
		if i > 0 {
			op.OperationID, op.Hidden = "", true
		}
		pattern := op.Method + " " + op.Path
		a.routes[pattern] = &r
		a.etags[op.Path] = a.etags[op.Path] || r.Versioned && r.Method == http.MethodPut
		a.mux.HandleFunc(pattern, a.handle)
		if rest, ok := strings.CutPrefix(p, api.BasePath); ok {
			a.firsts[first(rest)] = true
		}
		a.pending = append(a.pending, func() {
			huma.Register(a.huma, op, func(ctx context.Context, in *In) (*response, error) {
				c := callerOf(ctx)
				out, err := f(ctx, c, in)
				if err != nil {
					return nil, a.failure(RestoreNames(err, c.sent))
				}
				if list, ok := any(out).(interface{ SetPage(number, size int) }); ok && r.paged {
					list.SetPage(pageOf(reflect.ValueOf(in).Elem()))
				}
				return &response{out}, nil
			})
		})
	}
}

func (r *Route) operation(p string) huma.Operation {
	op := huma.Operation{
		OperationID: r.Name, Method: r.Method, Path: p, Summary: r.Summary, Tags: []string{r.Tag},
		DefaultStatus: http.StatusOK, MaxBodyBytes: r.maxBody(), RejectUnknownQueryParameters: true, SkipValidateBody: r.UncheckedBody,
	}
	if !r.Open {
		op.Security = []map[string][]string{{"key": {}}, {"token": {}}}
	}
	if r.Versioned {
		op.Parameters = append(op.Parameters, stateParam())
	}
	if r.acceptsIdempotencyKey() {
		op.Parameters = append(op.Parameters, idempotencyParam())
	}
	if r.paged {
		op.Parameters = append(op.Parameters, pagedParams()...)
	}
	if r.Resource != "" && !r.Data {
		headers := map[string]*huma.Param{strings.ToLower(api.HeaderAppliedWithin): appliedWithin}
		op.Responses = map[string]*huma.Response{"200": {Headers: headers}}
	}
	if len(r.Scopes) > 0 {
		words := make([]string, len(r.Scopes))
		for i, s := range r.Scopes {
			words[i] = "`" + string(s) + "`"
		}
		op.Description = "Requires " + strings.Join(words, " or ") + "."
	}
	return op
}

// appliedWithin is the entry of [api.HeaderAppliedWithin] in the OpenAPI document.
var appliedWithin = &huma.Param{
	Description: "Milliseconds within which other nodes apply the change, usually much sooner; only if the database is PostgreSQL",
	Schema:      &huma.Schema{Type: huma.TypeInteger},
}

// handlers are the handlers that huma makes, by pattern. It implements humago.Mux for
// requests whose pattern is known.
type handlers map[string]http.HandlerFunc

// HandleFunc implements humago.Mux.
func (h handlers) HandleFunc(pattern string, f func(http.ResponseWriter, *http.Request)) {
	h[pattern] = f
}

// ServeHTTP implements humago.Mux.
func (h handlers) ServeHTTP(w http.ResponseWriter, r *http.Request) { h[r.Pattern](w, r) }

// handle serves a request whose pattern the mux has found.
func (a *API) handle(w http.ResponseWriter, r *http.Request) {
	a.described().handlers.ServeHTTP(w, r)
}

// described returns a once its routes are described to huma. The first call does that:
// their schemas take 5 MB and 40 ms, which a node without control-plane requests does
// without.
func (a *API) described() *API {
	a.describe.Do(func() {
		for _, f := range a.pending {
			f()
		}
		a.describeUpdates()
		a.pending = nil
	})
	return a
}
