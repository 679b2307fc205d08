// Package jobs implements the control plane's routes of background jobs.
//
// It guarantees that a key sees only jobs of its own workspace, and that users see jobs
// only if they administer the organisation. It does not run jobs (see internal/store/jobs).
package jobs

import (
	"context"
	"net/http"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
	work "modelgate/internal/store/jobs"
)

// Routes are the routes of jobs.
type Routes struct {
	// Queued is called when a job was queued again. If nil, nodes find it by looking.
	Queued func()
}

// Add adds the routes. Their scope is that of exports, which are the jobs that there are.
func (f Routes) Add(a *route.API) {
	r := route.Family{Path: "/admin/jobs", Tag: "Jobs", Scopes: []string{"logs"}, Resource: "job"}
	route.Add(a, r.Route(http.MethodGet, "", "list-jobs", "export", "List background jobs"), list)
	route.Add(a, r.Route(http.MethodGet, "/{job}", "get-job", "export", "Read a background job"), get)
	route.Add(a, r.Route(http.MethodPost, "/{job}/cancel", "cancel-job", "export", "Cancel a queued or running job"), cancel)
	route.Add(a, r.Route(http.MethodPost, "/{job}/retry", "retry-job", "export", "Queue a failed or dead job again"), f.retry)
}

// Item is a job in a response.
type Item struct {
	ID           string     `json:"id"`
	Kind         string     `json:"kind" doc:"What it does: export or webhook"`
	Subject      string     `json:"subject_id" doc:"Id of the object that it works on"`
	Organisation string     `json:"organisation_id"`
	Workspace    *string    `json:"workspace_id"`
	State        string     `json:"state" enum:"queued,running,done,failed,dead,cancelled"`
	Node         *string    `json:"node" doc:"Process that runs it, or ran it last"`
	Tries        int64      `json:"tries" doc:"Begun, including the current one"`
	Error        *string    `json:"last_error" doc:"Why the last try failed"`
	Progress     int64      `json:"progress" doc:"Done in the current try, such as rows"`
	Total        *int64     `json:"total" doc:"Of progress; null if unknown"`
	NextAt       route.Time `json:"next_try_at" doc:"When it is due, if it is queued"`
	CreatedAt    route.Time `json:"created_at"`
	StartedAt    route.Time `json:"started_at" doc:"Start of the last try"`
	RenewedAt    route.Time `json:"renewed_at" doc:"When its node was last heard of"`
	EndedAt      route.Time `json:"ended_at"`
	Object       string     `json:"object"`
}

func toResponse(j store.Job) Item {
	return Item{
		ID: j.ID, Kind: j.Kind, Subject: j.Subject, Organisation: j.Organisation, Workspace: route.OrNull(j.Workspace), State: j.State,
		Node: route.OrNull(j.Node), Tries: j.Tries, Error: route.OrNull(j.Failure), Progress: j.Progress, Total: j.Total,
		NextAt: route.Time(j.NextAt), CreatedAt: route.Time(j.CreatedAt), StartedAt: route.Time(j.StartedAt),
		RenewedAt: route.Time(j.RenewedAt), EndedAt: route.Time(j.EndedAt), Object: "job",
	}
}

type listInput struct {
	Workspace string `query:"workspace_id" maxLength:"255" doc:"Id or slug"`
	Kind      string `query:"kind" maxLength:"64"`
	State     string `query:"state" enum:"queued,running,done,failed,dead,cancelled"`
	route.Paging
}

func list(ctx context.Context, c *route.Caller, in *listInput) (*route.List[Item], error) {
	workspace, err := visible(ctx, c, in.Workspace)
	if err != nil {
		return nil, err
	}
	q := store.JobQuery{Organisation: c.Organisation, Workspace: workspace, Kind: in.Kind, State: in.State}
	found, total, err := c.DB().Jobs(ctx, q, in.Rows())
	return route.Listing(found, total, err, toResponse)
}

// visible returns the workspace whose jobs the caller sees, empty for all. Named is the
// workspace in the request, empty for none.
func visible(ctx context.Context, c *route.Caller, named string) (string, error) {
	if c.IsPerson() {
		isAdmin, err := c.Administers(ctx)
		if err != nil {
			return "", err
		}
		if !isAdmin {
			return "", apierr.New(apierr.Forbidden, "only the owner and admins of the organisation see background jobs").WithCode("AB03")
		}
	}
	return c.WorkspaceFilter(ctx, named)
}

type oneInput struct {
	Job string `path:"job" maxLength:"64"`
}

func get(ctx context.Context, c *route.Caller, in *oneInput) (*Item, error) {
	j, err := find(ctx, c, in.Job)
	return route.ItemOf(j, err, toResponse)
}

// find returns the job with this id, if the caller may see it.
func find(ctx context.Context, c *route.Caller, id string) (store.Job, error) {
	workspace, err := visible(ctx, c, "")
	if err != nil {
		return store.Job{}, err
	}
	none := route.NotFound("job", "job", id)
	j, err := c.DB().Job(ctx, id)
	if err == nil && (j.Organisation != c.Organisation || workspace != "" && j.Workspace != workspace) {
		return store.Job{}, none
	}
	return j, c.CheckFound(j.Workspace, j.ID, err, none)
}

func cancel(ctx context.Context, c *route.Caller, in *oneInput) (*Item, error) {
	return change(ctx, c, in.Job, work.Cancel)
}

func (f Routes) retry(ctx context.Context, c *route.Caller, in *oneInput) (*Item, error) {
	item, err := change(ctx, c, in.Job, work.Requeue)
	if err == nil && f.Queued != nil {
		f.Queued()
	}
	return item, err
}

// change stores a transition of the job and returns the job after it.
func change(ctx context.Context, c *route.Caller, id string, to func(store.Job, time.Time) (store.Job, error)) (*Item, error) {
	if _, err := find(ctx, c, id); err != nil {
		return nil, err
	}
	var j store.Job
	err := c.Change(ctx, func(tx *store.Tx) error {
		return work.Change(ctx, tx,
			func() (store.Job, error) { return tx.Job(ctx, id) },
			func(was store.Job) (next store.Job, err error) {
				next, err = to(was, c.Now)
				j = next
				return next, err
			})
	})
	return route.ItemOf(j, err, toResponse)
}
