package attempt

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/framing"
	"modelgate/internal/provider"
)

// The interval of polling a job grows from the first to the second value.
const (
	pollMin = 250 * time.Millisecond
	pollMax = 4 * time.Second
)

// cancelTime is the timeout of the request that cancels an abandoned job.
const cancelTime = 5 * time.Second

// preferWait asks a provider of jobs to respond when the job has ended, if that
// is soon (RFC 7240).
var preferWait = []string{"wait=30"}

// jobber returns the reader of jobs, nil if the target responds directly.
func (p *plan) jobber() dialect.JobReader {
	if !p.wire.translates() {
		return nil
	}
	j, _ := p.handler.Engine.Codecs[p.record.Target.Dialect].(dialect.JobReader)
	return j
}

// job is a job that is being polled.
type job struct {
	attempt *attempt
	read    dialect.JobReader
	out     *exchange.Response // the latest response about the job
	now     dialect.Job

	wantsStream bool // the client wants a stream
}

// followJob turns a job into its response: the provider's events if the client
// wants a stream, otherwise the result after polling. A job that no client
// waits for any more is cancelled.
func (a *attempt) followJob(out *exchange.Response, read dialect.JobReader, body io.Reader) (_ *exchange.Response, err error) {
	j := &job{attempt: a, read: read, out: out, wantsStream: a.plan.request.Stream}
	defer func() {
		if err != nil {
			out.Hold(nil)
		}
	}()
	if err := j.take(body); err != nil {
		return nil, err
	}
	if address := j.events(); address != nil && !j.now.Done {
		return j.streamed(out, address)
	}
	for wait := pollMin; !j.now.Done; wait = min(2*wait, pollMax) {
		if err := j.poll(wait); err != nil {
			j.cancel()
			return nil, err
		}
	}
	if j.now.Failed != "" {
		return nil, apierr.New(apierr.UpstreamFailed, "%s: the prediction %s", a.plan.record.Target.Label(),
			j.now.Failed).WithCode("prediction_failed")
	}
	if err := a.plan.wire.translator.response(a, out, out.Held.Bytes()); err != nil {
		return nil, err
	}
	return out, nil
}

// take reads a description of the job, within the limit of body memory.
func (j *job) take(body io.Reader) error {
	buf, err := j.attempt.readTranslated(body, -1, j.wantsStream)
	if err != nil {
		return err
	}
	j.out.Hold(buf)
	now, err := j.read.ReadJob(buf.Bytes())
	if err != nil { // keeps the previous state, so that the job can be cancelled
		return j.attempt.unreadable("a body that is not a job").WithCause(err)
	}
	j.now = now
	return nil
}

// poll waits and fetches the state of the job.
func (j *job) poll(wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	ctx := j.attempt.plan.timers.context()
	req, err := j.request(ctx, http.MethodGet, j.now.Path)
	if err != nil {
		return err
	}
	select {
	case <-timer.C:
	case <-ctx.Done():
		return j.attempt.failure(req, context.Cause(ctx))
	}
	res, err := j.attempt.plan.handler.Engine.Client.Do(req, j.attempt.plan.record.Target.Guarded)
	if err != nil {
		return j.attempt.failure(req, err)
	}
	defer res.Body.Close()
	j.attempt.plan.timers.eventReceived() // it is in progress
	switch {
	case res.StatusCode == http.StatusTooManyRequests, res.StatusCode >= 500:
		return nil // a later poll may succeed
	case res.StatusCode != http.StatusOK:
		return j.attempt.unreadable("status " + res.Status + " when asked for the prediction")
	}
	return j.take(&upstreamBody{attempt: j.attempt, res: res, src: res.Body})
}

// request returns a request below the target's address, with its credential.
func (j *job) request(ctx context.Context, method, path string) (*http.Request, error) {
	return provider.NewRequest(ctx, j.attempt.plan.record.Target, &provider.Call{
		Operation: api.Proxy, Method: method, Path: path,
		Header: http.Header{"User-Agent": {j.attempt.plan.handler.Engine.UserAgent}, "Accept": {"application/json"}},
	})
}

// cancel cancels the job even if the request has ended. The response is
// ignored.
func (j *job) cancel() {
	if j.now.Done {
		return
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(j.attempt.plan.timers.context()), cancelTime)
	defer done()
	req, err := j.request(ctx, http.MethodPost, j.now.Cancel)
	if err != nil {
		return
	}
	if res, err := j.attempt.plan.handler.Engine.Client.Do(req, j.attempt.plan.record.Target.Guarded); err == nil {
		res.Body.Close()
	}
}

// events returns the address of the job's events, nil if the client does not
// want a stream or the address is not on the provider's host.
func (j *job) events() *url.URL {
	u, err := url.Parse(j.now.Stream)
	if err != nil || !j.attempt.plan.request.Stream || !j.attempt.plan.wire.translatesConversation() || u.Host == "" {
		return nil
	}
	base := j.attempt.plan.record.Target.Base
	if u.Scheme == base.Scheme && u.Host == base.Host {
		return u
	}
	_, domain, _ := strings.Cut(base.Host, ".")
	if j.attempt.plan.record.Target.Guarded || u.Scheme != "https" || u.User != nil || !strings.HasSuffix(u.Host, "."+domain) {
		return nil
	}
	return u
}

// streamed begins the response from the job's events. No credential is sent:
// the address itself is secret.
func (j *job) streamed(out *exchange.Response, address *url.URL) (*exchange.Response, error) {
	req := (&http.Request{Method: http.MethodGet, URL: address, Host: address.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"User-Agent": {j.attempt.plan.handler.Engine.UserAgent}, "Accept": {framing.MediaEvents},
			"Cache-Control":   {"no-store"},
			"Accept-Encoding": {"identity"}},
	}).WithContext(j.attempt.plan.timers.context())
	res, err := j.attempt.plan.handler.Engine.Client.Do(req, j.attempt.plan.record.Target.Guarded)
	if err == nil && (res.StatusCode != http.StatusOK || framing.MediaType(res.Header.Get("Content-Type")) != framing.MediaEvents) {
		res.Body.Close()
		err = j.attempt.unreadable("status " + res.Status + " when asked for the events of the prediction")
	}
	if err != nil {
		j.cancel()
		return nil, j.attempt.failure(req, err)
	}
	out.Raw.Body.Close()
	out.Raw, out.Header = res, res.Header
	m := j.attempt.streamMemory(res.Body)
	m.Reader = &jobEvents{Reader: sse.NewReader(m, j.attempt.plan.handler.Engine.Bounds.MaxEvent), job: j}
	streamed, err := j.attempt.stream(out, m)
	if err != nil {
		res.Body.Close()
		j.cancel()
		return nil, err
	}
	streamed.After = append(streamed.After, j.cancel)
	return streamed, nil
}

// jobEvents reads the events of a job. The last event gets the provider's final
// description of the job, which has the usage.
type jobEvents struct {
	*sse.Reader
	job *job
}

func (e *jobEvents) Next() (sse.Event, error) {
	event, err := e.Reader.Next()
	if err != nil || string(event.Type) != "done" {
		return event, err
	}
	e.job.now.Done = true
	if v, err := jsonedit.ParseValue(event.Data); err == nil {
		if _, told := v.Get("reason"); told {
			return event, nil
		}
	}
	if e.job.poll(0) == nil && e.job.now.Done {
		event.Data = e.job.out.Held.Bytes()
	}
	e.job.now.Done = true
	return event, nil
}
