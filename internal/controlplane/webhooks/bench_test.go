package webhooks_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"modelgate/internal/base/egress"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/webhooks"
	"modelgate/internal/controlplane/workspaces"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
	"modelgate/internal/testing/routetest"
	"modelgate/internal/upstream"
)

// bench has the routes of webhooks, and a node that sends.
type bench struct {
	*routetest.Bench
	*routetest.Caller
	t      *testing.T
	sender *webhooks.Sender
	runner *jobs.Runner

	mu     sync.Mutex
	passed time.Duration  // guarded by mu
	counts map[string]int // attempts by outcome; guarded by mu

	client  webhooks.Client  // that sends; trusts this host
	egress  *egress.Policies // of all workspaces
	queued  int              // calls of Routes.Queued
	emitted int              // events emitted by emit
}

func newBench(t *testing.T) *bench {
	t.Helper()
	client := upstream.New(upstream.Options{TrustLoopback: true})
	t.Cleanup(client.Close)
	b := &bench{t: t, client: client, counts: make(map[string]int)}
	b.sender = webhooks.New(webhooks.Options{Client: b, Secrets: b, Now: b.now, Count: b.count,
		Egress: func(string, string) *egress.Policies { return b.egress }})
	b.Bench = routetest.New(t, workspaces.Add, webhooks.Routes{Sender: b.sender, Queued: func() { b.queued++ }}.Add)
	b.API.CheckHost = client.CheckHost
	b.sender.DB = b.DB
	b.Caller = b.Root()
	b.runner = b.node("a")
	return b
}

func (b *bench) node(name string) *jobs.Runner {
	return jobs.New(jobs.Options{DB: b.DB, Node: name, Kinds: []jobs.Kind{b.sender.Kind()}, Grace: time.Millisecond, Now: b.now})
}

func (b *bench) now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Clock.Add(b.passed)
}

func (b *bench) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.passed += d
}

func (b *bench) count(outcome string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts[outcome]++
}

// The bench is the sender's client and sealer, which tests replace and the API has later.
var (
	_ webhooks.Client = (*bench)(nil)
	_ route.Sealer    = (*bench)(nil)
)

func (b *bench) Do(req *http.Request, guarded bool) (*http.Response, error) {
	return b.client.Do(req, guarded)
}
func (b *bench) IsTrusted(u *url.URL) bool { return b.client.IsTrusted(u) }

func (b *bench) Seal(ctx context.Context, organisation string, s secret.String) (string, error) {
	return b.Secrets.Seal(ctx, organisation, s)
}

func (b *bench) Open(ctx context.Context, organisation, sealed string) (secret.String, error) {
	return b.Secrets.Open(ctx, organisation, sealed)
}

// endpoint is an endpoint in a response.
type endpoint struct {
	ID     string
	Secret string `json:"signing_secret"`
	Status string
	Reason string `json:"disabled_reason"`
}

// create makes an endpoint for finished batches.
func (b *bench) create(address string) endpoint {
	b.t.Helper()
	var e endpoint
	b.Must("POST", "/webhook_endpoints", fmt.Sprintf(`{"name":"n","url":%q,"event_types":["batch.completed"]}`, address), &e)
	return e
}

// addWorkspace adds another workspace and returns its id.
func (b *bench) addWorkspace() string {
	b.t.Helper()
	var w struct{ ID string }
	b.Must("POST", "/admin/workspaces", `{"name":"Other"}`, &w)
	return w.ID
}

// emit emits the event that another batch is complete.
func (b *bench) emit() {
	b.t.Helper()
	b.emitted++
	e := store.Event{
		Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Type: "batch.completed",
		Object: fmt.Sprintf("batch_%d", b.emitted), Time: b.now(),
	}
	if err := b.DB.Update(b.t.Context(), nil, func(tx *store.Tx) error { return tx.EmitEvent(b.t.Context(), e) }); err != nil {
		b.t.Fatal(err)
	}
}

// delivery is a delivery in a response.
type delivery struct {
	ID, State string
	Attempts  int
	Status    *int      `json:"last_status_code"`
	Error     string    `json:"last_error"`
	Next      time.Time `json:"next_try_at"`
	Payload   struct{ ID, Type string }
}

// deliveries returns the deliveries to an endpoint, newest first.
func (b *bench) deliveries(endpoint, query string) []delivery {
	b.t.Helper()
	var list struct{ Data []delivery }
	b.Must("GET", "/webhook_endpoints/"+endpoint+"/deliveries"+query, "", &list)
	return list.Data
}

// message is a request that a receiver got.
type message struct {
	head http.Header
	body []byte
}

func (m *message) id() string { return m.head.Get("Webhook-Id") }

// verify returns an error unless the message is signed with a secret. The reference
// library compares its time with the present, so the bench must not be far from it.
func (m *message) verify(secret string) error {
	w, err := standard.NewWebhook(secret)
	if err != nil {
		return err
	}
	return w.VerifyIgnoringTimestamp(m.body, m.head)
}

// receiver keeps the messages that it got.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	messages []message // guarded by mu
}

// newReceiver starts a receiver that responds as a function does after each message; nil is
// with status 200.
func newReceiver(t *testing.T, respond http.HandlerFunc) *receiver {
	t.Helper()
	r := new(receiver)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.messages = append(r.messages, message{req.Header, body})
		r.mu.Unlock()
		if respond != nil {
			respond(w, req)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) got() []message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]message{}, r.messages...)
}

// box seals with a key of its own.
type box struct{ *secret.Box }

func sealer(t *testing.T) box {
	t.Helper()
	b, err := secret.NewBox(secret.New(masterKey))
	if err != nil {
		t.Fatal(err)
	}
	return box{b}
}

func (b box) Seal(_ context.Context, _ string, s secret.String) (string, error) {
	return b.Box.Seal(s), nil
}

func (b box) Open(_ context.Context, _, sealed string) (secret.String, error) {
	return b.Box.Open(sealed)
}
