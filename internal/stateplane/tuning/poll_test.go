package tuning

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/dataplane"
	"modelgate/internal/model/catalog"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/stateplane/vendortune"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
)

// bills is what a world has recorded, by id of the entry.
type bills struct {
	entries []*reqlog.Entry
	raised  int
}

// follow lets a world record what jobs cost, with a price of training for one model.
func (w *world) follow() *bills {
	b := new(bills)
	book := catalog.NewBook([]catalog.Price{
		{Provider: "openai", Model: "gpt-4o-mini", NoInput: true, NoOutput: true, Units: &catalog.UnitPrices{Training: 25_000_000}},
		{Provider: "openai", Model: "gpt-4o", Rates: catalog.RatesOf(map[catalog.Kind]catalog.Rate{catalog.Input: 1_000_000})},
	}, nil)
	w.deps.Prices = func() *catalog.PriceBook { return book }
	w.deps.Record = func(_ context.Context, e *reqlog.Entry) { b.entries = append(b.entries, e) }
	w.deps.Spent = func(context.Context, map[store.BudgetRef]reqlog.Spend) { b.raised++ }
	w.deps.Call = func(out http.ResponseWriter, r *http.Request, c *dataplane.Call) { c.Result = w.ask(out, r, c.Service) }
	return b
}

// runDue runs the jobs of a node that are due after a time.
func (w *world) runDue(after time.Duration) {
	w.now = w.now.Add(after)
	jobs.New(jobs.Options{DB: w.deps.DB, Node: "n", Kinds: []jobs.Kind{NewRunner(w.deps).Kind()}, Now: w.deps.Now, Logger: w.deps.Logger}).RunDue(w.t.Context())
}

func (w *world) spent(workspace string) reqlog.Spend {
	w.t.Helper()
	all, err := w.deps.DB.Spending(w.t.Context(), store.WorkspaceBudget, workspace)
	if err != nil {
		w.t.Fatal(err)
	}
	return all[workspace]
}

func ended(status, model, tokens string) func(*http.Request, string) (int, string) {
	return func(*http.Request, string) (int, string) {
		return 200, fmt.Sprintf(`{"id":"ftjob-1","object":"fine_tuning.job","status":%q,"model":%q,"training_file":"file-there","created_at":5,"trained_tokens":%s,"fine_tuned_model":"ft:m"}`, status, model, tokens)
	}
}

func TestTrainingIsBilledOnce(t *testing.T) {
	for _, tt := range []struct {
		name, model, status, tokens string
		wait                        time.Duration // until the provider no longer changes the job
		tokensSpent, unpriced       int64
		cost                        catalog.NanoDollars
		outcome                     bool // the entry has a cost
	}{
		{"priced", "gpt-4o-mini", "succeeded", "2000", 0, 2000, 0, 50_000_000, true},
		{"without a price of training", "gpt-4o", "succeeded", "2000", 0, 2000, 1, 20_000_000, false},
		{"cancelled after a part", "gpt-4o-mini", "cancelled", "1000", 2 * time.Hour, 1000, 0, 25_000_000, true},
		{"without tokens", "gpt-4o-mini", "succeeded", "null", 2 * time.Hour, 0, 0, 0, false},
		{"failed", "gpt-4o-mini", "failed", "null", 2 * time.Hour, 0, 0, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withFiles(t, func(t *testing.T, w *world) {
				b := w.follow()
				w.must("POST", root, strings.Replace(input, "gpt-4o-mini", tt.model, 1))
				w.runDue(time.Minute)
				if len(b.entries) != 0 {
					t.Fatalf("a job that runs is billed: %+v", b.entries)
				}
				w.respond = ended(tt.status, tt.model, tt.tokens)
				w.must("GET", root+"/ftjob-1", "")
				for range 3 { // again and again
					w.runDue(time.Minute)
					w.must("GET", root+"/ftjob-1", "")
				}
				if tt.wait > 0 {
					if len(b.entries) != 0 {
						t.Errorf("a job that may still change is billed: %+v", b.entries)
					}
					w.runDue(tt.wait)
					w.runDue(tt.wait)
				}
				if len(b.entries) != 1 || b.raised != 1 {
					t.Fatalf("%d entries, spent %d times; log %s", len(b.entries), b.raised, w.log)
				}
				e, spent := b.entries[0], w.spent("w1")
				if spent.Tokens != tt.tokensSpent || spent.Unpriced != tt.unpriced || spent.Cost != tt.cost {
					t.Errorf("spent %+v", spent)
				}
				if e.Priced != tt.outcome || e.Priced && (e.Cost != tt.cost || e.Price != "openai/"+tt.model+" training") || e.Finish != tt.status {
					t.Errorf("the entry has the cost %d of the price %q, %t: %s", e.Cost, e.Price, e.Priced, e.Finish)
				}
			})
		})
	}
}

// Nobody reads a job whose creation was not answered: its own job finds it, or forgets it.
func TestALostCreateIsFoundWithoutAReader(t *testing.T) {
	withFiles(t, func(t *testing.T, w *world) {
		b := w.follow()
		made := ""
		w.respond = func(r *http.Request, body string) (int, string) {
			if r.Method == "POST" {
				made = body
				return 502, `{"error":{"message":"the connection was lost"}}`
			}
			if !strings.Contains(r.URL.Path, "ftjob-1") { // a list
				return 200, `{"object":"list","data":[` + listed(made) + `],"has_more":false}`
			}
			return ended("succeeded", "gpt-4o-mini", "1000")(r, "")
		}
		if _, _, err := w.request("w1", "POST", root, input); err == nil {
			t.Fatal("a lost create is not an error")
		}
		w.runDue(time.Minute) // before the provider lists it
		if o := w.objects("w1", store.ObjectTuningJob)[0]; o.ProviderID != "" {
			t.Errorf("looked for too early: %+v", o)
		}
		for range 3 {
			w.runDue(settleTime)
		}
		if o := w.objects("w1", store.ObjectTuningJob)[0]; o.ProviderID != "ftjob-1" || o.State != string(vendortune.Succeeded) || len(b.entries) != 1 {
			t.Errorf("the record is %+v, %d entries; log %s", o, len(b.entries), w.log)
		}
		w.respond = func(r *http.Request, _ string) (int, string) {
			if r.Method == "POST" {
				return 502, `{}`
			}
			return 200, `{"object":"list","data":[],"has_more":false}`
		}
		if _, _, err := w.request("w1", "POST", root, input); err == nil {
			t.Fatal("a lost create is not an error")
		}
		w.runDue(2 * settleTime)
		if all := w.objects("w1", store.ObjectTuningJob); len(all) != 1 {
			t.Errorf("%d jobs, of which one does not exist at the provider", len(all))
		}
	})
}

// listed returns a job of a list, with the metadata of the body that created it.
func listed(created string) string {
	_, metadata, _ := strings.Cut(created, `"metadata":`)
	metadata, _, _ = strings.Cut(metadata, "}")
	return strings.Replace(job("running"), "{", `{"metadata":`+metadata+"},", 1)
}
