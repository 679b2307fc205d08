package batches

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/provider"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendorbatch"
	"modelgate/internal/store"
)

// createThere creates a batch of a file that a provider has, at that provider.
func createThere(q *kept.Request, in *input, body []byte, file *store.Object) error {
	target, integration, err := q.Target(file.Provider)
	if err != nil {
		return err
	}
	vendor, ok := vendorbatch.For(target.ID)
	if !ok { // it could be neither followed nor billed
		return noBatches(target, "input_file_id", "upload the file without x-gateway-provider")
	}
	o, d := newThere(q, in, file, file.Provider, integration)
	asSent := kept.Speaks(target, api.Batches)
	if err := checkThere(vendor, target, d, asSent); err != nil {
		return err
	}
	if err := reserve(q, o, d, file); err != nil {
		return err
	}
	if asSent {
		return relayCreate(q, o, d, body)
	}
	return createBy(q, o, d, vendor, &vendorbatch.Input{
		Endpoint: in.Endpoint, Window: in.CompletionWindow, Metadata: in.Metadata, OwnID: o.ID,
		FileID: file.ProviderID, Options: optionsOf(vendor, target, d.Options), Name: d.Options["job_name"],
	})
}

// noBatches returns the error for a provider whose batches the gateway does not know. Param
// has named it, and the advice is what to do instead.
func noBatches(t *provider.Target, param, advice string) error {
	return apierr.New(apierr.Unsupported, "the gateway knows no batches of the provider %s; %s, and the gateway runs the batch itself", t.ID, advice).
		WithParam(param).WithCode("unsupported_operation")
}

// newThere returns the record of a batch at a provider.
func newThere(q *kept.Request, in *input, file *store.Object, provider, integration string) (*store.Object, *details) {
	o := q.NewObject(store.ObjectBatch, batchPrefix)
	o.Provider, o.Integration, o.Label, o.State = provider, integration, in.Endpoint, kept.StateCreating
	d := in.details(q, file)
	return &o, &d
}

// checkThere checks what a request chooses for a batch whose file is at the provider.
// Whatever is sent as it is, the provider checks.
func checkThere(vendor *vendorbatch.Vendor, target *provider.Target, d *details, asSent bool) error {
	if asSent {
		return nil
	}
	if err := checkChoices(vendor, target, d.Options); err != nil {
		return err
	}
	if target.Models != nil && d.Options["model"] == "" {
		return provider.ModelRefused(
			"the provider %s has a list of models, and those in a file at the provider cannot be known; upload the file without x-gateway-provider",
			target.Label())
	}
	return nil
}

// relayCreate sends the client's own request to the provider. Its batch is followed.
func relayCreate(q *kept.Request, o *store.Object, d *details, body []byte) error {
	if err := d.keep(o); err != nil {
		return err
	}
	r := q.Forwarded(o.Provider)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	res, err := q.Create(o, r, func(body []byte) error {
		var b vendorbatch.Batch
		if err := json.Unmarshal(body, &b); err != nil || b.ID == "" {
			return kept.RefuseUnreadable("batch")
		}
		return adopt(q.Deps, o, d, &b)
	})
	if err != nil {
		return err
	}
	if o.ProviderID != "" || o.State == kept.StateUnknown {
		if err := follow(q, o); err != nil {
			return err
		}
	}
	return res.Send(q.W)
}

// createAtVendor creates a batch of a file of the gateway at a provider with a batch API.
func createAtVendor(q *kept.Request, in *input, file *store.Object, vendor *vendorbatch.Vendor, provider string) error {
	if err := in.checkOfGateway(q); err != nil {
		return err
	}
	target, integration, err := q.Target(provider)
	if err != nil {
		return err
	}
	o, d := newThere(q, in, file, provider, integration)
	if err := checkChoices(vendor, target, d.Options); err != nil {
		return err
	}
	if err := reserve(q, o, d, file); err != nil {
		return err
	}
	x := inputOf(q.HTTP.Context(), q.Deps, d, file, target)
	x.OwnID, x.Lines = o.ID, enabledOnly(x.Lines, target, d.Options["model"])
	x.Window, x.Metadata = in.CompletionWindow, in.Metadata
	return createBy(q, o, d, vendor, x)
}

// inputOf returns the input of a batch at a vendor, read from a file of the gateway.
func inputOf(ctx context.Context, deps *kept.Deps, d *details, file *store.Object, t *provider.Target) *vendorbatch.Input {
	x := &vendorbatch.Input{
		Endpoint: d.Batch.Endpoint, Window: d.Batch.CompletionWindow, Name: d.Options["job_name"], Model: d.Options["model"],
	}
	if vendor, ok := vendorbatch.For(t.ID); ok {
		x.Options = optionsOf(vendor, t, d.Options)
	}
	if file == nil || file.ProviderID != "" {
		return x
	}
	x.Lines = func() iter.Seq2[vendorbatch.Line, error] { return linesOf(deps, ctx, file, d.Batch.Endpoint, t.Slug) }
	return x
}

