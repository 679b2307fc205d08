package webhooks_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/egress"
	"modelgate/internal/controlplane/webhooks"
	"modelgate/internal/testing/waittest"
	"modelgate/internal/upstream"
)

func TestAnEventIsSentOnceAndVerified(t *testing.T) {
	b, r := newBench(t), newReceiver(t, nil)
	e := b.create(r.URL)
	b.emit()
	if n := b.runner.RunDue(t.Context()); n != 1 {
		t.Fatalf("%d jobs ran", n)
	}
	b.pass(time.Hour)
	b.runner.RunDue(t.Context())
	got, list := r.got(), b.deliveries(e.ID, "?state=delivered&type=batch.completed")
	if len(got) != 1 || len(list) != 1 {
		t.Fatalf("%d requests, %+v", len(got), list)
	}
	if err := got[0].verify(e.Secret); err != nil {
		t.Error(err)
	}
	d := list[0]
	if got[0].id() != d.ID || d.Attempts != 1 || d.Status == nil || *d.Status != 200 || d.Error != "" || !d.Next.IsZero() || b.counts["delivered"] != 1 {
		t.Errorf("%+v, %v", d, b.counts)
	}
	if text := string(got[0].body); !strings.Contains(text, `"type":"batch.completed"`) || !strings.Contains(text, `"data":{"id":"batch_1","organisation_id":"`) {
		t.Errorf("body %s", text)
	}
	var one delivery
	b.Must("GET", "/webhook_endpoints/"+e.ID+"/deliveries/"+d.ID, "", &one)
	if one.Payload.Type != "batch.completed" || !strings.HasPrefix(one.Payload.ID, "evt_") {
		t.Errorf("%+v", one)
	}
}

// impatient is a client that waits for a response until the receiver says that it hangs.
type impatient struct {
	webhooks.Client
	hangs chan struct{}
}

func (i impatient) Do(req *http.Request, guarded bool) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-i.hangs:
			cancel(context.DeadlineExceeded)
		case <-ended:
		}
	}()
	return i.Client.Do(req.WithContext(ctx), guarded)
}

func TestReceiversThatMisbehaveGetTheEventAgain(t *testing.T) {
	inside, hangs := newReceiver(t, nil), make(chan struct{})
	for name, tt := range map[string]struct {
		respond http.HandlerFunc
		status  int // 0 for none
		want    string
	}{
		"status 500": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "canary", 500) }, 500, "returned status 500"},
		"status 404": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "canary", 404) }, 404, "returned status 404"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, inside.URL+"/canary", http.StatusTemporaryRedirect)
		},
			307, "redirects are not followed"},
		"hangs": {func(_ http.ResponseWriter, r *http.Request) {
			hangs <- struct{}{}
			<-r.Context().Done()
		}, 0, "did not respond within 10s"},
		"closes early": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, "the connection ended early"},
		"not HTTP": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			conn.Write([]byte("canary\r\n"))
			conn.Close()
		}, 0, "not valid HTTP"},
		"huge error": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(503)
			for r.Context().Err() == nil {
				w.Write(make([]byte, 1<<16))
			}
		}, 503, "returned status 503"},
	} {
		t.Run(name, func(t *testing.T) {
			b, r := newBench(t), newReceiver(t, tt.respond)
			b.client = impatient{b.client, hangs}
			e := b.create(r.URL + "/canary?token=canary")
			b.emit()
			b.runner.RunDue(t.Context())
			d := b.deliveries(e.ID, "?state=pending")
			if len(d) != 1 || d[0].Attempts != 1 || !strings.Contains(d[0].Error, tt.want) || strings.Contains(d[0].Error, "canary") {
				t.Fatalf("%+v", d)
			}
			if d[0].Status == nil && tt.status != 0 || d[0].Status != nil && *d[0].Status != tt.status {
				t.Errorf("status %v, want %d", d[0].Status, tt.status)
			}
			if next := d[0].Next; !next.After(b.now()) || next.After(b.now().Add(5*time.Second)) {
				t.Errorf("the next attempt is at %v, %v", next, b.now())
			}
			b.pass(5 * time.Second)
			b.runner.RunDue(t.Context())
			got := r.got()
			if len(got) != 2 || got[0].id() != got[1].id() || string(got[0].body) != string(got[1].body) || b.counts["failed"] != 2 {
				t.Fatalf("%d requests, %v", len(got), b.counts)
			}
			if err := got[1].verify(e.Secret); err != nil {
				t.Error(err)
			}
		})
	}
	if got := inside.got(); len(got) > 0 {
		t.Errorf("a redirect was followed: %v", got)
	}
}

