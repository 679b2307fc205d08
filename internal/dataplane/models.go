package dataplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

const (
	// modelsAge is how long a provider's list of models is cached.
	modelsAge = time.Minute
	// failedModelsAge is how long a failure of a provider to list its models is
	// cached.
	failedModelsAge = 10 * time.Second
	// modelsInParallel is the number of providers that one request asks at a
	// time.
	modelsInParallel = 8
)

// maxModels is the limit of a provider's response in bytes.
const maxModels = 4 << 20

// model is one entry of GET /v1/models. The id is valid as the model of a
// request; Slug names the managed provider, and is empty for a name that a config routes,
// whose owner is the slug of the config.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	Slug    string `json:"slug,omitempty"`
}

// modelList is the response of GET /v1/models. Failed lists the providers whose
// models are missing, so that clients know that the list is incomplete: they
// did not respond in time, or the request had no attempt left for them.
type modelList struct {
	Object string   `json:"object"`
	Total  int      `json:"total"`
	Data   []model  `json:"data"`
	Failed []string `json:"failed_providers,omitempty"`

	noList bool // a provider in Failed has no list of models
}

// modelLists caches the responses of providers by target. Targets belong to one
// snapshot: the next one asks again.
type modelLists struct {
	mu    sync.Mutex
	lists map[*provider.Target]*modelFetch // guarded by mu
}

// modelFetch is the request for the models of one provider. Requests that need it while the
// provider is being asked wait for the same response.
type modelFetch struct {
	done    chan struct{} // closed when the fields below are set
	list    []providerModel
	err     error
	expires time.Time
}

// providerModel is a model as listed by its provider. Created is zero if the
// provider does not report it.
type providerModel struct {
	id      string
	created int64
}

// listModels responds with the names of models that the config of the request routes, and the
// models of every managed provider that the key may use, in the format of the client's protocol: clients of the messages
// dialect name its version in a header.
func listModels(p *Plane, w http.ResponseWriter, r *http.Request, x *roundTrip) error {
	list := gatherModels(p, r, &x.targets, x.targets.allowedSlugs())
	list.Data = slices.Insert(list.Data, 0, x.targets.routedModels()...) // never nil
	list.Total = len(list.Data)
	var page any = list
	var err error
	switch {
	case x.admission.request.Dialect == api.DialectGemini:
		page, err = list.geminiPage(x.admission.request.Received.Query)
	case x.admission.isMessagesClient():
		page, err = list.page(x.admission.request.Received.Query)
	}
	if err != nil {
		return err
	}
	return writeJSON(p, w, r, x, page)
}

// showModel responds with one model of a managed provider, named as
// @slug/model, or of the config of the request, in the format of the client's protocol.
func showModel(p *Plane, w http.ResponseWriter, r *http.Request, x *roundTrip) error {
	id := x.admission.route.model
	slug, name, named := strings.Cut(strings.TrimPrefix(id, "@"), "/")
	if !strings.HasPrefix(id, "@") || !named || name == "" {
		m, err := x.targets.showRoutedModel(id)
		if err != nil {
			return err
		}
		return writeModel(p, w, r, x, m)
	}
	if _, err := x.targets.target(providerChoice{provider: "@" + slug, model: name}); err != nil {
		return err
	}
	list := gatherModels(p, r, &x.targets, []string{slug})
	i := list.index(id)
	switch {
	case i < 0 && list.noList:
		return apierr.New(apierr.Unsupported, "the provider @%s has no list of models, so the gateway cannot tell whether it has %.100q; set its models in the settings of the provider", slug, name).
			WithParam("model").WithCode("unsupported_operation")
	case i < 0 && len(list.Failed) > 0:
		return apierr.New(apierr.UpstreamFailed, "the provider @%s did not list its models, so the gateway cannot tell whether it has %.100q; try again later", slug, name).WithParam("model")
	case i < 0:
		return modelNotFound(id, "the provider @"+slug+" does not list it")
	}
	return writeModel(p, w, r, x, list.Data[i])
}

