package dataplane

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
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
	"modelgate/internal/snapshot"
)

// freshModels is how long a provider's list of models is served from memory.
const freshModels = time.Minute

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

// modelList is the answer of GET /v1/models. Failed lists the providers that
// did not answer in time, so that a short list is not taken for a whole one.
type modelList struct {
	Object string   `json:"object"`
	Total  int      `json:"total"`
	Data   []model  `json:"data"`
	Failed []string `json:"failed_providers,omitempty"`
}

// modelLists remembers what providers answered. It belongs to one snapshot's
// targets: another target is asked anew.
type modelLists struct {
	mu    sync.Mutex
	lists map[*provider.Target]keptModels // guarded by mu
}

type keptModels struct {
	list []listed
	at   time.Time
}

// listed is a model as its provider lists it. Created is zero where the
// provider does not say.
type listed struct {
	id      string
	created int64
}

// listModels answers with the models of every managed provider that the key
// may use, in the shape of the client's protocol: clients of the messages
// dialect name its version in a header. Providers are asked together and within
// one deadline.
func (p *Plane) listModels(w http.ResponseWriter, r *http.Request, x *exchange) error {
	if len(r.Header["Anthropic-Version"]) == 0 {
		return p.answerJSON(w, x, p.gatherModels(r, x))
	}
	page, err := p.gatherModels(r, x).page(x.Query)
	if err != nil {
		return err
	}
	return p.answerJSON(w, x, page)
}

// gatherModels asks the providers.
func (p *Plane) gatherModels(r *http.Request, x *exchange) modelList {
	ctx, cancel := context.WithTimeout(r.Context(), p.ModelsTimeout)
	defer cancel()
	slugs := x.allowedSlugs()
	lists := make([][]listed, len(slugs))
	errs := make([]error, len(slugs))
	var wg sync.WaitGroup
	for i, slug := range slugs {
		entry, _ := x.snap.Managed(x.Identity.Workspace, slug)
		wg.Go(func() { lists[i], errs[i] = p.modelsOf(ctx, entry) })
	}
	wg.Wait()

	list := modelList{Object: "list", Data: []model{}}
	for i, slug := range slugs {
		if errs[i] != nil {
			list.Failed = append(list.Failed, "@"+slug)
			continue
		}
		entry, _ := x.snap.Managed(x.Identity.Workspace, slug)
		for _, m := range lists[i] {
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
		return !allowed || entry.Usable(x.entry.Time) != nil || x.checkEgress(entry.Target) != nil
	})
}

// modelsOf returns a managed provider's models: those its entry lists, else
// what the provider itself answers.
func (p *Plane) modelsOf(ctx context.Context, entry *snapshot.Entry) ([]listed, error) {
	if ids, ok := entry.Models(); ok {
		list := make([]listed, len(ids))
		for i, id := range ids {
			list[i].id = id
		}
		return list, nil
	}
	t := entry.Target
	if list, ok := p.models.fresh(t); ok {
		return list, nil
	}
	list, err := p.askModels(ctx, t)
	if err == nil {
		p.models.keep(t, list)
	}
	return list, err
}

func (p *Plane) askModels(ctx context.Context, t *provider.Target) ([]listed, error) {
	req, err := provider.NewRequest(ctx, t, &provider.Call{Operation: api.Models, Method: http.MethodGet})
	if err != nil {
		return nil, err
	}
	if t.Auth.By != "" && p.Engine.Signer != nil {
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
func readModels(r io.Reader) ([]listed, error) {
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
	list := make([]listed, 0, len(body.Data)+len(body.Models))
	for _, m := range body.Data {
		created, _ := strconv.ParseInt(string(m.Created), 10, 64)
		list = append(list, listed{id: m.ID, created: created})
	}
	for _, m := range body.Models {
		list = append(list, listed{id: strings.TrimPrefix(m.Name, "models/")})
	}
	return list, nil
}

func (m *modelLists) fresh(t *provider.Target) ([]listed, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.lists[t]
	return k.list, ok && time.Since(k.at) < freshModels
}

func (m *modelLists) keep(t *provider.Target, list []listed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lists == nil {
		m.lists = make(map[*provider.Target]keptModels)
	}
	for old, k := range m.lists { // targets of earlier snapshots go with their age
		if time.Since(k.at) >= freshModels {
			delete(m.lists, old)
		}
	}
	m.lists[t] = keptModels{list, time.Now()}
}

// answerJSON sends an answer that the gateway made itself.
func (p *Plane) answerJSON(w http.ResponseWriter, x *exchange, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // addresses and messages read as they are
	if err := enc.Encode(v); err != nil {
		return err
	}
	body := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	w.Header()["Content-Type"] = jsonType
	x.sign(w.Header())
	x.entry.Status = http.StatusOK
	x.writeBytes(w, &pipeline.Response{Status: http.StatusOK, Bytes: body})
	return nil
}
