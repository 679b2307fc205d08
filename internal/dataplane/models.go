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
	"modelgate/internal/apierr"
	"modelgate/internal/pipeline"
	"modelgate/internal/provider"
)

const (
	// modelsAge is how long a provider's list of models is served from memory.
	modelsAge = time.Minute
	// failedModelsAge is how long a provider that did not list its models is left
	// alone.
	failedModelsAge = 10 * time.Second
	// modelsInParallel is how many providers one request asks at a time.
	modelsInParallel = 8
)

// maxModels bounds a provider's answer, in bytes.
const maxModels = 4 << 20

// model is one entry of GET /v1/models. The id is what a request's model field
// takes; Slug names the managed provider behind it.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	Slug    string `json:"slug"`
}

// modelList is the answer of GET /v1/models. Failed lists the providers whose
// models are missing, so that clients see that the list is incomplete: they did
// not answer in time, or the request had no attempt left to ask them.
type modelList struct {
	Object string   `json:"object"`
	Total  int      `json:"total"`
	Data   []model  `json:"data"`
	Failed []string `json:"failed_providers,omitempty"`
}

// modelLists caches the answers of providers. It belongs to one snapshot's
// targets: another target is asked again.
type modelLists struct {
	mu    sync.Mutex
	lists map[*provider.Target]*modelAnswer // guarded by mu
}

// modelAnswer is what a provider answers. Requests that need it while the
// provider is asked wait for the one answer.
type modelAnswer struct {
	done    chan struct{} // closed when the fields below are set
	list    []providerModel
	err     error
	expires time.Time
}

// providerModel is a model as its provider lists it. Created is zero where the
// provider does not say.
type providerModel struct {
	id      string
	created int64
}

// listModels answers with the models of every managed provider that the key
// may use, in the shape of the client's protocol: clients of the messages
// dialect name its version in a header.
func (p *Plane) listModels(w http.ResponseWriter, r *http.Request, x *exchange) error {
	if len(r.Header["Anthropic-Version"]) == 0 {
		return p.writeJSON(w, x, p.gatherModels(r, x))
	}
	page, err := p.gatherModels(r, x).page(x.Query)
	if err != nil {
		return err
	}
	return p.writeJSON(w, x, page)
}

// gatherModels returns the models of every allowed provider. It asks at most as
// many providers as one request may make attempts, a few at a time and within one
// deadline. Failed answers are cached as well: requests can't be used to flood a
// provider that is broken.
func (p *Plane) gatherModels(r *http.Request, x *exchange) modelList {
	// A client that leaves does not end the requests: their answers are cached, so
	// that the next client does not cause them again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), p.ModelsTimeout)
	defer cancel()
	slugs := x.allowedSlugs()
	answers := make([]*modelAnswer, len(slugs))
	left := p.Engine.AttemptLimit()
	slots := make(chan struct{}, modelsInParallel)
	var wg sync.WaitGroup
	for i, slug := range slugs {
		entry, _ := x.snap.Managed(x.Identity.Workspace, slug)
		if ids, ok := entry.Models(); ok {
			answers[i] = knownModels(ids)
			continue
		}
		a, claimed := p.models.find(entry.Target, left > 0)
		answers[i] = a
		if claimed {
			left--
			wg.Go(func() { p.fetchModels(ctx, entry.Target, a, slots) })
		}
	}
	wg.Wait()

	list := modelList{Object: "list", Data: []model{}}
	for i, slug := range slugs {
		models, err := answers[i].wait(ctx)
		if err != nil {
			list.Failed = append(list.Failed, "@"+slug)
			continue
		}
		entry, _ := x.snap.Managed(x.Identity.Workspace, slug)
		for _, m := range models {
			if !entry.Target.Models.Allows(m.id) {
				continue
			}
			list.Data = append(list.Data, model{ID: "@" + slug + "/" + m.id, Object: "model", Created: m.created, OwnedBy: entry.Provider, Slug: slug})
		}
	}
	list.Total = len(list.Data)
	return list
}

