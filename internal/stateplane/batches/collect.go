package batches

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"modelgate/internal/jobs"
	"modelgate/internal/stateplane/files"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendorbatch"
	"modelgate/internal/store"
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
)

// collector gathers results and stores them in chunks. It is used by one goroutine.
type collector struct {
	w                *work
	output, failures bytes.Buffer
	lines            []int
	succeeded        int64
	usage            vendorbatch.Usage
}

func newCollector(w *work) *collector { return &collector{w: w} }

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
	c.lines = append(c.lines, x.line)
	addUsage(&c.usage, &x.usage)
	if c.output.Len()+c.failures.Len() < chunkBytes {
		return nil
	}
	return c.flush(ctx, 0)
}

// flush stores what is there, and that lines up to begun may be sent; 0 leaves that as it
// is. Results are stored with the progress of the batch, or not at all.
func (c *collector) flush(ctx context.Context, begun int) error {
	w := c.w
	if len(c.lines) == 0 && begun <= w.Begun {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	var o *store.Object
	if len(c.lines) > 0 {
		var err error
		if o, err = c.write(ctx); err != nil {
			return err
		}
	}
	counts, usage := w.Batch.RequestCounts, w.Batch.Usage
	err := w.change(ctx, func() {
		w.Begun = max(w.Begun, begun)
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
	}, func(tx *store.Tx) error {
		if o == nil {
			return nil
		}
		return tx.AddObject(ctx, *o)
	})
	if err != nil {
		if o != nil && errors.Is(err, jobs.ErrLost) {
			w.DeleteContent(ctx, o)
		}
		return err
	}
	if o != nil {
		w.sealed = append(w.sealed, *o)
	}
	for _, n := range c.lines {
		w.done.add(n)
	}
	c.output.Reset()
	c.failures.Reset()
	c.lines, c.succeeded, c.usage = c.lines[:0], 0, vendorbatch.Usage{}
	return nil
}

// write writes the results as blobs, and returns the record of the chunk.
func (c *collector) write(ctx context.Context) (*store.Object, error) {
	w := c.w
	w.seq++
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
		ID: w.ObjectID("gw_file_"), Kind: store.ObjectFile, Organisation: w.object.Organisation, Workspace: w.object.Workspace, KeyID: w.object.KeyID,
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
