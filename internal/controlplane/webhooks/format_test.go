package webhooks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/controlplane/webhooks"
	"modelgate/internal/testing/waittest"
)

// createFormat makes an endpoint for finished batches with a format.
func (b *bench) createFormat(address, format string) (e endpoint) {
	b.t.Helper()
	b.Must("POST", "/webhook_endpoints", fmt.Sprintf(`{"name":"n","url":%q,"event_types":["batch.completed"],"format":%q}`, address, format), &e)
	return e
}

// A name of a workspace is text of users, who must not be able to call a channel.
func TestChannelsReceiveMessagesWithNames(t *testing.T) {
	for format, parts := range map[string][]string{
		"slack": {`"blocks"`, `"Batch completed"`, "Id: batch_1", "Team &lt;!here&gt; (", "Organisation: Default ("},
		"teams": {"AdaptiveCard", `"Batch completed"`, `"batch_1"`, "Team <!here> (", `"Default (`},
	} {
		b, r := newBench(t), newReceiver(t, nil)
		b.Exec(`UPDATE workspaces SET name = 'Team <!here>'`)
		e := b.createFormat(r.URL, format)
		b.emit()
		b.runner.RunDue(t.Context())
		got := r.got()
		if len(got) != 1 {
			t.Fatalf("%s: %d requests", format, len(got))
		}
		for _, part := range parts {
			if !strings.Contains(string(got[0].body), part) {
				t.Errorf("%s: %q is not in %s", format, part, got[0].body)
			}
		}
		if err := got[0].verify(e.Secret); err != nil || !json.Valid(got[0].body) || strings.Contains(string(got[0].body), `"object":"event"`) {
			t.Errorf("%s: %s, %v", format, got[0].body, err)
		}
		b.Must("POST", "/webhook_endpoints/"+e.ID+"/test", `{"event_type":"fine_tuning.job.failed"}`, nil)
		if got := r.got(); len(got) != 2 || !strings.Contains(string(got[1].body), "Fine-tuning job failed") {
			t.Errorf("%s: the sample is not sent as a message: %d", format, len(got))
		}
	}
}

func TestTheFormatOfAnEndpointCanBeChanged(t *testing.T) {
	b, r := newBench(t), newReceiver(t, nil)
	e := b.createFormat(r.URL, "slack")
	var read struct{ Format string }
	b.Must("GET", "/webhook_endpoints/"+e.ID, "", &read)
	if read.Format != "slack" {
		t.Errorf("the format is %q", read.Format)
	}
	b.emit()
	b.Must("PUT", "/webhook_endpoints/"+e.ID, `{"name":"m"}`, &read)
	if read.Format != "slack" {
		t.Errorf("after a change of the name, the format is %q", read.Format)
	}
	b.Must("PUT", "/webhook_endpoints/"+e.ID, `{"format":"event"}`, &read)
	b.runner.RunDue(t.Context())
	if got := r.got(); read.Format != "event" || len(got) != 1 || !strings.Contains(string(got[0].body), `"type":"batch.completed"`) {
		t.Errorf("the format is %q; %d requests", read.Format, len(got))
	}
	for _, a := range []struct{ method, path, body string }{
		{"POST", "/webhook_endpoints", `{"name":"n","url":"` + public + `","event_types":["batch.completed"],"format":"discord"}`},
		{"PUT", "/webhook_endpoints/" + e.ID, `{"format":"discord"}`}, {"PUT", "/webhook_endpoints/" + e.ID, `{"format":""}`},
	} {
		if res := b.Call(a.method, a.path, a.body); res.Status != http.StatusBadRequest || !strings.Contains(res.Body, "format") {
			t.Errorf("%s %s: %d %s", a.method, a.body, res.Status, res.Body)
		}
	}
}

// A receiver may say when it wants the event again, within bounds: not never, and not at once.
func TestRetryAfterDelaysTheNextAttempt(t *testing.T) {
	for name, tt := range map[string]struct {
		status  int
		header  string
		at, end time.Duration // of the next attempt
	}{
		"too many requests": {429, "120", 2 * time.Minute, 2 * time.Minute},
		"unavailable":       {503, "60", time.Minute, time.Minute},
		"sooner than usual": {429, "0", 4 * time.Second, 5 * time.Second},
		"a year":            {429, "31536000", 10 * time.Minute, 10 * time.Minute},
		"not a time":        {429, "soon", 4 * time.Second, 5 * time.Second},
		"negative":          {500, "-60", 4 * time.Second, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", tt.header)
				w.WriteHeader(tt.status)
			})
			e := b.createFormat(r.URL, "slack")
			b.emit()
			b.runner.RunDue(t.Context())
			d := b.deliveries(e.ID, "?state=pending")
			if len(d) != 1 {
				t.Fatalf("%+v", d)
			}
			if wait := d[0].Next.Sub(b.now()); wait < tt.at || wait > tt.end || d[0].Attempts != 1 || !strings.Contains(d[0].Error, fmt.Sprint(tt.status)) {
				t.Errorf("the next attempt is after %v, want %v to %v: %+v", wait, tt.at, tt.end, d[0])
			}
		})
	}
}

// patient is a client that waits as long as a receiver takes, on a machine however busy.
type patient struct{ webhooks.Client }

func (p patient) Do(req *http.Request, guarded bool) (*http.Response, error) {
	return p.Client.Do(req.WithContext(context.WithoutCancel(req.Context())), guarded)
}

// Of one event, each endpoint has a delivery of its own: those that hang or refuse do not delay
// the others.
func TestEndpointsThatMisbehaveDelayNoOther(t *testing.T) {
	b, quick := newBench(t), newReceiver(t, nil)
	b.client = patient{b.client}
	hangs, release := make(chan struct{}, 1), make(chan struct{})
	slow := newReceiver(t, func(http.ResponseWriter, *http.Request) {
		hangs <- struct{}{}
		<-release
	})
	end := sync.OnceFunc(func() { close(release) })
	t.Cleanup(end) // before the receiver waits for its requests
	busy := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	broken := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	e := b.createFormat(slow.URL, "slack")
	for _, r := range []*receiver{busy, broken, quick} {
		b.createFormat(r.URL, "teams")
	}
	b.emit()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	b.runner.Poll = time.Millisecond
	go func() { b.runner.Run(ctx); close(ended) }()
	waittest.Receive(t, hangs, "the event at the slow endpoint")
	waittest.Until(t, "the event at the quick endpoint", func() bool { return len(quick.got()) == 1 })
	waittest.Until(t, "refusals", func() bool { return len(busy.got()) == 1 && len(broken.got()) == 1 })
	if d := b.deliveries(e.ID, ""); len(d) != 1 || d[0].State != "pending" || d[0].Attempts != 0 {
		t.Errorf("while it hangs: %+v", d)
	}
	end()
	waittest.Until(t, "the end of the slow attempt", func() bool { return b.deliveries(e.ID, "")[0].State == "delivered" })
	stop()
	waittest.Receive(t, ended, "the end of the runner")
}
