// Package tuning serves the fine-tuning jobs of clients.
//
// A job is one of a managed provider, with a record that is written before the provider is
// asked: the gateway key is all that a later request needs, and a job that the provider
// accepted without saying so is found by the id of its record. The formats of the
// providers are those of vendortune.
package tuning

import (
	"context"
	"net/http"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/provider"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendortune"
	"modelgate/internal/store"
)

const root = "/fine_tuning/jobs"

// Serve serves a request below /fine_tuning/jobs.
func Serve(q *kept.Request) error {
	return serve(&handler{q: q, ask: func(w http.ResponseWriter, r *http.Request, service string) dataplane.CallResult {
		c := q.From.ClientCall()
		c.Service = service
		q.From.Ask(w, r, c)
		return c.Result
	}})
}

// handler serves one request.
type handler struct {
	q   *kept.Request
	ask asker
}

// asker makes a call to a service of the provider that r names. The call has its own
// record. It returns when the response is complete.
type asker func(w http.ResponseWriter, r *http.Request, service string) dataplane.CallResult

// actions are the requests to one job by method and last part of the path.
var actions = map[string]func(*handler, *store.Object) error{
	"GET ":            (*handler).get,
	"POST cancel":     verb((*vendortune.Vendor).Cancel),
	"POST pause":      verb((*vendortune.Vendor).Pause),
	"POST resume":     verb((*vendortune.Vendor).Resume),
	"GET events":      (*handler).writeEvents,
	"GET checkpoints": (*handler).writeCheckpoints,
}

func serve(h *handler) error {
	rest := strings.TrimPrefix(h.q.From.Path, root)
	id, action, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	switch act := actions[h.q.HTTP.Method+" "+action]; {
	case rest == "" && h.q.HTTP.Method == http.MethodPost:
		return h.create()
	case rest == "" && h.q.HTTP.Method == http.MethodGet:
		return h.list()
	case id != "" && act != nil:
		return h.withJob(id, act)
	}
	return kept.NoRoute(h.q)
}

// withJob calls act with a job of the workspace.
func (h *handler) withJob(id string, act func(*handler, *store.Object) error) error {
	o, err := h.q.Find(store.ObjectTuningJob, id)
	switch {
	case apierr.IsNotFound(err) && h.q.MayPass():
		return h.q.Pass(store.ObjectTuningJob)
	case err != nil:
		return err
	}
	if o.ProviderID == "" {
		if err := h.reconcile(&o); err != nil {
			return err
		}
	}
	return act(h, &o)
}

// account returns the API of a managed provider, and the account there.
func (h *handler) account(name string) (*vendortune.Vendor, vendortune.Account, string, error) {
	target, integration, err := h.q.Target(name)
	if err != nil {
		return nil, vendortune.Account{}, "", err
	}
	v, err := vendorOf(target)
	c := &caller{ask: h.ask, provider: name, trace: h.q.From.TraceID}
	return v, vendortune.Account{Caller: c, Options: optionsOf(target)}, integration, err
}

// vendorOf returns the API of a provider: its own, or that of OpenAI if it has that.
func vendorOf(t *provider.Target) (*vendortune.Vendor, error) {
	if v, ok := vendortune.For(t.ID); ok {
		return v, nil
	}
	if kept.Speaks(t, api.FineTuning) {
		return vendortune.Compatible(t.ID), nil
	}
	return nil, vendortune.Unsupported(t.ID)
}

// optionsOf returns the options of a provider, with their defaults.
func optionsOf(t *provider.Target) map[string]string {
	all := map[string]string{}
	for _, o := range t.Spec.Options {
		if v := t.Option(o.Name); v != "" {
			all[o.Name] = v
		}
	}
	return all
}

// change is a method of a vendor that changes a job.
type change func(*vendortune.Vendor, context.Context, vendortune.Account, string) (*vendortune.Job, error)

// verb returns the request that changes a job.
func verb(call change) func(*handler, *store.Object) error {
	return func(h *handler, o *store.Object) error {
		v, account, _, err := h.account(o.Provider)
		if err != nil {
			return err
		}
		job, err := call(v, h.q.HTTP.Context(), account, o.ProviderID)
		if err != nil {
			return err
		}
		if err := h.keep(o, job); err != nil {
			return err
		}
		return h.show(o)
	}
}

func (h *handler) get(o *store.Object) error {
	if err := h.refresh(o); err != nil {
		return err
	}
	return h.show(o)
}

// show writes a job as its provider described it last.
func (h *handler) show(o *store.Object) error {
	d, err := detailsOf(o)
	if err != nil {
		return err
	}
	return h.q.JSON(http.StatusOK, d.Shown)
}

func (h *handler) writeEvents(o *store.Object) error {
	v, account, p, err := h.page(o)
	if err != nil {
		return err
	}
	l, err := v.Events(h.q.HTTP.Context(), account, o.ProviderID, p)
	if err != nil {
		return err
	}
	return h.q.JSON(http.StatusOK, l)
}

func (h *handler) writeCheckpoints(o *store.Object) error {
	v, account, p, err := h.page(o)
	if err != nil {
		return err
	}
	l, err := v.Checkpoints(h.q.HTTP.Context(), account, o.ProviderID, p)
	if err != nil {
		return err
	}
	for i := range l.Data {
		l.Data[i].FineTuningJobID = o.ShownID()
	}
	return h.q.JSON(http.StatusOK, l)
}

// Sizes of pages.
const (
	maxPage     = 100
	defaultPage = 20
)

// page returns what a request asks for of a list of a job.
func (h *handler) page(o *store.Object) (*vendortune.Vendor, vendortune.Account, vendortune.Page, error) {
	p, err := kept.ParsePage(h.q.HTTP.URL.Query(), maxPage, defaultPage)
	if err != nil {
		return nil, vendortune.Account{}, vendortune.Page{}, err
	}
	v, account, _, err := h.account(o.Provider)
	return v, account, vendortune.Page{After: p.After, Limit: p.Limit}, err
}