// TestAnEventIsTriedForADay counts the attempts until the last one, and retries the
// delivery.
func TestAnEventIsTriedForADay(t *testing.T) {
	b := newBench(t)
	works := false
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		if !works {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	e := b.create(r.URL)
	b.emit()
	began := b.now()
	var last time.Duration
	for len(b.deliveries(e.ID, "?state=pending")) == 1 {
		before := len(r.got())
		b.runner.RunDue(t.Context())
		if len(r.got()) > before {
			last = b.now().Sub(began)
		}
		b.pass(time.Minute)
		if b.now().Sub(began) > 48*time.Hour {
			t.Fatal("it is still tried after two days")
		}
	}
	d := b.deliveries(e.ID, "?state=failed")
	if len(r.got()) != 10 || last < 20*time.Hour || last > 25*time.Hour || len(d) != 1 || d[0].Attempts != 10 || d[0].Error != "the endpoint returned status 502" {
		t.Fatalf("%d attempts, the last after %v: %+v", len(r.got()), last, d)
	}
	works = true
	retry := "/webhook_endpoints/" + e.ID + "/deliveries/" + d[0].ID + "/retry"
	b.Must("POST", retry, "", nil)
	b.pass(b.Clock.Sub(b.now())) // routes see another clock
	b.runner.RunDue(t.Context())
	got, d := r.got(), b.deliveries(e.ID, "")
	if len(got) != 11 || got[10].id() != got[0].id() || d[0].State != "delivered" || d[0].Attempts != 11 || b.queued != 1 {
		t.Errorf("%d attempts, %d notifications, %+v", len(got), b.queued, d)
	}
	if a := b.Call("POST", retry, ""); a.Status != 409 {
		t.Errorf("a delivered one is retried: %d %s", a.Status, a.Body)
	}
}

func TestAnEndpointThatIsGoneIsDisabled(t *testing.T) {
	b := newBench(t)
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	e := b.create(r.URL)
	b.emit()
	b.runner.RunDue(t.Context())
	b.emit()
	b.pass(time.Hour)
	b.runner.RunDue(t.Context())
	b.Must("GET", "/webhook_endpoints/"+e.ID, "", &e)
	d := b.deliveries(e.ID, "")
	if len(r.got()) != 1 || e.Status != "disabled" || !strings.Contains(e.Reason, "410") || len(d) != 1 || d[0].State != "failed" || b.counts["gone"] != 1 {
		t.Fatalf("%d requests, %+v, %+v, %v", len(r.got()), e, d, b.counts)
	}
	retry := "/webhook_endpoints/" + e.ID + "/deliveries/" + d[0].ID + "/retry"
	if a := b.Call("POST", retry, ""); a.Status != 409 || !strings.Contains(a.Body, "disabled") {
		t.Errorf("retry: %d %s", a.Status, a.Body)
	}
	var enabled endpoint
	b.Must("PUT", "/webhook_endpoints/"+e.ID, `{"status":"enabled"}`, &enabled)
	b.Must("POST", retry, "", nil)
	b.runner.RunDue(t.Context())
	if len(r.got()) != 2 || enabled.Reason != "" {
		t.Errorf("%d requests after it was enabled, %+v", len(r.got()), enabled)
	}
}

func TestDeliveriesToADisabledEndpointFail(t *testing.T) {
	b, r := newBench(t), newReceiver(t, nil)
	e := b.create(r.URL)
	b.emit()
	b.Must("PUT", "/webhook_endpoints/"+e.ID, `{"status":"disabled"}`, nil)
	b.runner.RunDue(t.Context())
	d := b.deliveries(e.ID, "?state=failed")
	if len(r.got()) != 0 || len(d) != 1 || d[0].Attempts != 0 || !strings.Contains(d[0].Error, "disabled") {
		t.Errorf("%d requests, %+v", len(r.got()), d)
	}
}

func TestBothSecretsSignDuringARotation(t *testing.T) {
	b, r := newBench(t), newReceiver(t, nil)
	e := b.create(r.URL)
	rotate := func(body string) (secret string) {
		var rotated endpoint
		b.Must("POST", "/webhook_endpoints/"+e.ID+"/rotate_secret", body, &rotated)
		return rotated.Secret
	}
	send := func() message {
		b.emit()
		b.runner.RunDue(t.Context())
		all := r.got()
		return all[len(all)-1]
	}
	check := func(when string, m message, want map[string]bool) {
		t.Helper()
		for secret, ok := range want {
			if err := m.verify(secret); (err == nil) != ok {
				t.Errorf("%s: %v, want verified %t", when, err, ok)
			}
		}
		if n := len(strings.Fields(m.head.Get("Webhook-Signature"))); len(want) == 2 && want[e.Secret] != (n == 2) {
			t.Errorf("%s: %d signatures", when, n)
		}
	}
	second := rotate(`{"keep_old_secret_active_for_24_hours":true}`)
	check("during the rotation", send(), map[string]bool{e.Secret: true, second: true})
	b.pass(24*time.Hour + time.Second)
	check("after a day", send(), map[string]bool{e.Secret: false, second: true})
	third := rotate("")
	check("without a transition", send(), map[string]bool{second: false, third: true})
}

func TestEventsGoOnlyWhereTheyMay(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(b *bench)
		want   string
	}{
		"untrusted host without TLS": {func(b *bench) { b.client = upstream.New(upstream.Options{}) }, "https"},
		"private address":            {func(b *bench) { b.client = trusting{upstream.New(upstream.Options{})} }, "the host is not allowed"},
		"egress policy": {func(b *bench) {
			policy := egress.Policy{CustomHosts: egress.Hosts{"hooks.example.com"}}
			b.egress = &egress.Policies{Workspace: policy.Strict()}
		}, "egress policy"},
	} {
		t.Run(name, func(t *testing.T) {
			b, r := newBench(t), newReceiver(t, nil)
			e := b.create(r.URL)
			b.emit()
			tt.change(b)
			b.runner.RunDue(t.Context())
			d := b.deliveries(e.ID, "")
			if len(r.got()) != 0 || len(d) != 1 || d[0].State != "pending" || !strings.Contains(d[0].Error, tt.want) {
				t.Errorf("%d requests, %+v", len(r.got()), d)
			}
		})
	}
}

