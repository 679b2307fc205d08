package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"modelgate/internal/records/ledger"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/simulator"
	"modelgate/internal/store"
	"modelgate/internal/testing/recorder"
	"modelgate/internal/testing/waittest"
)

// books are what is known of a run, gathered over all rounds.
type books struct {
	mu       sync.Mutex
	complete map[string]response // by model, where the client had its complete response

	served   map[string]recorder.Tokens // by model
	intents  map[string]reqlog.Intent   // by model
	settled  map[reqlog.ID]reqlog.Settlement
	rows     map[reqlog.ID]bool
	doubled  int // exchanges settled twice with different figures
	aborted  int
	estimate int
}

func newBooks() *books {
	return &books{complete: map[string]response{}, served: map[string]recorder.Tokens{}, intents: map[string]reqlog.Intent{},
		settled: map[reqlog.ID]reqlog.Settlement{}, rows: map[reqlog.ID]bool{}}
}

// response is what a client has of an exchange.
type response struct {
	id             reqlog.ID
	request, whole []byte // the bodies
}

// TestAKilledGatewayLosesNothingThatEnded kills a gateway in the middle of many
// streams, several times on one data folder, and compares what the ledger, the
// log, bodies included, and the counters of budgets hold with what the simulator
// says it has served and the clients have seen. MODELGATE_TEST_KILL_ROUNDS and MODELGATE_TEST_KILL_STREAMS make it longer.
func TestAKilledGatewayLosesNothingThatEnded(t *testing.T) {
	rounds, streams := number(t, "MODELGATE_TEST_KILL_ROUNDS", 3), number(t, "MODELGATE_TEST_KILL_STREAMS", 60)
	sim := recorder.New(recorder.Options{Options: simulator.Options{Pace: time.Millisecond, Tokens: 40}})
	up := httptest.NewServer(sim)
	t.Cleanup(up.Close)
	data := t.TempDir()
	b := newBooks()
	for round := range rounds {
		g := start(t, data, up.URL, "logs: {level: full}", prices)
		// Rounds end at different times since the last row was applied, and since
		// that was marked: every 200 ms and every second.
		b.storm(t, g, round, streams, time.Duration(300+270*(round%5))*time.Millisecond)
		b.close(t, sim, data)
	}
	g := start(t, data, up.URL)
	g.stop(t)
	b.read(t, data)
	b.check(t, data)
	t.Logf("%d rounds of %d streams: %d attempts at the simulator, %d intents, %d settled, %d of them estimates, %d complete responses, %d rows",
		rounds, streams, len(b.served), len(b.intents), len(b.settled), b.estimate, len(b.complete), len(b.rows))
}

// prices make what is asked for cost something.
const prices = "prices:\n  - {provider: openai-compatible, model: \"sim-*\", input: 1, output: 4}"

