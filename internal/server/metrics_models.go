package server

import (
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"modelgate/internal/records/reqlog"
	"modelgate/internal/store/publication"
)

// Bounds of the metrics of models. With them a process has at most maxCombinations +
// maxWorkspaces + 1 combinations of labels, each with 30 series, whatever clients send.
const (
	maxWorkspaces   = 200  // that have labels of their own
	maxModels       = 50   // combinations of a provider and a model in a workspace
	maxCombinations = 2000 // of all workspaces
	maxLabel        = 128  // bytes of a label that clients choose
)

// modelMetrics count requests with a key by workspace, provider and model. Requests read
// them without a lock. Labels beyond the bounds are [otherLabel], so that no workspace can
// take the labels of another, and a client cannot fill the memory.
type modelMetrics struct {
	requests, tokens, cost *prometheus.CounterVec
	duration, first        *prometheus.HistogramVec
	folded                 prometheus.Counter

	names      atomic.Pointer[map[string]publication.WorkspaceName] // by id; nil before the first snapshot
	room       atomic.Int64                                         // see maxCombinations
	workspaces growOnlyMap[workspaceKey, *workspaceMetrics]
}

// workspaceKey identifies a workspace by ids.
type workspaceKey struct{ organisation, workspace string }

// workspaceMetrics are the metrics of a workspace.
type workspaceMetrics struct {
	name   publication.WorkspaceName
	models growOnlyMap[modelKey, *modelCounters]
}

// modelKey are the labels of requests of a workspace.
type modelKey struct{ provider, slug, model string }

// modelCounters are the metrics of a workspace, a provider and a model.
type modelCounters struct {
	requests            [4]prometheus.Counter // by outcome
	input, output, cost prometheus.Counter
	duration, first     prometheus.Observer
}

var (
	otherWorkspace = workspaceKey{otherLabel, otherLabel}
	otherModel     = modelKey{otherLabel, otherLabel, otherLabel}

	// Few buckets, because there are as many series for each combination of labels.
	modelSeconds = []float64{.25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	firstSeconds = []float64{.1, .25, .5, 1, 2.5, 5, 10, 30}
)

func (m *modelMetrics) register(r *prometheus.Registry) {
	labels := []string{"organisation", "workspace", "provider", "slug", "model"}
	m.requests = counters("modelgate_model_requests_total",
		"Requests with a key by workspace, provider, model and outcome.",
		append(labels, "outcome")...)
	m.tokens = counters("modelgate_model_tokens_total",
		"Tokens by workspace, provider, model and kind: input, output.",
		append(labels, "kind")...)
	m.cost = counters("modelgate_model_dollars_total",
		"Known cost in US dollars by workspace, provider and model.",
		labels...)
	m.duration = histograms("modelgate_model_duration_seconds",
		"Time from acceptance to the last byte sent, by workspace, provider and model.",
		modelSeconds, labels...)
	m.first = histograms("modelgate_model_first_token_seconds",
		"Time from acceptance to the first token, by workspace, provider and model.",
		firstSeconds, labels...)
	m.folded = prometheus.NewCounter(prometheus.CounterOpts{Name: "modelgate_model_requests_folded_total",
		Help: "Requests with the labels " + otherLabel + " in metrics of models, because there are too many combinations of labels."})
	r.MustRegister(m.requests, m.tokens, m.cost, m.duration, m.first, m.folded)
	m.room.Store(maxCombinations)
	m.workspaces.most = maxWorkspaces
	m.workspaces.own = func(k workspaceKey) workspaceKey {
		return workspaceKey{strings.Clone(k.organisation), strings.Clone(k.workspace)}
	}
}

// label returns a text that a client may have chosen, as the value of a label.
func label(text string) string {
	if len(text) > maxLabel || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return otherLabel
	}
	return text
}

// count counts an ended request of a workspace, and nothing for messages to tool servers,
// which have metrics of their own, or for requests without a key.
func (m *modelMetrics) count(e *reqlog.Entry) {
	if e.Workspace == "" || e.Provider == reqlog.ProviderTools {
		return
	}
	w := m.workspaces.of(workspaceKey{e.Organisation, e.Workspace}, otherWorkspace, m.newWorkspace)
	outcome := e.Outcome()
	key := modelKey{e.Provider, label(e.Slug), label(e.UpstreamModel)}
	c, known := w.models.load()[key]
	if !known {
		if outcome != reqlog.OutcomeSuccess { // the name of a model may be anything until a provider has responded for it
			key.model = otherLabel
		}
		c = w.models.of(key, otherModel, w.newModel(m))
	}
	c.requests[outcome].Inc()
	c.duration.Observe(e.Total.Seconds())
	if e.FirstToken > 0 {
		c.first.Observe(e.FirstToken.Seconds())
	}
	if e.Usage.Known {
		c.input.Add(float64(e.Usage.Prompt()))
		c.output.Add(float64(e.Usage.Completion()))
	}
	c.cost.Add(float64(e.Cost) / 1e9)
}

// newWorkspace returns the metrics of a workspace. Its labels are slugs, or ids if it is
// unknown.
func (m *modelMetrics) newWorkspace(k workspaceKey) *workspaceMetrics {
	w := &workspaceMetrics{name: publication.WorkspaceName{Organisation: k.organisation, Slug: k.workspace}}
	if names := m.names.Load(); names != nil {
		if name, ok := (*names)[k.workspace]; ok {
			w.name = name
		}
	}
	w.models.most, w.models.room = maxModels, &m.room
	if k == otherWorkspace {
		w.models.room = new(atomic.Int64) // its models have no labels
	}
	w.models.own = func(k modelKey) modelKey {
		return modelKey{strings.Clone(k.provider), strings.Clone(k.slug), strings.Clone(k.model)}
	}
	return w
}

// newModel returns a function that creates the metrics of a provider and a model.
func (w *workspaceMetrics) newModel(m *modelMetrics) func(modelKey) *modelCounters {
	return func(k modelKey) *modelCounters {
		l := []string{w.name.Organisation, w.name.Slug, k.provider, k.slug, k.model}
		c := &modelCounters{
			input: m.tokens.WithLabelValues(append(l, "input")...), output: m.tokens.WithLabelValues(append(l, "output")...),
			cost: m.cost.WithLabelValues(l...), duration: m.duration.WithLabelValues(l...), first: m.first.WithLabelValues(l...),
		}
		for i := range c.requests {
			c.requests[i] = m.requests.WithLabelValues(append(l, reqlog.ExchangeOutcome(i).String())...)
			if k == otherModel {
				c.requests[i] = foldedCounter{c.requests[i], m.folded}
			}
		}
		return c
	}
}

// foldedCounter counts requests whose labels were replaced.
type foldedCounter struct {
	prometheus.Counter
	folded prometheus.Counter
}

// Inc implements prometheus.Counter.
func (c foldedCounter) Inc() {
	c.Counter.Inc()
	c.folded.Inc()
}

// nameOf returns the name of a workspace, its id if it is unknown.
func (m *metrics) nameOf(id string) publication.WorkspaceName {
	if names := m.models.names.Load(); names != nil {
		if name, ok := (*names)[id]; ok {
			return name
		}
	}
	return publication.WorkspaceName{Slug: id}
}
