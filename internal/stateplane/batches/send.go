package batches

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/identity/access"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
)

// send sends the lines that have no result, several at a time, and stores the results as
// they come. When working ends, lines in flight are abandoned; ctx is that of the job.
func (w *work) send(ctx, working context.Context, file *store.Object) error {
	in, err := w.Open(context.WithoutCancel(ctx), file)
	if err != nil {
		return err
	}
	defer in.Close()
	// Workers go on while results are stored.
	lines, results := make(chan line), make(chan outcome, w.Limits.AtOnce)
	var workers sync.WaitGroup
	for range w.Limits.AtOnce {
		workers.Go(func() {
			for l := range lines {
				if x, ok := w.sendLine(working, &l); ok {
					results <- x
				}
			}
		})
	}
	d := &dispatcher{
		endpoint: w.Batch.Endpoint, total: w.lines, announced: w.Begun, done: lineSet{slices.Clone(w.done.bits)},
		reader: newLineReader(in), lines: lines, window: 2 * w.Limits.AtOnce,
		more: make(chan int), stored: make(chan bool, 1), halted: make(chan struct{}),
	}
	failed := make(chan error, 1)
	go func() {
		failed <- d.run(working)
		close(lines)
		workers.Wait()
		close(results)
	}()
	return errors.Join(w.collect(ctx, d, results), <-failed)
}

// collect stores results until all have come, and lets the dispatcher go on.
func (w *work) collect(ctx context.Context, d *dispatcher, results <-chan outcome) (err error) {
	c := newCollector(w)
	tick := time.NewTicker(repeatTime)
	defer tick.Stop()
	for {
		select {
		case x, ok := <-results:
			if !ok {
				return c.close(ctx, d, err)
			}
			if err == nil {
				err = c.add(ctx, x)
			}
		case begun := <-d.more:
			if err == nil {
				err = c.announce(ctx, begun, nil)
			}
			d.stored <- err == nil
		case m := <-w.marks:
			err = c.mark(ctx, m, err)
		case <-tick.C:
			if err == nil && time.Since(c.flushed) >= c.pace() {
				err = c.flush(ctx)
			}
		}
		if err != nil {
			d.stop()
		}
	}
}

// dispatcher reads lines and hands them out. Before lines are sent, it is stored that they
// may have been.
type dispatcher struct {
	endpoint  string
	total     int     // number of lines
	announced int     // the last line that may be sent
	done      lineSet // lines that had a result before
	reader    *lineReader
	lines     chan<- line
	last      int       // the last line that was handed out; read after the end
	window    int       // new lines that are announced at a time
	more      chan int  // asks for announcing lines up to this one
	stored    chan bool // receives the answer
	halted    chan struct{}
	halt      sync.Once
}

// stop ends the dispatcher, because results can no longer be stored.
func (d *dispatcher) stop() { d.halt.Do(func() { close(d.halted) }) }

// run hands out the lines that have no result until ctx ends.
func (d *dispatcher) run(ctx context.Context) error {
	began := time.Now()
	for {
		text, number, err := d.reader.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return kept.StoreFailed(err)
		}
		if isEmpty(text) || d.done.has(number) {
			continue
		}
		l, fault := parseLine(bytes.Clone(text), number, d.endpoint)
		if fault != nil {
			return apierr.New(apierr.Conflict, "line %d has changed since it was checked: %s", number, fault.Message)
		}
		if ctx.Err() != nil {
			return nil
		}
		if d.announce(number, time.Since(began)) {
			select {
			case d.more <- d.announced:
				if !<-d.stored {
					return nil
				}
			case <-d.halted:
				return nil
			}
			began = time.Now()
		}
		select {
		case d.lines <- l:
			d.last = number
		case <-ctx.Done():
			return nil
		case <-d.halted:
			return nil
		}
	}
}

// announce reports whether lines must be announced before a line is sent, and up to which
// one. It is given how long the lines took that were announced before.
func (d *dispatcher) announce(number int, took time.Duration) bool {
	if number <= d.announced {
		return false
	}
	if took < chunkTime/2 { // lines are short: announce more at a time
		d.window = min(2*d.window, 1<<12)
	}
	d.announced = min(number+d.window, max(d.total, number))
	return true
}

// Limits of repeating a line.
const (
	lineRetries = 3
	leastPause  = 500 * time.Millisecond
	mostPause   = 30 * time.Second
)

