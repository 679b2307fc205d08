package batches

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/files"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendorbatch"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
)

// chunk is results that are stored together: those of the lines that it names.
type chunk struct {
	Lines    []span     `json:"lines"`
	Output   *kept.Blob `json:"output,omitempty"`
	Failures *kept.Blob `json:"failures,omitempty"`
}

// outcome is the result of a line.
type outcome struct {
	line   int
	result result
	ok     bool // the result is for the file of outputs
	usage  vendorbatch.Usage
}

// Limits of what a node holds of results before it stores them.
const (
	chunkBytes = 1 << 20
	chunkTime  = time.Second

	// repeatTime is that of results of lines that are not sent again after another crash.
	repeatTime = chunkTime / 10

	mostChunkTime = 10 * time.Second // of batches that run for hours
)

// collector gathers results and stores them in chunks. It is used by one goroutine.
type collector struct {
	w                *work
	output, failures bytes.Buffer
	lines            []int
	succeeded        int64
	usage            vendorbatch.Usage
	repeated         bool      // there is a result of a line that is not sent again after a crash
	flushed          time.Time // when results were last stored
}

func newCollector(w *work) *collector { return &collector{w: w, flushed: time.Now()} }

// add adds a result, and stores what is there if it is much.
func (c *collector) add(ctx context.Context, x outcome) error {
	text, err := json.Marshal(x.result)
	if err != nil {
		return err
	}
	to := &c.failures
	if x.ok {
		to = &c.output
		c.succeeded++
	}
	to.Write(text)
	to.WriteByte('\n')
	c.repeated = c.repeated || x.result.Repeated
	c.lines = append(c.lines, x.line)
	addUsage(&c.usage, &x.usage)
	if c.output.Len()+c.failures.Len() < chunkBytes {
		return nil
	}
	return c.flush(ctx)
}

// pace returns the interval at which results are stored: long batches have fewer chunks.
func (c *collector) pace() time.Duration {
	if c.repeated {
		return 0
	}
	age := c.w.Now().Sub(c.w.object.CreatedAt)
	return min(max(age/300, chunkTime), mostChunkTime)
}

// announce stores that lines up to begun may be sent from now on, and marks.
func (c *collector) announce(ctx context.Context, begun int, marks []mark) error {
	w := c.w
	return c.persist(ctx, func(bool) error {
		return w.change(ctx, func() {
			w.Begun, w.Repeats = max(w.Begun, begun), w.openRepeats()
			for i := range marks {
				marks[i].apply(w)
			}
		}, nil)
	})
}

// openRepeats returns the lines that may have been sent twice and have no result.
func (w *work) openRepeats() []int {
	return slices.DeleteFunc(slices.Clone(w.Repeats), w.done.has)
}

// close stores what is there at the end of sending, unless that failed before. If the node
// stops, it also stores which of the announced lines were not handed out.
func (c *collector) close(ctx context.Context, d *dispatcher, failed error) error {
	if failed != nil {
		return failed
	}
	if err := c.flush(ctx); err != nil || ctx.Err() == nil {
		return err
	}
	w := c.w
	return w.change(ctx, func() {
		w.Begun = min(w.Begun, max(w.begin.Begun, d.last))
		w.Repeats = w.openRepeats()
	}, nil)
}

// persist calls store until it succeeds, the node stops or the job is lost. Results are in
// memory only until then, so a store that is full or away for a while must not end the
// batch. Store gets whether an attempt before may have succeeded.
func (c *collector) persist(ctx context.Context, store func(again bool) error) error {
	for pause, again := leastPause, false; ; pause, again = min(2*pause, mostPause), true {
		err := store(again)
		if err == nil || ctx.Err() != nil || errors.Is(err, jobs.ErrLost) || apierr.IsNotFound(err) {
			return err
		}
		c.w.Logger.Warn("storing results of a batch failed; trying again", "batch", c.w.begin.id, "err", err.Error())
		select {
		case <-time.After(pause):
		case <-ctx.Done(): // a last attempt
		}
	}
}

// flush stores the results that are there. They are stored with the progress of the batch,
// or not at all.
func (c *collector) flush(ctx context.Context) error {
	c.flushed = time.Now()
	if len(c.lines) == 0 {
		return c.storeShare(ctx)
	}
	var o *store.Object
	err := c.persist(ctx, func(again bool) (err error) {
		if o == nil {
			if o, err = c.write(context.WithoutCancel(ctx)); err != nil {
				o = nil
				return err
			}
		} else if stored, err := c.w.isStored(ctx, o); stored || err != nil {
			return err
		}
		return c.store(ctx, o, again)
	})
	if err != nil {
		return err
	}
	w := c.w
	w.sealed = append(w.sealed, *o)
	for _, n := range c.lines {
		w.done.add(n)
	}
	c.output.Reset()
	c.failures.Reset()
	if c.output.Cap() > 4*chunkBytes { // of a long result
		c.output = bytes.Buffer{}
	}
	c.lines, c.succeeded, c.usage, c.repeated = c.lines[:0], 0, vendorbatch.Usage{}, false
	return nil
}

// storeShare stores what budgets keep for the batch, if lines were handed out since.
func (c *collector) storeShare(ctx context.Context) error {
	w := c.w
	if _, changed := w.share.change(w); !changed {
		return nil
	}
	return c.persist(ctx, func(bool) error { return w.change(ctx, func() {}, nil) })
}

// isStored reports whether an attempt to store a chunk succeeded without saying so, and
// then takes over the record of the batch that was stored with it.
func (w *work) isStored(ctx context.Context, o *store.Object) (bool, error) {
	ctx = context.WithoutCancel(ctx)
	_, err := w.DB.ObjectByID(ctx, o.ID)
	if apierr.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	now, err := w.DB.ObjectByID(ctx, w.object.ID)
	if err != nil {
		return false, err
	}
	d, err := detailsOf(&now)
	if err == nil {
		w.object, w.details = now, d
	}
	return err == nil, err
}

