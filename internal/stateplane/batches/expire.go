package batches

import (
	"context"
	"fmt"
	"io"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
)

// expireUnsent writes a result for each line that was not sent in time.
func (w *work) expireUnsent(ctx context.Context, file *store.Object) error {
	in, err := w.Open(ctx, file)
	if err != nil {
		return err
	}
	defer in.Close()
	c := newCollector(w)
	reader := newLineReader(in)
	for {
		text, number, err := reader.next()
		if err == io.EOF {
			return c.flush(ctx)
		}
		if err != nil {
			return kept.StoreFailed(err)
		}
		if w.done.has(number) || isEmpty(text) {
			continue
		}
		l, _ := parseLine(text, number, w.Batch.Endpoint)
		e := apierr.New(apierr.Timeout, "the batch expired before this request was sent").WithCode("batch_expired")
		if err := c.add(ctx, outcome{line: number, result: failedLine(w.resultID(number), l.CustomID, e)}); err != nil {
			return err
		}
	}
}

// resultID returns the id of the result of a line.
func (w *work) resultID(number int) string {
	return fmt.Sprintf("batch_req_%s_%d", w.begin.id[len(batchPrefix):], number)
}