// linesOf yields the lines of a file as a provider takes them: with its own names of models.
func linesOf(deps *kept.Deps, ctx context.Context, file *store.Object, endpoint, slug string) iter.Seq2[vendorbatch.Line, error] {
	return func(yield func(vendorbatch.Line, error) bool) {
		in, err := deps.Open(ctx, file)
		if err != nil {
			yield(vendorbatch.Line{}, err)
			return
		}
		defer in.Close()
		reader := newLineReader(in)
		for {
			text, number, err := reader.next()
			if err == io.EOF {
				return
			}
			if err == nil && isEmpty(text) {
				continue
			}
			x := vendorbatch.Line{Number: number}
			if err == nil {
				x, err = lineFor(text, number, endpoint, slug)
			}
			if !yield(x, err) || err != nil {
				return
			}
		}
	}
}

// lineFor returns a line for a provider, whose slug its model may begin with.
func lineFor(text []byte, number int, endpoint, slug string) (x vendorbatch.Line, err error) {
	l, fault := parseLine(text, number, endpoint)
	if fault != nil {
		return x, &vendorbatch.Errors{Object: "list", Data: []vendorbatch.LineError{*fault}}
	}
	x = vendorbatch.Line{Number: number, CustomID: l.CustomID, Method: l.Method, URL: l.URL, Body: l.Body}
	var doc jsonedit.Doc
	if err := doc.Scan(l.Body); err != nil {
		return x, err
	}
	v, ok := doc.Find("model")
	model, isText := v.Text()
	if named, rest, cut := strings.Cut(model, "/"); ok && isText && cut && strings.HasPrefix(named, "@") {
		if named != "@"+slug {
			param := "body.model"
			return x, &vendorbatch.Errors{Object: "list", Data: []vendorbatch.LineError{{
				Code: "invalid_value", Message: fmt.Sprintf("the model names the provider %.60s, and the batch is for @%s", named,
					slug), Param: &param, Line: &number,
			}}}
		}
		x.Body = bytes.Replace(l.Body, v.Raw(), jsonedit.AppendString(nil, rest), 1)
	}
	return x, nil
}

// createBy creates a batch with the requests of a vendor's API. Its record is written
// first; a batch that the vendor may have accepted is found again by its job.
func createBy(q *kept.Request, o *store.Object, d *details, vendor *vendorbatch.Vendor, in *vendorbatch.Input) error {
	ctx := context.WithoutCancel(q.HTTP.Context())
	if err := addNew(q, o, d, jobOf(q.Deps, o, store.JobBatchPoll, q.Deps.Now().Add(createTime))); err != nil {
		return err
	}
	b, err := vendor.Create(ctx, callerOf(q, o), in)
	switch {
	case err == nil:
		if err := adopt(q.Deps, o, d, b); err != nil {
			return err
		}
	case errors.Is(err, vendorbatch.ErrUnanswered):
		o.State = kept.StateUnknown
		q.Deps.Logger.Warn("a provider may have created a batch without saying so", "batch", o.ID, "provider", o.Provider)
	default:
		if forgot := q.Change(func(tx *store.Tx) error { return tx.DeleteObject(ctx, o) }); forgot != nil {
			return forgot
		}
		reloadHolds(ctx, q.Deps)
		return createError(err)
	}
	err = q.Change(func(tx *store.Tx) error {
		if err := tx.UpdateObject(ctx, o); err != nil {
			return err
		}
		return tx.HastenJob(ctx, store.JobBatchPoll, o.ID, q.Deps.Now().Add(leastPollWait))
	})
	if err != nil {
		return err
	}
	q.Deps.Queued()
	shown, err := show(o)
	if err != nil {
		return err
	}
	return q.JSON(http.StatusOK, shown)
}

// createError returns the error of a batch that was not created: that of its first line.
func createError(err error) error {
	faults, ok := errors.AsType[*vendorbatch.Errors](err)
	if !ok || len(faults.Data) == 0 {
		return err
	}
	first := faults.Data[0]
	where := "the input"
	if first.Line != nil {
		where = fmt.Sprintf("line %d", *first.Line)
	}
	param := "input_file_id"
	if first.Param != nil {
		param = *first.Param
	}
	kind := apierr.Invalid
	if first.Code == provider.CodeModelRefused {
		kind = apierr.Forbidden
	}
	e := apierr.New(kind, "%s: %s", where, first.Message).WithParam(param).WithCode(first.Code)
	return e
}