// sendLine sends a line, again if that may help, and returns its result. It reports false if
// the work was stopped before there was one.
func (w *work) sendLine(ctx context.Context, l *line) (x outcome, ok bool) {
	x.line = l.Number
	w.share.hand(w, l.Number)
	if _, twice := w.twice[l.Number]; twice {
		e := apierr.New(apierr.Internal, "this request was interrupted twice and is not sent again; it may have been answered").WithCode("batch_line_interrupted")
		x.result = failedLine(w.resultID(l.Number), l.CustomID, e)
		x.result.Repeated = true
		return x, true
	}
	_, waited := w.waiting[l.Number]
	_, repeated := w.repeats[l.Number]
	marked := !waited && !repeated // others were announced
	retries := 0
	for wait := leastPause; ; wait = min(2*wait, mostPause) {
		if ctx.Err() != nil {
			w.mark(l, &marked, false)
			return x, false
		}
		if !w.mark(l, &marked, true) {
			return x, false
		}
		res, call, err := w.ask(ctx, l)
		if err != nil {
			x.result = failedLine(w.resultID(l.Number), l.CustomID, apierr.From(err))
			return x, true
		}
		abandoned := ctx.Err() != nil && (!res.OK() || call.Result.Broken)
		pause, again := w.pause(res, call, &retries, wait)
		if !call.Result.Sent && (abandoned || again) && !w.mark(l, &marked, false) || abandoned {
			return x, false
		}
		if !again {
			return w.outcome(l, res, call), true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done(): // it was answered, or not sent
		}
	}
}

// ask sends the request of a line for the key of the batch.
func (w *work) ask(ctx context.Context, l *line) (*kept.Capture, *dataplane.Call, error) {
	hash, err := access.ParseHash(w.begin.Key)
	if err != nil {
		return nil, nil, err
	}
	id, err := w.KeyOwner(hash, w.Now())
	if err != nil {
		return nil, nil, err
	}
	r, err := lineRequest(ctx, l, w.begin.Headers, w.begin.TraceID)
	if err != nil {
		return nil, nil, err
	}
	res, call := new(kept.Capture), &dataplane.Call{Identity: id}
	call.Kept = w.share.list(w)
	w.Call(res, r, call)
	return res, call, nil
}

// pause reports whether a line is sent again, and after which time. A limit of the gateway
// delays a line until the batch expires; other failures are repeated three times, unless a
// config says what is retried.
func (w *work) pause(res *kept.Capture, call *dataplane.Call, retries *int, wait time.Duration) (time.Duration, bool) {
	asked := wait
	if n, err := strconv.Atoi(res.Header().Get("Retry-After")); err == nil && n >= 0 {
		asked = min(time.Duration(n)*time.Second, mostPause)
	}
	asked += rand.N(wait/2 + 1)
	switch {
	case !call.Result.Sent && (res.Status == http.StatusTooManyRequests || res.Status == http.StatusServiceUnavailable):
		return asked, true
	case w.begin.Headers[api.HeaderConfig] != "" || *retries >= lineRetries:
		return 0, false
	case call.Result.Broken, res.Status == http.StatusTooManyRequests, res.Status == http.StatusRequestTimeout, res.Status >= 500 &&
		res.Status != http.StatusNotImplemented:
		*retries++
		return asked, true
	}
	return 0, false
}

// outcome returns the result of a line that was answered.
func (w *work) outcome(l *line, res *kept.Capture, call *dataplane.Call) outcome {
	x := outcome{line: l.Number, ok: res.OK() && !call.Result.Broken}
	x.result = result{ID: w.resultID(l.Number), CustomID: l.CustomID}
	_, x.result.Repeated = w.repeats[l.Number]
	x.usage.Add(call.Result.Usage)
	body := json.RawMessage(res.Body)
	if !json.Valid(body) {
		body, _ = json.Marshal(string(res.Body)) // a string is always encoded
	}
	if call.Result.Broken || res.TooLong {
		x.result.Error = &errorOfLine{"upstream_incomplete", "the provider's response ended early or was too long"}
		return x
	}
	x.result.Response = &response{res.Status, call.Result.RequestID, body}
	if !x.ok {
		x.result.Error = errorIn(body, call.Result.ErrorCode)
	}
	return x
}

// errorIn returns the error in the body of a response.
func errorIn(body json.RawMessage, code string) *errorOfLine {
	var e struct {
		Error struct {
			Code    any    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	json.Unmarshal(body, &e) // what it does not have stays empty
	if text, ok := e.Error.Code.(string); ok && text != "" {
		code = text
	}
	return &errorOfLine{code, e.Error.Message}
}
