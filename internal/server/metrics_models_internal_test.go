package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modelgate/api"
	"modelgate/internal/model/llm"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/snapshot"
	"modelgate/internal/store/publication"
)

// modelEntry is a request of a workspace that a provider has answered.
func modelEntry(workspace, model string) *reqlog.Entry {
	return &reqlog.Entry{
		Sender: reqlog.Sender{Organisation: "org-id", Workspace: workspace},
		Input:  reqlog.Input{Operation: api.Chat, Model: model},
		Origin: reqlog.Origin{Provider: "openai", Slug: "main", UpstreamModel: model, CacheStatus: "MISS"},
		Result: reqlog.Result{Status: 200, Usage: llm.Usage{Known: true, Input: 3, Output: 4}}, Charge: reqlog.Charge{Cost: 2e9, Priced: true, Saved: reqlog.Saved{Prompt: 1e9}},
		Durations: reqlog.Durations{Total: time.Second, FirstToken: time.Second},
		Steps:     reqlog.Steps{Attempts: []reqlog.Attempt{{Provider: "openai", Status: 200}}},
	}
}

// modelSeries returns the number of series of modelgate_model_requests_total and their
// values by the labels workspace, slug and model.
func modelSeries(t *testing.T, m *metrics) (n int, values map[string]float64) {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(m.models.requests)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values = map[string]float64{}
	for _, f := range families {
		for _, s := range f.Metric {
			n++
			l := map[string]string{}
			for _, p := range s.Label {
				l[p.GetName()] = p.GetValue()
			}
			values[l["organisation"]+" "+l["workspace"]+" "+l["slug"]+" "+l["model"]] += s.Counter.GetValue()
		}
	}
	return n, values
}

func TestMetricsOfModelsAreBoundedAndOneWorkspaceDoesNotTakeThemAll(t *testing.T) {
	m := newMetrics(new(Server))
	for i := range 10_000 {
		m.count(modelEntry("hostile", fmt.Sprintf("model-%d", i)))
	}
	m.count(modelEntry("calm", "gpt-5"))
	n, values := modelSeries(t, m)
	if n != 4*(maxModels+2) { // one of the rest, one of the calm workspace
		t.Errorf("%d series, want %d", n, 4*(maxModels+2))
	}
	if values["org-id calm main gpt-5"] != 1 {
		t.Error("another workspace has no labels of its own")
	}
	if got := values["org-id hostile _OTHER _OTHER"]; got != 10_000-maxModels {
		t.Errorf("%v requests are counted together, want %d", got, 10_000-maxModels)
	}
	for i := range 2 * maxWorkspaces {
		for j := range maxModels {
			m.count(modelEntry(fmt.Sprintf("workspace-%d", i), fmt.Sprintf("model-%d", j)))
		}
	}
	if n, values = modelSeries(t, m); n > 4*(maxCombinations+maxWorkspaces+1) || values["_OTHER _OTHER _OTHER _OTHER"] < maxWorkspaces*maxModels {
		t.Errorf("%d series of %d workspaces, want at most %d; %v requests beyond them",
			n, 2*maxWorkspaces, 4*(maxCombinations+maxWorkspaces+1), values["_OTHER _OTHER _OTHER _OTHER"])
	}
	folded := counterValue(t, m.models.folded)
	sum := 0.
	for labels, v := range values {
		if strings.HasSuffix(labels, " _OTHER _OTHER") {
			sum += v
		}
	}
	if folded != sum || folded == 0 {
		t.Errorf("%v requests are reported as folded, want %v", folded, sum)
	}
}

func counterValue(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families[0].Metric[0].Counter.GetValue()
}

func TestModelIsALabelOnceAProviderHasRespondedForIt(t *testing.T) {
	m := newMetrics(new(Server))
	m.published(emptySnapshot(t), map[string]publication.WorkspaceName{"id": {Organisation: "acme", Slug: "team"}})
	failed := modelEntry("id", "later")
	failed.Status, failed.ErrorCode = 404, "model_not_found"
	m.count(failed)
	if _, values := modelSeries(t, m); values["acme team main _OTHER"] != 1 || len(values) != 1 {
		t.Errorf("a model that no provider knows: %v", values)
	}
	m.count(modelEntry("id", "later"))
	m.count(failed)
	if _, values := modelSeries(t, m); values["acme team main later"] != 2 {
		t.Errorf("a model that a provider has responded for: %v", values)
	}
	if got := counterValue(t, m.models.folded); got != 0 {
		t.Errorf("%v requests are reported as folded, want none", got)
	}
}

// A label that is not UTF-8 makes the library panic.
func TestHostileNamesAreNotLabels(t *testing.T) {
	m := newMetrics(new(Server))
	hostile := []string{"\xff\xfe", strings.Repeat("x", maxLabel+1), "a\nb", "a\x00b"}
	for _, name := range hostile {
		m.count(modelEntry("id", name))
		e := modelEntry("id", name)
		e.Operation, e.Provider, e.Slug = api.ToolCall, reqlog.ProviderTools, name
		m.count(e)
	}
	_, values := modelSeries(t, m)
	if len(values) != 1 || values["org-id id main _OTHER"] != float64(len(hostile)) {
		t.Errorf("the labels are %v", values)
	}
}

func TestRequestsWithoutAKeyAndToolCallsAreNotCountedByModel(t *testing.T) {
	m := newMetrics(new(Server))
	m.count(modelEntry("", "gpt-5"))
	e := modelEntry("id", "search")
	e.Operation, e.Provider = api.ToolCall, reqlog.ProviderTools
	m.count(e)
	if n, values := modelSeries(t, m); n != 0 {
		t.Errorf("%d series: %v", n, values)
	}
}

func TestCountingARequestOfAModelAllocatesNothing(t *testing.T) {
	m := newMetrics(new(Server))
	e := modelEntry("id", "gpt-5")
	folded := modelEntry("id", "folded")
	for i := range maxModels {
		m.count(modelEntry("id", fmt.Sprint("gpt-", i)))
	}
	m.count(folded)
	for _, e := range []*reqlog.Entry{e, folded} {
		if n := testing.AllocsPerRun(100, func() { m.count(e) }); n != 0 {
			t.Errorf("counting %s allocates %g objects, want none", e.Model, n)
		}
	}
}

// BenchmarkMetricsOfARequest measures all metrics of a request with an attempt, a cost, a
// use of the cache, usage and a first token. It costs 0.6 µs and allocates nothing.
func BenchmarkMetricsOfARequest(b *testing.B) {
	m := newMetrics(new(Server))
	for i := range maxCombinations {
		m.count(modelEntry(fmt.Sprint("workspace-", i%maxWorkspaces), fmt.Sprint("model-", i/maxWorkspaces)))
	}
	e := modelEntry("workspace-7", "model-3")
	m.count(e)
	b.ReportAllocs()
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			m.count(e)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				m.count(e)
			}
		})
	})
}

func emptySnapshot(t *testing.T) *snapshot.Snapshot {
	t.Helper()
	s, err := snapshot.Build(snapshot.Input{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