// adopt takes over the state of a batch as its vendor describes it.
func adopt(deps *kept.Deps, o *store.Object, d *details, b *vendorbatch.Batch) error {
	was := d.Batch
	d.Batch = *b
	d.Batch.Endpoint, d.Batch.InputFileID = was.Endpoint, was.InputFileID
	if d.Batch.CompletionWindow == "" {
		d.Batch.CompletionWindow = was.CompletionWindow
	}
	if d.Batch.Metadata == nil {
		d.Batch.Metadata = was.Metadata
	}
	if was.OutputFileID != "" { // of the gateway's own files
		d.Batch.OutputFileID, d.Batch.ErrorFileID = was.OutputFileID, was.ErrorFileID
	}
	d.Batch.InProgressAt = firstTime(was.InProgressAt, b.InProgressAt)
	d.Batch.CancellingAt = firstTime(was.CancellingAt, b.CancellingAt)
	o.ProviderID = b.ID
	to, from := b.Status, vendorbatch.Status(o.State)
	if from == kept.StateCreating || from == kept.StateUnknown || canMove(from, to) {
		move(o, &d.Batch, to, deps.Now())
	}
	if b.UnknownStatus {
		deps.Logger.Warn("a provider reports an unknown state of a batch", "batch", o.ID, "provider", o.Provider, "state", b.VendorStatus)
	}
	return d.keep(o)
}

// firstTime returns the time that was seen first.
func firstTime(seen, now int64) int64 {
	if seen != 0 {
		return seen
	}
	return now
}

// cancelThere cancels a batch at its provider.
func cancelThere(q *kept.Request, o *store.Object) error {
	target, _, err := q.Target(o.Provider)
	if err != nil {
		return err
	}
	vendor, ok := vendorbatch.For(target.ID)
	if !ok || o.ProviderID == "" {
		return noBatches(target, "x-gateway-provider", "leave out x-gateway-provider")
	}
	d, err := detailsOf(o)
	if err != nil {
		return err
	}
	b, err := vendor.Cancel(q.HTTP.Context(), callerOf(q, o), o.ProviderID)
	if errors.Is(err, vendorbatch.ErrUnsupported) {
		return apierr.New(apierr.Unsupported, "the provider %s cannot cancel batches", o.Provider).WithCode("unsupported_operation")
	}
	if err != nil {
		return err
	}
	if b.Status.Ended() { // the job fetches and settles the results first
		hasten(q, o)
		b.Status = vendorbatch.Cancelling
	}
	if err := adopt(q.Deps, o, &d, b); err != nil {
		return err
	}
	if err := q.Change(func(tx *store.Tx) error { return tx.UpdateObject(context.WithoutCancel(q.HTTP.Context()), o) }); err != nil &&
		apierr.From(err).Kind != apierr.Conflict {
		return err
	}
	shown, err := show(o)
	if err != nil {
		return err
	}
	return q.JSON(http.StatusOK, shown)
}

// createTime is the time for creating a batch at a provider. After it, a node that was to
// do that has ended, and the batch is looked for.
const createTime = 10 * time.Minute

// refreshAfter is the age of a state after which a read asks the provider again, and
// refreshTime how long the read waits for it.
const (
	refreshAfter = time.Second
	refreshTime  = 10 * time.Second
)

// refresh asks the provider of a batch that has not ended for its state. What it costs is
// settled by the batch's job, whoever sees the end first. If the provider returns an error,
// or nothing in time, the state stays as it is, and the response says how old it is.
func refresh(q *kept.Request, o *store.Object) error {
	if isManaged(o) || o.ProviderID == "" || vendorbatch.Status(o.State).Ended() || q.Deps.Now().Sub(o.UpdatedAt) < refreshAfter {
		return nil
	}
	target, _, err := q.Target(o.Provider)
	if err != nil {
		return err
	}
	vendor, ok := vendorbatch.For(target.ID)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(q.HTTP.Context(), refreshTime)
	defer cancel()
	b, err := vendor.Get(ctx, callerOf(q, o), o.ProviderID)
	if err != nil {
		age := q.Deps.Now().Sub(o.UpdatedAt)
		q.W.Header().Set(api.HeaderStale, strconv.FormatInt(int64(age.Seconds()), 10))
		q.Deps.Logger.Debug("a batch was not read at its provider", "batch", o.ID, "provider", o.Provider, "err", err.Error())
		return nil
	}
	if b.Status.Ended() { // the job fetches and settles the results first
		hasten(q, o)
		b.Status = vendorbatch.Finalizing
	}
	d, err := detailsOf(o)
	if err != nil {
		return err
	}
	if err := adopt(q.Deps, o, &d, b); err != nil {
		return err
	}
	err = q.Change(func(tx *store.Tx) error { return tx.UpdateObject(context.WithoutCancel(q.HTTP.Context()), o) })
	if err != nil && apierr.From(err).Kind == apierr.Conflict { // others have just written it
		*o, err = q.Find(store.ObjectBatch, o.ID)
	}
	return err
}