// writeModel writes a model in the format of the client's protocol.
func writeModel(p *Plane, w http.ResponseWriter, r *http.Request, x *roundTrip, m model) error {
	var shown any = m
	switch {
	case x.admission.request.Dialect == api.DialectGemini:
		shown = m.geminiEntry()
	case x.admission.isMessagesClient():
		shown = m.entry()
	}
	return writeJSON(p, w, r, x, shown)
}

func modelNotFound(id, why string) error {
	return apierr.New(apierr.NotFound, "model %.100q not found: %s; GET /v1/models lists the models of this key", id, why).
		WithParam("model").WithCode("model_not_found")
}

// gatherModels returns the models of managed providers. It asks at most as
// many providers as one request may make attempts, a few at a time and within
// one deadline. Failures are cached as well, so that requests cannot be used to
// flood a broken provider.
func gatherModels(p *Plane, r *http.Request, rs *resolver, slugs []string) modelList {
	// A client that disconnects does not cancel the requests: their responses
	// are cached, so that the next client does not cause them again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), p.ModelsTimeout)
	defer cancel()
	fetches := make([]*modelFetch, len(slugs))
	left := p.Engine.Bounds.AttemptLimit()
	slots := make(chan struct{}, modelsInParallel)
	var wg sync.WaitGroup
	for i, slug := range slugs {
		entry, _ := rs.admission.snap.Managed(rs.admission.request.Identity.Workspace, slug)
		if entry.Models != nil {
			fetches[i] = knownModels(entry.Models)
			continue
		}
		a, claimed := p.models.find(entry.Target, left > 0)
		fetches[i] = a
		if claimed {
			left--
			wg.Go(func() { fetchModels(p, ctx, entry.Target, a, slots) })
		}
	}
	wg.Wait()

	list := modelList{Object: "list", Data: []model{}}
	for i, slug := range slugs {
		models, err := fetches[i].wait(ctx)
		if err != nil {
			list.Failed = append(list.Failed, "@"+slug)
			list.noList = list.noList || errors.Is(err, errNoModelList)
			continue
		}
		entry, _ := rs.admission.snap.Managed(rs.admission.request.Identity.Workspace, slug)
		for _, m := range models {
			if !entry.Target.Models.Allows(m.id) {
				continue
			}
			list.Data = append(list.Data, model{ID: "@" + slug + "/" + m.id, Object: "model", Created: m.created,
				OwnedBy: entry.Provider, Slug: slug})
		}
	}
	list.Total = len(list.Data)
	return list
}

func (rs *resolver) allowedSlugs() []string {
	workspace := rs.admission.request.Identity.Workspace
	return slices.DeleteFunc(slices.Clone(rs.admission.snap.Slugs(workspace)), func(slug string) bool {
		entry, _ := rs.admission.snap.Managed(workspace, slug)
		allowed := rs.admission.request.Identity.AllowsProvider(slug) || rs.admission.request.Identity.AllowsProvider(entry.Provider)
		return !allowed || entry.CheckUsable(rs.admission.entry.Time) != nil || rs.checkEgress(entry.Target) != nil
	})
}

// knownModels returns the list of a provider whose settings list its models.
func knownModels(ids []string) *modelFetch {
	a := &modelFetch{done: make(chan struct{})}
	list := make([]providerModel, len(ids))
	for i, id := range ids {
		list[i].id = id
	}
	a.finish(list, nil, 0)
	return a
}

// fetchModels asks a provider when a slot is free and stores its response.
func fetchModels(p *Plane, ctx context.Context, t *provider.Target, a *modelFetch, slots chan struct{}) {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		a.finish(nil, err, 0) // the provider was not asked: nothing to cache
		return
	}
	list, err := askModels(p, ctx, t)
	if err != nil {
		a.finish(nil, err, failedModelsAge)
		return
	}
	a.finish(list, nil, modelsAge)
}

// errNoModelList is the result for a provider that does not offer a list, as
// the table or the provider itself says.
var errNoModelList = errors.New("the provider has no list of models")

