package tuning

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/files"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendortune"
	"modelgate/internal/store"
)

// details is what the record of a job has beyond that of other objects.
type details struct {
	Body    json.RawMessage `json:"body"`            // of the client, without keys
	Shown   json.RawMessage `json:"shown,omitempty"` // the job as clients see it
	TraceID string          `json:"trace_id,omitempty"`
}

func detailsOf(o *store.Object) (d details, err error) {
	err = json.Unmarshal(o.Data, &d)
	return d, err
}

// keep puts details into a record.
func (d *details) keep(o *store.Object) error {
	data, err := json.Marshal(d)
	o.Data = data
	return err
}

// Times of jobs.
const (
	// settleTime is how long a provider may take until a new job is in its lists.
	settleTime = 2 * time.Minute
	// finalAfter is the time after its end from which on a job is not read again: until
	// then some vendors correct a cancellation that came too late.
	finalAfter = time.Hour
	// refreshTime bounds how long a list waits for providers.
	refreshTime = 3 * time.Second
	// freshFor is the age of a state in a list that is not read again.
	freshFor = 10 * time.Second
)

// adopt takes over the state of a job as its provider describes it, in the names that the
// client used.
func (h *handler) adopt(o *store.Object, job *vendortune.Job) error {
	d, err := detailsOf(o)
	if err != nil {
		return err
	}
	in, err := vendortune.Parse(d.Body)
	if err != nil {
		return err
	}
	if job.UnknownStatus {
		h.q.Deps.Logger.Warn("a provider reports an unknown state of a fine-tuning job",
			"job", o.ID, "provider", o.Provider, "state", job.ProviderStatus)
	}
	job.Fill(in)
	o.ProviderID, o.State, o.UpdatedAt = job.ID, string(job.Status), h.q.Deps.Now()
	switch {
	case !job.Status.Ended():
		o.EndedAt = time.Time{}
	case o.EndedAt.IsZero():
		o.EndedAt = o.UpdatedAt
	}
	shown := *job
	shown.ID = o.ShownID()
	if d.Shown, err = json.Marshal(shown); err != nil {
		return err
	}
	return d.keep(o)
}

// keepTries is how often a state is stored that others change at the same moment.
const keepTries = 5

// keep stores the state of a job, and records of the files that it made. Of two states that
// are stored at the same moment the later one wins.
func (h *handler) keep(o *store.Object, job *vendortune.Job) error {
	ctx := context.WithoutCancel(h.q.HTTP.Context())
	for try := 1; ; try++ {
		if err := h.adopt(o, job); err != nil {
			return err
		}
		err := h.q.Change(func(tx *store.Tx) error {
			for _, id := range job.ResultFiles {
				if err := h.addFile(ctx, tx, o, id); err != nil {
					return err
				}
			}
			return tx.UpdateObject(ctx, o)
		})
		if err == nil && job.Status.Ended() { // its job records what it cost
			hasten(h.q.Deps, ctx, o, 0)
		}
		if err == nil || apierr.From(err).Kind != apierr.Conflict || try == keepTries {
			return err
		}
		again, err := h.q.Deps.DB.Object(ctx, o.Workspace, store.ObjectTuningJob, o.ID)
		if err != nil {
			return h.q.Deps.DB.ClientError(err)
		}
		*o = again
	}
}

// addFile adds the record of a file that a job made, unless there is one.
func (h *handler) addFile(ctx context.Context, tx *store.Tx, o *store.Object, id string) error {
	_, err := tx.Object(ctx, o.Workspace, store.ObjectFile, id)
	if !apierr.IsNotFound(err) {
		return err
	}
	data, err := json.Marshal(files.Details{Filename: id})
	if err != nil {
		return err
	}
	f := h.q.NewObject(store.ObjectFile, "gw_file_")
	f.KeyID, f.Provider, f.Integration, f.ProviderID, f.Parent = o.KeyID, o.Provider, o.Integration, id, o.ID
	f.State, f.Label, f.Data = files.StateProcessed, "fine-tune-results", data
	return tx.AddObject(ctx, f)
}

// refresh asks the provider of a job for its state. A job that ended long ago is not asked
// for again, and one that the provider has deleted since stays as it ended.
func (h *handler) refresh(o *store.Object) error {
	v, account, _, err := h.account(o.Provider)
	if err != nil {
		return err
	}
	if !o.EndedAt.IsZero() && h.q.Deps.Now().Sub(o.EndedAt) > finalAfter {
		return nil
	}
	job, err := v.Get(h.q.HTTP.Context(), account, o.ProviderID)
	if apierr.IsNotFound(err) && !o.EndedAt.IsZero() {
		return nil
	}
	if err != nil {
		return err
	}
	return h.keep(o, job)
}

// list lists the jobs of the workspace, the latest first. Jobs that have not ended are read
// again, as far as their providers respond in time.
func (h *handler) list() error {
	if h.q.From.Config != "" {
		return h.q.Pass(store.ObjectTuningJob)
	}
	query := h.q.HTTP.URL.Query()
	for name := range query {
		if strings.HasPrefix(name, "metadata") {
			return apierr.New(apierr.Invalid, "fine-tuning jobs can't be filtered by metadata: leave it out, and compare metadata of the jobs").
				WithParam("metadata")
		}
	}
	p, err := kept.ParsePage(query, maxPage, defaultPage)
	if err != nil {
		return err
	}
	found, more, err := h.q.List(store.ObjectTuningJob, "", p)
	if err != nil {
		return err
	}
	h.refreshAll(found)
	var ids []string
	l, err := kept.NewList(found, more, func(o *store.Object) (json.RawMessage, error) {
		d, err := detailsOf(o)
		ids = append(ids, o.ShownID())
		return d.Shown, err
	})
	if err != nil {
		return err
	}
	if len(ids) > 0 {
		l.FirstID, l.LastID = &ids[0], &ids[len(ids)-1]
	}
	return h.q.JSON(http.StatusOK, l)
}

// refreshAll reads the jobs of a page that have not ended. A provider that fails leaves
// them as they were.
func (h *handler) refreshAll(found []store.Object) {
	ctx, cancel := context.WithTimeout(h.q.HTTP.Context(), refreshTime)
	defer cancel()
	bounded := *h
	q := *h.q
	q.HTTP = h.q.HTTP.WithContext(ctx)
	bounded.q = &q
	for i := range found {
		o := &found[i]
		if ctx.Err() != nil {
			return
		}
		if o.ProviderID == "" || !o.EndedAt.IsZero() || h.q.Deps.Now().Sub(o.UpdatedAt) < freshFor {
			continue
		}
		if err := bounded.refresh(o); err != nil {
			h.q.Deps.Logger.Debug("the state of a fine-tuning job could not be read",
				"job", o.ID, "provider", o.Provider, "err", err.Error())
		}
	}
}
