package vendorbatch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/stateplane/vendorcall"
)

// Vendor is a provider with a batch API. It is immutable and safe for concurrent use.
type Vendor struct {
	ID     string // in the provider table
	Limits Limits

	// Settings are the options of the provider that batches use, and Choices those that a
	// request may set if the provider does not.
	Settings, Choices []string

	driver driver
	speaks api.Dialect // of bodies in lines; empty if it is that of the endpoint
	// byModel is true if the dialect depends on the model, as the provider table has it.
	byModel bool
	states  states
	fits    func(customID string) bool // accepts it as the key of a line
	spec    *provider.Spec
}

// remover is implemented by drivers whose inputs are files, datasets or objects.
type remover interface {
	// removal returns the request that deletes an input, by its id.
	removal(id string) *vendorcall.Request
}

// deleteInput deletes an input.
func (v *view) deleteInput(ctx context.Context, id string) error {
	d, ok := v.driver.(remover)
	if !ok || id == "" {
		return nil
	}
	res, err := v.open(ctx, d.removal(id))
	if err != nil {
		return wrap(err, "deleting the input of a batch")
	}
	return res.Body.Close()
}

// driver is the part of a vendor that is code: requests of its batch API.
type driver interface {
	create(ctx context.Context, j *job) (*Batch, error)
	get(ctx context.Context, v *view, id string) (*Batch, error)
	// cancel requests the end of a batch; [Vendor].Cancel reads it afterwards.
	cancel(ctx context.Context, v *view, id string) error
	find(ctx context.Context, v *view, in *Input) (*Batch, error)
	rows(ctx context.Context, v *view, b *Batch, in *Input) iter.Seq2[row, error]
}

// view is a vendor and the way to reach it.
type view struct {
	*Vendor
	client
}

// job is a batch that is created.
type job struct {
	view
	in       *Input
	codec    *lineCodec
	summary  summary
	uploaded string // the id of the input, once the vendor has it
}

// discard deletes the uploaded input of a batch that the vendor certainly did not
// create. If that fails, the file stays until the vendor deletes it.
func (j *job) discard(ctx context.Context, reason error) {
	if j.uploaded == "" || errors.Is(reason, ErrUnanswered) {
		return
	}
	_ = j.deleteInput(context.WithoutCancel(ctx), j.uploaded)
}

// For returns the vendor with the given id or alias in the provider table, and false
// if the gateway knows no batch API of the provider.
func For(providerID string) (*Vendor, bool) {
	spec, ok := table.Lookup(providerID)
	if !ok {
		return nil, false
	}
	v, ok := vendors[spec.ID]
	return v, ok
}

// Speaks reports whether the batches of the vendor are those of a protocol.
func (v *Vendor) Speaks(d api.Dialect) bool { return v.speaks == d }

// Create creates a batch, and uploads its input first if the vendor reads it from a
// file. The error is [Errors] if lines are invalid for the vendor, and [ErrUnanswered]
// if the vendor may have accepted the batch.
func (v *Vendor) Create(ctx context.Context, c vendorcall.Caller, in *Input) (*Batch, error) {
	j := &job{view: v.view(c), in: in}
	var err error
	if j.codec, err = v.codec(in); err != nil {
		return nil, err
	}
	if err := j.check(); err != nil {
		return nil, err
	}
	b, err := v.driver.create(ctx, j)
	if err != nil {
		j.discard(ctx, err)
		return nil, err
	}
	b.Endpoint, b.CompletionWindow = first(b.Endpoint, in.Endpoint), first(b.CompletionWindow, in.Window)
	b.Model, b.InputFileID = first(b.Model, j.codec.model), first(b.InputFileID, in.FileID)
	b.RequestCounts.Total = first(b.RequestCounts.Total, int64(j.summary.lines))
	b.OwnID = first(b.OwnID, in.OwnID)
	if b.Metadata == nil {
		b.Metadata = in.Metadata
	}
	return b, nil
}

// Get returns the batch with the vendor's id.
func (v *Vendor) Get(ctx context.Context, c vendorcall.Caller, id string) (*Batch, error) {
	w := v.view(c)
	return v.driver.get(ctx, &w, id)
}

// Cancel cancels a batch and returns it. A batch that has ended is returned as it is.
// The error is [ErrUnsupported] if the vendor cannot cancel.
func (v *Vendor) Cancel(ctx context.Context, c vendorcall.Caller, id string) (*Batch, error) {
	w := v.view(c)
	refused := v.driver.cancel(ctx, &w, id)
	if errors.Is(refused, ErrUnsupported) {
		return nil, refused
	}
	b, err := v.driver.get(ctx, &w, id)
	switch {
	case err != nil && refused != nil:
		return nil, refused
	case err != nil:
		return nil, err
	case refused != nil && !b.Status.Ended() && b.Status != Cancelling:
		return nil, refused
	case refused == nil && !b.Status.Ended():
		b.Status = Cancelling
	}
	return b, nil
}