func askModels(p *Plane, ctx context.Context, t *provider.Target) ([]providerModel, error) {
	res, err := sendModels(p, ctx, t)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
		return readModels(io.LimitReader(res.Body, maxModels))
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return nil, errNoModelList
	}
	return nil, apierr.New(apierr.UpstreamFailed, "%s returned status %d", t.Label(), res.StatusCode)
}

// sendModels sends the request for a provider's list of models. The caller closes the body.
func sendModels(p *Plane, ctx context.Context, t *provider.Target) (*http.Response, error) {
	if _, ok := t.Paths[api.Models]; !ok {
		return nil, errNoModelList
	}
	req, err := provider.NewRequest(ctx, t, &provider.Call{Operation: api.Models, Method: http.MethodGet})
	if err != nil {
		return nil, err
	}
	if t.Auth.Method != "" && p.Engine.Signer != nil {
		if err := p.Engine.Signer.Sign(ctx, t, req, nil); err != nil {
			return nil, err
		}
	}
	return p.Engine.Client.Do(req, t.Guarded)
}

// readModels reads a provider's list: in the format of the chat dialect, or
// Google's, whose names are paths.
// https://ai.google.dev/api/models#method:-models.list
func readModels(r io.Reader) ([]providerModel, error) {
	var body struct {
		Data []struct {
			ID      string          `json:"id"`
			Created json.RawMessage `json:"created"` // not a number everywhere
		} `json:"data"`
		Models []struct {
			Name string `json:"name"`
		} `json:"models"`
	}
	if err := json.NewDecoder(r).Decode(&body); err != nil {
		return nil, err
	}
	list := make([]providerModel, 0, len(body.Data)+len(body.Models))
	for _, m := range body.Data {
		created, _ := strconv.ParseInt(string(m.Created), 10, 64)
		list = append(list, providerModel{id: m.ID, created: created})
	}
	for _, m := range body.Models {
		list = append(list, providerModel{id: strings.TrimPrefix(m.Name, "models/")})
	}
	return list, nil
}

// errNotAsked is the result for a provider that the request may not ask.
var errNotAsked = errors.New("the request has asked as many providers as it may make attempts")

// find returns the cached or pending response of t. If there is none and mayAsk
// is true, it returns a new one and true: the caller must ask the provider and
// finish it.
func (m *modelLists) find(t *provider.Target, mayAsk bool) (a *modelFetch, claimed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a, ok := m.lists[t]; ok && !a.expired() {
		return a, false
	}
	a = &modelFetch{done: make(chan struct{})}
	if !mayAsk {
		a.finish(nil, errNotAsked, 0)
		return a, false
	}
	if m.lists == nil {
		m.lists = make(map[*provider.Target]*modelFetch)
	}
	// Targets of earlier snapshots are removed when their responses expire.
	maps.DeleteFunc(m.lists, func(_ *provider.Target, old *modelFetch) bool { return old.expired() })
	m.lists[t] = a
	return a, true
}

// finish stores the response, which is cached for age.
func (a *modelFetch) finish(list []providerModel, err error, age time.Duration) {
	a.list, a.err, a.expires = list, err, time.Now().Add(age)
	close(a.done)
}

// expired reports whether the response may no longer be used. A pending
// response has not expired.
func (a *modelFetch) expired() bool {
	select {
	case <-a.done:
		return !time.Now().Before(a.expires)
	default:
		return false
	}
}

// wait returns the models, or the error.
func (a *modelFetch) wait(ctx context.Context) ([]providerModel, error) {
	select {
	case <-a.done:
		return a.list, a.err
	default:
	}
	select {
	case <-a.done:
		return a.list, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// writeJSON writes a response made by the gateway.
func writeJSON(p *Plane, w http.ResponseWriter, r *http.Request, x *roundTrip, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // URLs and messages stay readable
	if err := enc.Encode(v); err != nil {
		return err
	}
	body := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	w.Header()["Content-Type"] = jsonType
	x.setGatewayHeaders(w.Header())
	x.entry.Status = http.StatusOK
	x.writeBytes(w, r, &exchange.Response{Status: http.StatusOK, Bytes: body})
	return nil
}
