package batches

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"modelgate/internal/limits/quota"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendorbatch"
	"modelgate/internal/store"
)

// Windows in which a batch is completed.
const (
	windowNow = "immediate" // run by the gateway, at once
	windowDay = "24h"
)

// batchPrefix is the beginning of the ids of batches.
const batchPrefix = "gw_batch_"

// window is the time after which a batch expires.
const window = 24 * time.Hour

// details is what the record of a batch has beyond that of other objects.
type details struct {
	Batch vendorbatch.Batch `json:"batch"` // without what the record itself has

	// Input is the record of the input file.
	Input string `json:"input"`
	// InputIsTheirs is true if the client uploaded the input file to the provider.
	InputIsTheirs bool `json:"input_is_theirs,omitempty"`

	// Key is the hash of the key that created the batch, for which its requests are made.
	Key string `json:"key"`
	// Headers are those of the gateway that each request has.
	Headers map[string]string `json:"headers,omitempty"`
	// Options are of the provider of a batch: the role and the bucket of a cloud.
	Options map[string]string `json:"options,omitempty"`
	TraceID string            `json:"trace_id,omitempty"`

	// OutputLife is how long the files of results are kept after the batch was created, in
	// seconds; zero is the gateway's setting.
	OutputLife int64 `json:"output_life,omitempty"`

	// Begun is the number of lines that may have been sent. Of these, the lines without a
	// result in Repeats have been sent twice already, and those in Waiting not at all, since a
	// limit refused them.
	Begun   int   `json:"begun,omitempty"`
	Repeats []int `json:"repeats,omitempty"`
	Waiting []int `json:"waiting,omitempty"`

	// Reserved is what was reserved of budgets for all lines. Grants are the same until the
	// record is stored.
	Reserved []store.BudgetHold `json:"reserved,omitempty"`
	grants   []quota.Grant

	// User is the owner of the key, for policies that count a batch at a provider.
	User string `json:"user,omitempty"`

	// Shown is a batch of another protocol as its provider described it, which settles its
	// results too; nil for others. Dropped is true if its client has deleted it before that.
	Shown   json.RawMessage `json:"shown,omitempty"`
	Dropped bool            `json:"dropped,omitempty"`

	// Settled is true once what a batch at a provider cost was recorded.
	Settled bool `json:"settled,omitempty"`
}

// isManaged reports whether the gateway runs the lines of a batch itself.
func isManaged(o *store.Object) bool { return o.Provider == "" }

// FilesOf returns the ids of the files of results of a batch.
func FilesOf(o *store.Object) (ids []string) {
	d, err := detailsOf(o)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc([]string{d.Batch.OutputFileID, d.Batch.ErrorFileID}, func(id string) bool { return id == "" })
}

// emitEnd emits the event of a batch that has ended.
func emitEnd(ctx context.Context, tx *store.Tx, o *store.Object) error {
	return tx.EmitEvent(ctx, store.Event{
		Organisation: o.Organisation, Workspace: o.Workspace, Type: "batch." + o.State, Object: o.ShownID(), Time: o.EndedAt,
	})
}

// keepRecord is how long the record of a batch stays after its files have gone.
const keepRecord = 24 * time.Hour

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

// show returns a batch as clients see it.
func show(o *store.Object) (vendorbatch.Batch, error) {
	d, err := detailsOf(o)
	if err != nil {
		return vendorbatch.Batch{}, err
	}
	b := d.Batch
	b.ID, b.Object, b.Status, b.CreatedAt = o.ShownID(), "batch", vendorbatch.Status(o.State), o.CreatedAt.Unix()
	if o.State == string(vendorbatch.Failed) && b.FailedAt == 0 { // its job ended without an end of the batch
		b.FailedAt = o.EndedAt.Unix()
	}
	if o.State == kept.StateUnknown {
		b.Status = vendorbatch.Validating
	}
	return b, nil
}

// move changes the state of a batch, and sets the time at which it was reached, once.
func move(o *store.Object, b *vendorbatch.Batch, to vendorbatch.Status, now time.Time) {
	o.State = string(to)
	var at *int64
	switch to {
	case vendorbatch.InProgress:
		at = &b.InProgressAt
	case vendorbatch.Finalizing:
		at = &b.FinalizingAt
	case vendorbatch.Cancelling:
		at = &b.CancellingAt
	case vendorbatch.Completed:
		at = &b.CompletedAt
	case vendorbatch.Failed:
		at = &b.FailedAt
	case vendorbatch.Expired:
		at = &b.ExpiredAt
	case vendorbatch.Cancelled:
		at = &b.CancelledAt
	}
	if at != nil && *at == 0 {
		*at = now.Unix()
	}
	if to.Ended() && o.EndedAt.IsZero() {
		o.EndedAt = now
	}
	o.UpdatedAt = now
}

// expire sets when the record of a batch that has ended is deleted.
func expire(d *kept.Deps, o *store.Object) {
	if !o.EndedAt.IsZero() && d.Limits.KeepBatchFiles > 0 {
		o.ExpiresAt = o.EndedAt.Add(d.Limits.KeepBatchFiles + keepRecord)
	}
}

// canMove reports whether a batch may go from one state to another.
func canMove(from, to vendorbatch.Status) bool {
	switch {
	case from.Ended():
		return false
	case to == vendorbatch.Failed, to == vendorbatch.Expired, from == to:
		return true
	}
	order := map[vendorbatch.Status]int{vendorbatch.Validating: 1, vendorbatch.InProgress: 2, vendorbatch.Finalizing: 3,
		vendorbatch.Completed: 4}
	switch to {
	case vendorbatch.Cancelling, vendorbatch.Cancelled:
		return true
	}
	return from != vendorbatch.Cancelling && order[to] > order[from]
}