func (x *exchange) allowedSlugs() []string {
	workspace := x.Identity.Workspace
	return slices.DeleteFunc(slices.Clone(x.snap.Slugs(workspace)), func(slug string) bool {
		entry, _ := x.snap.Managed(workspace, slug)
		allowed := x.Identity.AllowsProvider(slug) || x.Identity.AllowsProvider(entry.Provider)
		return !allowed || entry.CheckUsable(x.entry.Time) != nil || x.checkEgress(entry.Target) != nil
	})
}

// knownModels returns the answer for a provider whose entry lists its models.
func knownModels(ids []string) *modelAnswer {
	a := &modelAnswer{done: make(chan struct{})}
	list := make([]providerModel, len(ids))
	for i, id := range ids {
		list[i].id = id
	}
	a.finish(list, nil, 0)
	return a
}

// fetchModels asks a provider when a slot is free and sets its answer.
func (p *Plane) fetchModels(ctx context.Context, t *provider.Target, a *modelAnswer, slots chan struct{}) {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		a.finish(nil, err, 0) // the provider was not asked: nothing to cache
		return
	}
	list, err := p.askModels(ctx, t)
	if err != nil {
		a.finish(nil, err, failedModelsAge)
		return
	}
	a.finish(list, nil, modelsAge)
}

func (p *Plane) askModels(ctx context.Context, t *provider.Target) ([]providerModel, error) {
	req, err := provider.NewRequest(ctx, t, &provider.Call{Operation: api.Models, Method: http.MethodGet})
	if err != nil {
		return nil, err
	}
	if t.Auth.Method != "" && p.Engine.Signer != nil {
		if err := p.Engine.Signer.Sign(ctx, t, req, nil); err != nil {
			return nil, err
		}
	}
	res, err := p.Engine.Client.Do(req, t.Guarded)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, apierr.New(apierr.UpstreamFailed, "%s answered %d", t.ID, res.StatusCode)
	}
	return readModels(io.LimitReader(res.Body, maxModels))
}

// readModels reads a provider's list: that of the chat dialect, or Google's,
// whose names are paths.
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

// errNotAsked is the answer of a provider that the request may not ask.
var errNotAsked = errors.New("the request has asked as many providers as it may make attempts")

// find returns the answer of t that is cached or on its way. Without one, and if
// mayAsk is true, it returns a new answer and true: the caller asks and finishes it.
func (m *modelLists) find(t *provider.Target, mayAsk bool) (a *modelAnswer, claimed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a, ok := m.lists[t]; ok && !a.expired() {
		return a, false
	}
	a = &modelAnswer{done: make(chan struct{})}
	if !mayAsk {
		a.finish(nil, errNotAsked, 0)
		return a, false
	}
	if m.lists == nil {
		m.lists = make(map[*provider.Target]*modelAnswer)
	}
	// Targets of earlier snapshots are removed when their answers expire.
	maps.DeleteFunc(m.lists, func(_ *provider.Target, old *modelAnswer) bool { return old.expired() })
	m.lists[t] = a
	return a, true
}

// finish sets the answer, which is cached for age.
func (a *modelAnswer) finish(list []providerModel, err error, age time.Duration) {
	a.list, a.err, a.expires = list, err, time.Now().Add(age)
	close(a.done)
}

// expired reports whether the answer may no longer be served. An answer on its
// way has not expired.
func (a *modelAnswer) expired() bool {
	select {
	case <-a.done:
		return !time.Now().Before(a.expires)
	default:
		return false
	}
}

// wait returns the models, or why there are none.
func (a *modelAnswer) wait(ctx context.Context) ([]providerModel, error) {
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

// writeJSON sends an answer that the gateway made itself.
func (p *Plane) writeJSON(w http.ResponseWriter, x *exchange, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // addresses and messages read as they are
	if err := enc.Encode(v); err != nil {
		return err
	}
	body := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	w.Header()["Content-Type"] = jsonType
	x.setGatewayHeaders(w.Header())
	x.entry.Status = http.StatusOK
	x.writeBytes(w, &pipeline.Response{Status: http.StatusOK, Bytes: body})
	return nil
}