// DeleteInput deletes the input that Create uploaded, which many vendors keep until
// someone does. It is for batches that have ended, and not for those created with a
// FileID. An input that is gone is not an error.
func (v *Vendor) DeleteInput(ctx context.Context, c vendorcall.Caller, b *Batch) error {
	w := v.view(c)
	if err := w.deleteInput(ctx, b.InputFileID); !apierr.IsNotFound(err) {
		return err
	}
	return nil
}

// Find returns the batch that was created with the OwnID, or as Relayed says, and with the
// Options of in, or an error of the kind NotFound. It is [ErrUnsupported] if the vendor's
// batches cannot be recognised. The rest of in is not used.
func (v *Vendor) Find(ctx context.Context, c vendorcall.Caller, in *Input) (*Batch, error) {
	w := v.view(c)
	if _, ok := v.driver.(*openAI); in.Relayed != nil && !ok {
		return nil, ErrUnsupported
	}
	b, err := v.driver.find(ctx, &w, in)
	if err == nil && b == nil {
		return nil, apierr.New(apierr.NotFound, "%s has no batch of the record %s", v.spec.Name, in.OwnID)
	}
	return b, err
}

// Results yields the result of each line of a batch, in the vendor's order. b is the
// batch as Get has just returned it, and in is what it was created from: every line
// without a result has an error if the batch has ended. The sequence ends after its
// first error. It can be read again.
func (v *Vendor) Results(ctx context.Context, c vendorcall.Caller, b *Batch, in *Input) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		w := v.view(c)
		codec, err := v.codec(in)
		if err != nil {
			yield(Result{}, err)
			return
		}
		codec.created, codec.seed = first(b.CompletedAt, b.CreatedAt), b.ID
		index, err := newIndex(in, func(line *Line) string { return v.keyOf(codec, line) })
		if err != nil {
			yield(Result{}, err)
			return
		}
		r := resultReader{codec: codec, index: index, batch: b, parts: map[string]*lineParts{}, unlisted: map[string]*indexedLine{}}
		r.read(v.driver.rows(ctx, &w, b, in), yield)
	}
}

func (v *Vendor) view(c vendorcall.Caller) view {
	return view{Vendor: v, client: client{Caller: c, vendor: v.spec.Name}}
}

// codec returns the codec for the lines of in.
func (v *Vendor) codec(in *Input) (*lineCodec, error) {
	if !v.Limits.hasEndpoint(in.Endpoint) {
		return nil, endpointError(v.spec.Name, in.Endpoint)
	}
	model, err := v.model(in)
	if err != nil {
		return nil, err
	}
	speaks := v.speaks
	if v.byModel {
		if speaks = v.spec.DialectFor(endpoints[in.Endpoint].dialect, model); codecs[speaks] == nil {
			return nil, apierr.New(apierr.Invalid, "%s has no batches of the model %.60q; choose another model or provider", v.spec.Name, model).
				WithParam("model").WithCode("unsupported_model")
		}
	}
	c, err := newCodec(v.spec, speaks, model, in)
	if err == nil {
		c.splits = c.form != nil
	}
	return c, err
}

// model returns the model of all lines. It is that of the first if the vendor wants one
// model, and empty if lines may have several.
func (v *Vendor) model(in *Input) (string, error) {
	if in.Model != "" || !v.Limits.OneModel || in.Lines == nil {
		return in.Model, nil
	}
	for line, err := range in.Lines() {
		if err != nil {
			return "", fmt.Errorf("reading the lines of the batch: %w", err)
		}
		return modelOf(line.Body), nil
	}
	return "", nil
}

// keyOf returns the key of a line at the vendor.
func (v *Vendor) keyOf(c *lineCodec, line *Line) string {
	split := false
	if c.splits {
		n, _ := dialect.CountInputs(line.Body)
		split = n > 1
	}
	return keyOf(line, v.fits, split)
}

// errOption returns the error for an option that the vendor needs: name is that of requests, and
// setting that of the provider.
func (v *view) errOption(name, setting, what string) error {
	advice := "set " + setting + " in the settings of the provider"
	if slices.Contains(v.Choices, name) {
		advice += ", or provider_options." + name + " of the batch"
	}
	return apierr.New(apierr.Invalid, "batches of %s need %s: %s; without x-gateway-provider, the gateway runs the batch itself",
		v.spec.Name, what, advice).WithParam(name).WithCode("option_required")
}

// wrap adds what was done to an error that is not for clients.
func wrap(err error, format string, args ...any) error {
	if _, ok := errors.AsType[*apierr.Error](err); ok || err == nil {
		return err
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