// trusting allows every host to be called without TLS.
type trusting struct{ *upstream.Client }

func (trusting) IsTrusted(*url.URL) bool { return true }

// TestASlowEndpointDelaysNoOther has more deliveries to an endpoint that hangs than a node
// sends at a time.
func TestASlowEndpointDelaysNoOther(t *testing.T) {
	b, quick := newBench(t), newReceiver(t, nil)
	entered, release := make(chan struct{}, 1000), make(chan struct{})
	slow := newReceiver(t, func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-release
	})
	e := b.create(slow.URL)
	for range 100 {
		b.emit()
	}
	b.create(quick.URL)
	b.emit()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	b.runner.Poll = time.Millisecond
	go func() { b.runner.Run(ctx); close(ended) }()
	waittest.Until(t, "the event at the quick endpoint", func() bool { return len(quick.got()) == 1 })
	waittest.Until(t, "requests to the slow endpoint", func() bool { return len(entered) >= 4 })
	if n := len(entered); n != 4 {
		t.Errorf("%d requests to the slow endpoint at a time, want 4", n)
	}
	close(release)
	waittest.Until(t, "the events at the slow endpoint", func() bool {
		b.pass(time.Second)
		return len(b.deliveries(e.ID, "?state=delivered&page_size=200")) == 101
	})
	stop()
	waittest.Receive(t, ended, "the end of the runner")
	if got := slow.got(); len(got) != 101 {
		t.Errorf("%d requests for 101 events", len(got))
	}
}