func number(t *testing.T, name string, def int) int {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return def
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// storm keeps streams open and kills the gateway in their middle, after a time at
// the earliest.
func (b *books) storm(t *testing.T, g *gateway, round, streams int, least time.Duration) {
	t.Helper()
	var wg sync.WaitGroup
	long := time.After(least)
	seen := make(chan struct{}, 1<<20)
	for n := range streams {
		wg.Go(func() {
			for i := 0; ; i++ {
				model := fmt.Sprintf("sim-%d-%d-%d", round, n, i)
				got, whole, alive := g.stream(model)
				if whole {
					b.mu.Lock()
					b.complete[model] = got
					b.mu.Unlock()
					seen <- struct{}{}
				}
				if !alive {
					return
				}
			}
		})
	}
	for range streams + streams/2 { // each has begun its second, and half are through
		select {
		case <-seen:
		case <-time.After(60 * time.Second):
			t.Fatalf("the gateway does not answer: %s", g.errText)
		}
	}
	waittest.Receive(t, long, "the long request")
	g.kill()
	wg.Wait()
}

// close takes in what the simulator and the ledger know after a round, before a
// start changes the ledger.
func (b *books) close(t *testing.T, sim *recorder.Recorder, data string) {
	t.Helper()
	// Requests that were cut end within moments at the simulator.
	for last, same := -1, 0; same < 5; <-time.After(20 * time.Millisecond) {
		now := sim.Served().Requests
		if same++; now != last {
			last, same = now, 0
		}
	}
	total := sim.Served()
	b.aborted += total.Aborted
	maps.Copy(b.served, total.Models)
	sim.Reset()
	b.read(t, data)
	for model, got := range b.complete {
		s, ok := b.settled[got.id]
		want := b.served[model]
		switch {
		case !ok || s.Outcome != reqlog.Answered:
			t.Errorf("%s: the client had its complete response, and the ledger has %+v", model, s)
		case s.Usage.Prompt() != int64(want.Prompt) || s.Usage.Completion() != int64(want.Completion):
			t.Errorf("%s: the ledger has %+v, the simulator served %+v", model, s.Usage, want)
		case !b.rows[got.id]:
			t.Errorf("%s: the client had its complete response, and the ledger has no row", model)
		}
	}
}

// read takes in what the segments hold now.
func (b *books) read(t *testing.T, data string) {
	t.Helper()
	err := ledger.Each(filepath.Join(data, "ledger"), func(r ledger.Record) {
		switch {
		case r.Intent != nil:
			b.intents[r.Intent.Model] = *r.Intent
		case r.Settle != nil:
			if before, ok := b.settled[r.Settle.ID]; ok && before != *r.Settle {
				b.doubled++
			}
			b.settled[r.Settle.ID] = *r.Settle
		default:
			b.rows[r.Exchange] = true
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// check compares ledger, log and simulator.
func (b *books) check(t *testing.T, data string) {
	t.Helper()
	if b.doubled > 0 {
		t.Errorf("%d attempts were settled twice, and differently", b.doubled)
	}
	for model := range b.served {
		if _, ok := b.intents[model]; !ok {
			t.Errorf("%s reached the simulator without an intent", model)
		}
	}
	log := logged(t, data)
	var ledgerSum, logSum int64
	for model, i := range b.intents {
		s, ok := b.settled[i.ID]
		if !ok {
			t.Errorf("%s has no settlement, not even an estimate", model)
		}
		if s.Outcome == reqlog.Estimated {
			b.estimate++
		}
		if s.Usage.Known {
			ledgerSum += s.Usage.Total()
		}
		entries := log[i.ID]
		if len(entries) != 1 {
			t.Errorf("%s stands %d times in the log, want once", model, len(entries))
			continue
		}
		if entries[0].Usage.Known {
			logSum += entries[0].Usage.Total()
		}
		if got, ok := b.complete[model]; ok {
			got.compare(t, model, entries[0].Bodies)
		}
	}
	if len(log) != len(b.intents) {
		t.Errorf("the log has %d exchanges, the ledger %d", len(log), len(b.intents))
	}
	if ledgerSum != logSum || ledgerSum == 0 {
		t.Errorf("the ledger sums up to %d tokens, the log to %d", ledgerSum, logSum)
	}
	b.checkCounters(t, data)
}

// checkCounters compares the ledger with what counts for budgets, which has
// everything after a proper end.
func (b *books) checkCounters(t *testing.T, data string) {
	t.Helper()
	db, err := store.Open(t.Context(), "file:"+filepath.Join(data, "modelgate.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var want reqlog.Spend
	for _, s := range b.settled {
		want.AddSettlement(&s)
	}
	for kind, id := range map[string]string{store.KeyBudget: "bootstrap", store.WorkspaceBudget: store.DefaultWorkspace} {
		got, err := db.Spending(t.Context(), kind, id)
		if err != nil || got[id] != want || want.Cost == 0 {
			t.Errorf("the %s spent %+v by the counters, %+v by the ledger: %v", kind, got[id], want, err)
		}
	}
}

// compare looks at the bodies of an exchange that the client knows whole.
func (a response) compare(t *testing.T, model string, kept *reqlog.Bodies) {
	t.Helper()
	switch {
	case kept == nil:
		t.Errorf("%s: the client had its complete response, and the log has no bodies", model)
	case !bytes.Equal(kept.Request.Data, a.request) || kept.Request.Cut:
		t.Errorf("%s: the log has the request as %.300q, want %.300q", model, kept.Request.Data, a.request)
	case !bytes.Equal(kept.Response.Data, a.whole) || kept.Response.Cut || kept.Response.Type != "text/event-stream":
		t.Errorf("%s: the log has the response as %.300q, want %.300q", model, kept.Response.Data, a.whole)
	}
}

// logged reads the whole log, bodies included.
func logged(t *testing.T, data string) map[reqlog.ID][]*reqlog.Entry {
	t.Helper()
	s, err := logstore.Open(t.Context(), logstore.Options{Path: filepath.Join(data, "logs.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	all := map[reqlog.ID][]*reqlog.Entry{}
	for q := (logstore.Query{Limit: 1000}); ; {
		page, err := s.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.ReadBodies(t.Context(), page.Entries); err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			all[e.ID] = append(all[e.ID], e)
		}
		if q.Cursor = page.Next; page.Next == "" {
			return all
		}
	}
}

// stream asks for one stream and reads it to its end. whole is true when it came
// to its end, alive false when the gateway is gone.
func (g *gateway) stream(model string) (got response, whole, alive bool) {
	body, _ := json.Marshal(map[string]any{
		"model": model, "stream": true, "stream_options": map[string]bool{"include_usage": true},
		"messages": []map[string]string{{"role": "user", "content": "tell me about " + model}},
	})
	req, err := http.NewRequest("POST", g.url+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return got, false, false
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("x-gateway-api-key", g.keyOf(model))
	req.Header.Set("x-gateway-provider", "@sim")
	res, err := g.client.Do(req)
	if err != nil {
		return got, false, false
	}
	defer res.Body.Close()
	got.id, _ = reqlog.ParseID(res.Header.Get("x-gateway-request-id"))
	got.request = body
	got.whole, err = io.ReadAll(res.Body)
	if err != nil {
		return got, false, false
	}
	return got, res.StatusCode == 200 && bytes.HasSuffix(bytes.TrimSpace(got.whole), []byte("[DONE]")), true
}
