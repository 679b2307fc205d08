package tuning

import (
	"context"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendorcall"
	"modelgate/internal/stateplane/vendortune"
	"modelgate/internal/store"
)

// jobPrefix is the beginning of the ids of jobs.
const jobPrefix = "gw_ftjob_"

// purpose is that of files with examples.
const purpose = "fine-tune"

// create creates a job at a managed provider: the one that the headers name, the model, as
// @slug/model, or the one that has the training file.
func (h *handler) create() error {
	if h.q.From.Config != "" { // which may name a provider with credentials of the client
		return h.q.Pass(store.ObjectTuningJob)
	}
	body, err := h.q.Body()
	if err != nil {
		return err
	}
	in, err := vendortune.Parse(body)
	if err != nil {
		return err
	}
	stored, err := in.Stored()
	if err != nil {
		return err
	}
	name, err := h.resolve(in)
	if err != nil {
		return err
	}
	if name == "" {
		if h.q.MayPass() {
			return h.q.PassBody(store.ObjectTuningJob, body)
		}
		return apierr.New(apierr.Invalid,
			"a fine-tuning job is run by a provider: name it in x-gateway-provider or in the model, as @slug/model").
			WithParam("x-gateway-provider").WithCode("missing_required_parameter")
	}
	return h.createAt(name, in, details{Body: stored, TraceID: h.q.From.TraceID})
}

// resolve returns the name of the provider of a job, empty if none is named, and replaces
// the model and the files in the body by what the provider calls them.
func (h *handler) resolve(in *vendortune.Input) (string, error) {
	name := h.q.From.Provider
	if slug, model, ok := strings.Cut(in.Model, "/"); ok && strings.HasPrefix(slug, "@") {
		if name != "" && name != slug {
			return "", apierr.New(apierr.Invalid, "the model names the provider %.60s, and the request %.60s: name one of them", slug, name).
				WithParam("model")
		}
		name, in.Model = slug, model
	}
	for _, f := range []struct {
		param string
		id    *string
	}{{"training_file", &in.TrainingFile}, {"validation_file", &in.ValidationFile}} {
		if *f.id == "" {
			continue
		}
		at, id, err := h.resolveFile(f.param, *f.id, name)
		if err != nil {
			return "", err
		}
		if name != "" && at != "" && at != name {
			return "", apierr.New(apierr.Invalid,
				"%s is at the provider %.60s, and the job at %.60s: upload the file to the provider of the job", f.param, at, name).
				WithParam(f.param).WithCode("file_of_another_provider")
		}
		if at != "" {
			name = at
		}
		*f.id = id
	}
	return name, nil
}

// resolveFile returns the provider that has a file of the workspace, and its id there. A
// file of the gateway is copied to the provider of the job, if that is named. The provider
// of a file without a record is empty: such ids pass if the setting allows it.
func (h *handler) resolveFile(param, id, name string) (at, there string, err error) {
	o, err := h.q.Find(store.ObjectFile, id)
	switch {
	case apierr.IsNotFound(err) && h.q.Deps.Limits.Unrecorded:
		return "", id, nil
	case apierr.IsNotFound(err):
		return "", "", kept.NotFound(store.ObjectFile, param)
	case err != nil:
		return "", "", err
	case o.Label != "" && o.Label != purpose:
		return "", "", apierr.New(apierr.Invalid, "%s has the purpose %.40s: upload it with the purpose %s", param, o.Label, purpose).
			WithParam(param)
	case o.ProviderID == "" && name != "":
		there, err := h.copyThere(param, &o, name)
		return name, there, err
	case o.ProviderID == "":
		return "", "", apierr.New(apierr.Invalid,
			"%s is a file of the gateway: name the provider of the job in x-gateway-provider or in the model, as @slug/model", param).
			WithParam(param).WithCode("file_of_another_provider")
	}
	return o.Provider, o.ProviderID, nil
}

// createAt creates a job at a provider. Its record is written first.
func (h *handler) createAt(name string, in *vendortune.Input, d details) error {
	v, account, integration, err := h.account(name)
	if err != nil {
		return err
	}
	if err := v.CheckInput(in); err != nil {
		return err
	}
	o := h.q.NewObject(store.ObjectTuningJob, jobPrefix)
	o.Provider, o.Integration, o.State, o.Label, in.OwnID = name, integration, kept.StateCreating, in.Model, o.ID
	if err := d.keep(&o); err != nil {
		return err
	}
	ctx := context.WithoutCancel(h.q.HTTP.Context())
	err = h.q.Change(func(tx *store.Tx) error {
		if err := tx.AddObject(ctx, o); err != nil {
			return err
		}
		return tx.AddJob(ctx, jobOf(h.q.Deps, &o))
	})
	if err != nil {
		return err
	}
	job, err := v.Create(ctx, account, in)
	switch {
	case vendorcall.MayHaveArrived(err):
		return h.leaveUnknown(ctx, &o, err)
	case err != nil:
		if forgot := h.q.Change(func(tx *store.Tx) error { return tx.DeleteObject(ctx, &o) }); forgot != nil {
			return forgot
		}
		return err
	}
	if err := h.keep(&o, job); err != nil {
		return err
	}
	hasten(h.q.Deps, ctx, &o, leastPollWait)
	return h.show(&o)
}

// leaveUnknown stores that the provider may have created a job, and returns the error that
// says so.
func (h *handler) leaveUnknown(ctx context.Context, o *store.Object, cause error) error {
	o.State = kept.StateUnknown
	h.q.Deps.Logger.Warn("a provider may have created a fine-tuning job without saying so", "job", o.ID, "provider", o.Provider)
	if err := h.q.Change(func(tx *store.Tx) error { return tx.UpdateObject(ctx, o) }); err != nil {
		return err
	}
	hasten(h.q.Deps, ctx, o, settleTime)
	e := *apierr.From(cause)
	e.Message += "; the job may exist: GET /v1" + root + "/" + o.ID + " finds it"
	return &e
}

// reconcile asks the provider for a job that it has not described. One that does not exist
// has no record any more.
func (h *handler) reconcile(o *store.Object) error {
	v, account, _, err := h.account(o.Provider)
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(h.q.HTTP.Context())
	job, err := v.Find(ctx, account, o.ID)
	switch {
	case err != nil && apierr.From(err).Kind == apierr.Unsupported:
		return apierr.New(apierr.Conflict,
			"the provider %.60s has not said whether it created this job, and can't be asked: look in its console", o.Provider).
			WithCode("state_unknown")
	case err != nil:
		return err
	case job != nil:
		return h.keep(o, job)
	case h.q.Deps.Now().Sub(o.CreatedAt) < settleTime:
		return apierr.New(apierr.Conflict, "the provider %.60s has not yet created this job: ask again in a minute", o.Provider).
			WithCode("state_unknown")
	}
	err = h.q.Change(func(tx *store.Tx) error { return tx.DeleteObject(ctx, o) })
	if err != nil && !apierr.IsNotFound(err) {
		return err
	}
	return kept.NotFound(store.ObjectTuningJob, "id")
}
