package batches

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"modelgate/api"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/stateplane/files"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendorbatch"
	"modelgate/internal/store"
)

// results are what has been read of the results of a batch.
type results struct {
	files             []store.Object
	output, failures  string // ids of the files
	blobs             []kept.Blob
	usage             vendorbatch.Usage
	succeeded, failed int64
	total             llm.Usage
	cost              catalog.NanoDollars
	priced            bool // every line that used something has a price
	price             string
	model             string

	// byModel is what was used by the models that the lines ask for. Nil if no policies
	// count it.
	byModel map[string]*reqlog.Spend
}

// fetch reads the results of a batch. Files that its provider keeps get a record, others
// become files of the gateway.
func (f *followed) fetch(ctx context.Context, b *vendorbatch.Batch) (*results, error) {
	x := &results{priced: true, model: b.Model}
	theirs := f.Shown != nil || kept.Speaks(f.target, api.Files) && (b.OutputFileID != "" || b.ErrorFileID != "")
	var output, failures *blobWriter
	if theirs {
		for _, id := range [...]string{b.OutputFileID, b.ErrorFileID} {
			if id != "" && f.Shown == nil {
				x.files = append(x.files, f.fileRecord(id))
			}
		}
	} else {
		output, failures = f.newBlob(ctx, "output"), f.newBlob(ctx, "error")
	}
	var input *store.Object
	if o, err := f.DB.ObjectByID(ctx, f.Input); err == nil {
		input = &o
	}
	in := f.input(ctx, input)
	asked, err := f.requestedModels(in)
	if err != nil {
		return nil, err
	}
	var line []byte
	var failed error
	for r, err := range f.vendor.Results(ctx, f.caller, b, in) {
		if err != nil {
			failed = err
			break
		}
		f.countFor(x, asked, &r, f.add(x, &r))
		if theirs {
			continue
		}
		line = append(r.Append(line[:0]), '\n')
		to := output
		if r.Failed() {
			to = failures
		}
		if _, failed = to.Write(line); failed != nil {
			break
		}
	}
	if !theirs {
		failed = errors.Join(failed, f.closeBlobs(ctx, x, output, failures, failed))
	}
	return x, failed
}

// add counts a result and what it cost. It returns what the result is settled with.
func (f *followed) add(x *results, r *vendorbatch.Result) (s reqlog.Settlement) {
	s = reqlog.Settlement{Outcome: reqlog.Answered, Usage: r.Usage}
	if r.Failed() {
		x.failed++
	} else {
		x.succeeded++
	}
	if !r.Usage.Known {
		x.priced = x.priced && r.Failed()
		if r.Failed() {
			s.Outcome = reqlog.Refused
		}
		return s
	}
	x.usage.Add(r.Usage)
	x.total = sumUsage(x.total, r.Usage)
	model := r.Model
	if model == "" {
		model = x.model
	}
	x.model = model
	p, ok := f.target.Price(f.Prices(), model, "", f.object.CreatedAt)
	tier := catalog.Batch
	if !ok || !p.Covers(r.Usage) || !p.Has(tier) {
		x.priced = false
		return s
	}
	s.Cost, s.Price, s.Priced = p.Cost(r.Usage, tier), p.Row()+" "+tier.String(), true
	x.cost, x.price = x.cost+s.Cost, s.Price
	return s
}

// fileRecord returns the record of a file of results that the provider keeps.
func (f *followed) fileRecord(id string) store.Object {
	now := f.Now()
	shown, _ := json.Marshal(map[string]any{ // of strings and numbers
		"id": id, "object": "file", "purpose": "batch_output", "filename": id + ".jsonl",
		"bytes": 0, "created_at": now.Unix(), "status": files.StateProcessed,
	})
	data, _ := json.Marshal(files.Details{Filename: id + ".jsonl", Shown: shown})
	o := store.Object{
		ID: f.ObjectID("gw_file_"), Kind: store.ObjectFile,
		Organisation: f.object.Organisation, Workspace: f.object.Workspace, KeyID: f.object.KeyID,
		Provider: f.object.Provider, ProviderID: id, State: files.StateProcessed, Label: "batch_output",
		Data: data, CreatedAt: now, UpdatedAt: now,
	}
	if f.OutputLife > 0 {
		o.ExpiresAt = f.object.CreatedAt.Add(time.Duration(f.OutputLife) * time.Second)
	}
	return o
}

// blobWriter writes a file of the gateway while it is made.
type blobWriter struct {
	*io.PipeWriter
	name string // of the blob
	kind string // output or error
	done chan struct{}
	size int64 // set before done is closed, as is err
	err  error
}

// newBlob begins a file of results.
func (f *followed) newBlob(ctx context.Context, kind string) *blobWriter {
	in, out := io.Pipe()
	w := &blobWriter{PipeWriter: out, kind: kind, done: make(chan struct{}), name: fmt.Sprintf("%s/%s/%s-%s", f.object.Organisation,
		f.object.ID, kind, f.NewID())}
	go func() {
		defer close(w.done)
		w.size, w.err = f.Contents.Put(ctx, f.object.Organisation, w.name, in)
		in.CloseWithError(w.err)
	}()
	return w
}

// closeBlobs ends the files of results: with records if reading did not fail.
func (f *followed) closeBlobs(ctx context.Context, x *results, output, failures *blobWriter, failed error) (err error) {
	for _, w := range [...]*blobWriter{output, failures} {
		w.CloseWithError(failed) // nil is the end of the file
		<-w.done
		if w.err != nil {
			err = errors.Join(err, kept.StoreFailed(w.err))
			continue
		}
		b := kept.Blob{Name: w.name, Size: w.size}
		if x.blobs = append(x.blobs, b); w.size == 0 {
			continue
		}
		o, made := f.resultFile(w.kind, b)
		if err = errors.Join(err, made); made == nil {
			x.files = append(x.files, *o)
			if w == output {
				x.output = o.ID
			} else {
				x.failures = o.ID
			}
		}
	}
	if failed != nil || err != nil {
		f.DeleteBlobs(ctx, x.blobs)
	}
	return err
}

// resultFile returns the record of a file of results of the gateway.
func (f *followed) resultFile(kind string, b kept.Blob) (*store.Object, error) {
	w := &work{Deps: f.Deps, object: f.object, details: f.details}
	return w.resultFile([]kept.Blob{b}, kind)
}
