package batches

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/api"
	"modelgate/internal/dataplane"
	"modelgate/internal/model/catalog"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/stateplane/vendorbatch"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// hangingProviders are providers of OpenAI's protocol whose batches have ended. Downloads
// from some of them begin, and then hang or are slow.
type hangingProviders struct {
	hanging atomic.Int64 // downloads that hang
	ended   atomic.Int64 // downloads that hung and were ended
	healed  atomic.Bool  // nothing hangs any more
}

// slowPace is a quarter of the time between two lines of a slow download.
const slowPace = 50 * time.Millisecond

// call implements the data plane.
func (p *hangingProviders) call(w http.ResponseWriter, r *http.Request, c *dataplane.Call) {
	slug := r.Header.Get(api.HeaderProvider)
	if !strings.HasSuffix(r.URL.Path, "/content") {
		fmt.Fprint(w, `{"id":"b","object":"batch","status":"completed","output_file_id":"out","request_counts":{"total":4,"completed":4}}`)
		return
	}
	for i := range 4 {
		fmt.Fprintf(w, `{"id":"r%d","custom_id":"c%d","response":{"status_code":200,"body":{"model":"m","usage":{"prompt_tokens":1,"completion_tokens":1}}}}`+"\n", i, i)
		switch {
		case strings.HasPrefix(slug, "@hangs") && !p.healed.Load():
			p.hanging.Add(1)
			<-r.Context().Done()
			p.hanging.Add(-1)
			p.ended.Add(1)
			c.Result.Broken = true
			return
		case slug == "@slow":
			for range 4 {
				<-time.After(slowPace)
			}
		}
	}
}

// follows adds a batch of a provider, and the job that follows it.
func (n *node) follows(t testing.TB, slug string) string {
	t.Helper()
	id := n.deps.ObjectID(batchPrefix)
	o := store.Object{ID: id, Kind: store.ObjectBatch, Organisation: "o", Workspace: "w", Provider: "@" + slug, ProviderID: "b-" + id, State: string(vendorbatch.InProgress),
		CreatedAt: n.deps.Now(), UpdatedAt: n.deps.Now()}
	d := details{Batch: vendorbatch.Batch{Endpoint: "/v1/chat/completions"}, InputIsTheirs: true}
	if err := d.keep(&o); err != nil {
		t.Fatal(err)
	}
	err := n.deps.DB.Transact(t.Context(), func(tx *store.Tx) error {
		if err := tx.AddObject(t.Context(), o); err != nil {
			return err
		}
		return tx.AddJob(t.Context(), jobOf(n.deps, &o, store.JobBatchPoll, o.CreatedAt))
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// newFollower returns a node that follows batches of any provider.
func newFollower(t testing.TB, p *hangingProviders, stall time.Duration) *node {
	t.Helper()
	n := newNode(storetest.Open(t, sqlite(t)), t.TempDir(), 1, p.call)
	spec, _ := table.Lookup("openai")
	n.deps.Managed = func(_, slug string) (*provider.Target, string, bool) {
		return &provider.Target{Spec: spec, Slug: slug}, "", true
	}
	n.deps.Prices = func() *catalog.PriceBook { return nil }
	n.deps.Record = func(context.Context, *reqlog.Entry) {}
	n.deps.Spent = func(context.Context, map[store.BudgetRef]reqlog.Spend) {}
	n.runner.stall = stall
	return n
}

// follow runs the jobs of a node until the test ends; a lease of 0 is the kind's.
func (n *node) follow(t testing.TB, lease time.Duration) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.jobs(lease).Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
}

// TestAProviderThatHangsDelaysNoOther has more batches at providers that hang than they have
// places, then one elsewhere.
func TestAProviderThatHangsDelaysNoOther(t *testing.T) {
	p := new(hangingProviders)
	n := newFollower(t, p, time.Hour)
	for i := range 24 {
		n.follows(t, fmt.Sprint("hangs", i/12))
	}
	n.follow(t, 0)
	waittest.Until(t, "hanging downloads", func() bool { return p.hanging.Load() == 2*pollsOfProvider })
	id := n.follows(t, "quick")
	waittest.Until(t, "the end of the other batch", func() bool { return n.hasEnded(t, id) })
	if got := p.hanging.Load(); got != 2*pollsOfProvider {
		t.Errorf("%d downloads hang, want %d", got, 2*pollsOfProvider)
	}
}

// TestADownloadThatStallsEndsAndASlowOneGoesOn has both last longer than a stall may.
func TestADownloadThatStallsEndsAndASlowOneGoesOn(t *testing.T) {
	const stall = 8 * slowPace // half of what the slow one takes
	p := new(hangingProviders)
	n := newFollower(t, p, stall)
	hangs, slow := n.follows(t, "hangs"), n.follows(t, "slow")
	n.follow(t, 0)
	waittest.Until(t, "the end of the slow batch", func() bool { return n.hasEnded(t, slow) })
	waittest.Until(t, "the end of the download that hangs", func() bool { return p.ended.Load() > 0 })
	var j store.Job
	waittest.Until(t, "the job to be tried again", func() (tried bool) {
		var err error
		if j, err = n.deps.DB.JobOf(t.Context(), store.JobBatchPoll, hangs); err != nil {
			t.Fatal(err)
		}
		return j.Tries == 1 && j.State == store.JobQueued
	})
	if !strings.Contains(j.Failure, "sent nothing") || !j.NextAt.After(time.Now()) {
		t.Errorf("the job says %q, and is due at %v", j.Failure, j.NextAt)
	}
	p.healed.Store(true)
	waittest.Until(t, "the end of the batch", func() bool { return n.hasEnded(t, hangs) })
	if _, d := n.read(t, hangs); !d.Settled {
		t.Errorf("%+v", d)
	}
}