// store stores a chunk with the progress of the batch.
func (c *collector) store(ctx context.Context, o *store.Object, again bool) error {
	w := c.w
	counts, usage := w.Batch.RequestCounts, w.Batch.Usage
	err := w.change(ctx, func() {
		w.Batch.RequestCounts = counts
		w.Batch.RequestCounts.Completed += c.succeeded
		w.Batch.RequestCounts.Failed += int64(len(c.lines)) - c.succeeded
		sum := c.usage
		if usage != nil {
			addUsage(&sum, usage)
		}
		if sum.TotalTokens > 0 {
			w.Batch.Usage = &sum
		}
		total := int64(w.lines)
		w.job.ReportProgress(w.Batch.RequestCounts.Completed+w.Batch.RequestCounts.Failed, &total)
	}, func(ctx context.Context, tx *store.Tx) error { return tx.AddObject(ctx, *o) })
	if errors.Is(err, jobs.ErrLost) && !again { // else an attempt before may have stored it
		c.forget(ctx, o)
	}
	return err
}

// forget deletes the results of a chunk that was not stored. What remains is deleted with
// other content that has no record.
func (c *collector) forget(ctx context.Context, o *store.Object) {
	var x chunk
	if json.Unmarshal(o.Data, &x) != nil {
		return
	}
	for _, b := range [...]*kept.Blob{x.Output, x.Failures} {
		if b != nil {
			c.w.DeleteBlobs(ctx, []kept.Blob{*b})
		}
	}
}

// write writes the results as blobs, and returns the record of the chunk.
func (c *collector) write(ctx context.Context) (*store.Object, error) {
	w := c.w
	slices.Sort(c.lines)
	now := w.Now()
	o := &store.Object{
		ID: w.ObjectID("gw_chunk_"), Kind: store.ObjectChunk, Organisation: w.object.Organisation, Workspace: w.object.Workspace,
		KeyID: w.object.KeyID, Parent: w.object.ID, CreatedAt: now, UpdatedAt: now,
	}
	name := fmt.Sprintf("%s/%s/%s", o.Organisation, w.object.ID, o.ID)
	var x chunk
	x.Lines = spansOf(c.lines)
	for _, part := range []struct {
		buf  *bytes.Buffer
		blob **kept.Blob
		end  string
	}{{&c.output, &x.Output, ".out"}, {&c.failures, &x.Failures, ".err"}} {
		if part.buf.Len() == 0 {
			continue
		}
		size, err := w.Contents.Put(ctx, o.Organisation, name+part.end, bytes.NewReader(part.buf.Bytes()))
		if err != nil {
			return nil, kept.StoreFailed(err)
		}
		*part.blob = &kept.Blob{Name: name + part.end, Size: size}
	}
	data, err := json.Marshal(x)
	o.Data, o.Size = data, int64(c.output.Len()+c.failures.Len())
	return o, err
}

// resultFiles returns the records of the files of results; nil for one without lines.
func (w *work) resultFiles() (output, failures *store.Object, err error) {
	var outputs, errs []kept.Blob
	for i := range w.sealed {
		var c chunk
		if err := json.Unmarshal(w.sealed[i].Data, &c); err != nil {
			return nil, nil, err
		}
		if c.Output != nil {
			outputs = append(outputs, *c.Output)
		}
		if c.Failures != nil {
			errs = append(errs, *c.Failures)
		}
	}
	if output, err = w.resultFile(outputs, "output"); err != nil {
		return nil, nil, err
	}
	failures, err = w.resultFile(errs, "error")
	return output, failures, err
}

// resultFile returns the record of a file of results.
func (w *work) resultFile(blobs []kept.Blob, name string) (*store.Object, error) {
	if len(blobs) == 0 {
		return nil, nil
	}
	content := kept.Content{Blobs: blobs}
	now := w.Now()
	o := &store.Object{
		ID: w.ObjectID("gw_file_"), Kind: store.ObjectFile,
		Organisation: w.object.Organisation, Workspace: w.object.Workspace, KeyID: w.object.KeyID,
		State: files.StateProcessed, Label: "batch_output", Size: content.Size(), CreatedAt: now, UpdatedAt: now,
	}
	if life := w.OutputLife; life > 0 {
		o.ExpiresAt = w.object.CreatedAt.Add(time.Duration(life) * time.Second)
	} else if w.Limits.KeepBatchFiles > 0 {
		o.ExpiresAt = now.Add(w.Limits.KeepBatchFiles)
	}
	data, err := json.Marshal(files.Details{Filename: w.object.ID + "_" + name + ".jsonl", Bytes: content.Size(), Content: content})
	o.Data = data
	return o, err
}

// addUsage adds what lines used.
func addUsage(to, more *vendorbatch.Usage) {
	to.InputTokens += more.InputTokens
	to.InputTokensDetails.CachedTokens += more.InputTokensDetails.CachedTokens
	to.OutputTokens += more.OutputTokens
	to.OutputTokensDetails.ReasoningTokens += more.OutputTokensDetails.ReasoningTokens
	to.TotalTokens += more.TotalTokens
}

// BlobsOf returns the contents of a chunk of results.
func BlobsOf(o *store.Object) (blobs []kept.Blob, err error) {
	var c chunk
	err = json.Unmarshal(o.Data, &c)
	for _, b := range [...]*kept.Blob{c.Output, c.Failures} {
		if b != nil {
			blobs = append(blobs, *b)
		}
	}
	return blobs, err
}
