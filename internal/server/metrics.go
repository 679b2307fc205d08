package server

import (
	"context"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"modelgate/internal/controlplane"
	"modelgate/internal/records/ledger"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/records/telemetry"
	"modelgate/internal/snapshot"
	"modelgate/internal/store/publication"
)

// metrics are the metrics of the admin listener. Labels have few values: operations and
// providers come from tables, statuses from HTTP.
type metrics struct {
	registry *prometheus.Registry

	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	first    *prometheus.HistogramVec
	overhead prometheus.Histogram
	tokens   *prometheus.CounterVec
	unknown  *prometheus.CounterVec
	estimate *prometheus.CounterVec
	saved    *prometheus.CounterVec
	cached   *prometheus.CounterVec
	attempts *prometheus.CounterVec
	errors   *prometheus.CounterVec
	inFlight prometheus.Gauge

	refusedPaths       prometheus.Counter
	refusedConnections *prometheus.CounterVec
	signIns            *prometheus.CounterVec
	keyless            *prometheus.CounterVec
	refusedAdmin       prometheus.Counter
	auditsSent         *prometheus.CounterVec
	webhooksSent       *prometheus.CounterVec
	alertsSent         *prometheus.CounterVec
	auditsPruned       prometheus.Counter

	revision prometheus.Gauge
	keys     prometheus.Gauge
	reloads  *prometheus.CounterVec
	settings prometheus.Gauge
	tls      prometheus.Gauge
	database prometheus.Gauge
	notified prometheus.Gauge
	taken    prometheus.Gauge

	children growOnlyMap[requestLabels, *requestMetrics]
	tries    growOnlyMap[attemptLabels, prometheus.Counter]
	codes    growOnlyMap[string, prometheus.Counter]
	statuses growOnlyMap[string, prometheus.Counter] // of the cache
	savings  growOnlyMap[savingLabels, prometheus.Counter]
	tools    toolMetrics
	models   modelMetrics
	open     relayGauges
	jobs     *prometheus.HistogramVec
}

var (
	seconds    = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
	jobSeconds = []float64{.01, .1, 1, 10, 60, 600, 3600}
	overhead   = []float64{.00002, .00005, .0001, .0002, .0005, .001, .002, .005, .01, .05, .1}
)

func newMetrics(s *Server) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	labels := []string{"operation", "provider"}
	m.requests = counters("modelgate_requests_total", "Requests by operation, provider, response status and outcome: success, error, cancelled, other.", append(labels, "status", "outcome")...)
	m.duration = histograms("modelgate_request_duration_seconds", "Time from acceptance to the last byte sent.", seconds, labels...)
	m.first = histograms("modelgate_first_token_seconds", "Time from acceptance to the first token, in seconds.", seconds, labels...)
	m.overhead = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "modelgate_overhead_seconds", Help: "Gateway overhead until the response headers are sent, in seconds.", Buckets: overhead})
	m.tokens = counters("modelgate_tokens_total", "Tokens reported by providers.", "provider", "kind")
	m.estimate = counters("modelgate_usage_estimated_total", "Requests whose usage is estimated because the provider reported none, or not all of it.", "provider")
	m.unknown = counters("modelgate_price_unknown_total", "Requests with known usage but no price for the model.", "provider")
	m.saved = counters("modelgate_saved_dollars_total", "Dollars saved by cached responses and, if positive, by prompt caches of providers.", "provider", "cache")
	m.cached = counters("modelgate_cache_requests_total", "Requests that used the cache, by x-gateway-cache-status.", "status")
	m.attempts = counters("modelgate_attempts_total", "Attempts by provider and response status; 0 means no response.", "provider", "status")
	m.errors = counters("modelgate_gateway_errors_total", "Requests rejected or failed by the gateway itself, by error code.", "code")
	m.inFlight = gauge("modelgate_requests_in_flight", "Requests in progress.")
	m.refusedPaths = prometheus.NewCounter(prometheus.CounterOpts{Name: "modelgate_paths_refused_total",
		Help: "Requests rejected because their path has no canonical form."})
	m.refusedConnections = counters("modelgate_connections_refused_total",
		"Connections closed before their first request, by reason.", "reason")
	m.signIns = counters("modelgate_sign_ins_total", "Sign-in attempts with a password, by outcome: ok, wrong, limited, busy.", "outcome")
	m.keyless = counters("modelgate_keyless_requests_total", "Requests without a valid key, by reason.", "reason")
	m.refusedAdmin = prometheus.NewCounter(prometheus.CounterOpts{Name: "modelgate_admin_refused_total",
		Help: "Requests to the admin listener without its token."})
	m.alertsSent = counters("modelgate_alerts_sent_total", "Alerts by destination and delivery outcome: sent, failed, dropped.",
		"destination", "outcome")
	m.auditsSent = counters("modelgate_audit_rows_sent_total", "Audit rows by destination and delivery outcome: sent, failed.",
		"destination", "outcome")
	m.webhooksSent = counters("modelgate_webhook_attempts_total", "Attempts to send an event to a webhook endpoint, by outcome: delivered, failed, gone.", "outcome")
	m.auditsPruned = prometheus.NewCounter(prometheus.CounterOpts{Name: "modelgate_audit_rows_pruned_total",
		Help: "Audit rows removed by retention."})
	m.revision = gauge("modelgate_snapshot_revision", "Revision of the snapshot in use.")
	m.keys = gauge("modelgate_gateway_keys", "Gateway keys in the snapshot in use.")
	m.reloads = counters("modelgate_reloads_total", "Reloads of the settings by outcome.", "outcome")
	m.settings = gauge("modelgate_settings_ok", "1 if the settings file on disk is in use, 0 if the last reload was rejected.")
	m.settings.Set(1)
	m.tls = gauge("modelgate_tls_ok", "1 if the TLS files on disk are in use, 0 if their last change was rejected.")
	m.tls.Set(1)
	m.database = gauge("modelgate_database_up", "1 if the control plane's database responded to the last check, else 0.")
	m.taken = gauge("modelgate_snapshot_ok", "1 if the state of the database is in use, 0 if it was rejected.")
	m.notified = gauge("modelgate_change_notifications_up", "1 if notifications of other nodes' changes arrive, 0 if the gateway only polls.")
	m.database.Set(1)
	m.taken.Set(1)
	m.notified.Set(1)
	m.registry.MustRegister(m.requests, m.duration, m.first, m.overhead, m.tokens, m.unknown, m.estimate,
		m.saved, m.cached, m.attempts, m.inFlight, m.refusedConnections, m.refusedAdmin, m.refusedPaths,
		m.signIns, m.keyless, m.alertsSent, m.auditsSent, m.webhooksSent, m.auditsPruned,
		m.revision, m.keys, m.reloads, m.settings, m.tls, m.database, m.taken, m.notified,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(m.errors)
	m.tools.register(m.registry)
	m.models.register(m.registry)
	m.open = newRelayGauges(m.registry)
	m.registerSources(s)
	m.prepare()
	return m
}

// prepare makes counters of deliveries appear with 0, so that a rule sees the first failure as an
// increase.
func (m *metrics) prepare() {
	for _, outcome := range []string{"sent", "failed", "dropped"} {
		m.alertsSent.WithLabelValues("webhook", outcome)
		m.alertsSent.WithLabelValues("email", outcome)
	}
	m.alertsSent.WithLabelValues("any", "dropped")
	for _, outcome := range []string{"sent", "failed"} {
		m.auditsSent.WithLabelValues("webhook", outcome)
		m.auditsSent.WithLabelValues("syslog", outcome)
	}
	for _, outcome := range []string{"delivered", "failed", "gone"} {
		m.webhooksSent.WithLabelValues(outcome)
	}
}

// count returns a function that adds to the counters of c.
func count(c *prometheus.CounterVec) func(destination, outcome string, n int) {
	return func(destination, outcome string, n int) { c.WithLabelValues(destination, outcome).Add(float64(n)) }
}

// signIn counts a sign-in attempt.
func (m *metrics) signIn(outcome string) { m.signIns.WithLabelValues(outcome).Inc() }

// registerSources registers the metrics of other packages.
func (m *metrics) registerSources(s *Server) {
	m.jobs = histograms("modelgate_job_duration_seconds", "Time of a run of a background job on this node, by kind and the state that it left the job in.",
		jobSeconds, "kind", "state")
	m.registry.MustRegister(m.jobs, workspaceGauges{s}, breakerGauges{s}, buildInfo(s.Version, s.Commit))
	m.registry.MustRegister(readinessMetrics(s)...)
	m.registry.MustRegister(ledgerMetrics(s)...)
	m.registry.MustRegister(telemetryMetrics(s)...)
	m.registry.MustRegister(counterMetrics(s.counters)...)
	m.registry.MustRegister(gateMetrics(s.gate)...)
	m.registry.MustRegister(cacheMetrics(s.sharedCache)...)
	m.registry.MustRegister(jobMetrics{s.store})
	m.registry.MustRegister(
		gaugeFunc("modelgate_body_memory_bytes", "Bytes in use by request and response body buffers.",
			func() float64 { return float64(s.engine.Bounds.Pool.Used()) }),
		gaugeFunc("modelgate_websocket_connections", "Open WebSocket connections, and those that count what realtime calls use.",
			func() float64 { return float64(s.sockets.Sessions()) }),
		gaugeFunc("modelgate_price_files_broken", "Price and capabilities files that could not be read from a source at the last attempt.",
			func() float64 { return float64(s.prices.Broken()) }),
	)
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func gaugeFunc(name, help string, f func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
}

func counterFunc(name, help string, f func() float64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, f)
}

// published records the snapshot in use, and the names of workspaces that are in its state.
func (m *metrics) published(s *snapshot.Snapshot, names map[string]publication.WorkspaceName) {
	m.models.names.Store(&names)
	m.revision.Set(float64(s.Revision))
	m.keys.Set(float64(s.Keys()))
}

// followed records the result of the last check of the database.
func (m *metrics) followed(err error, away bool) {
	setClaim(m.database, !away)
	setClaim(m.taken, err == nil || away)
}

// listening records whether notifications of changes arrive.
func (m *metrics) listening(ok bool) { setClaim(m.notified, ok) }

// setClaim sets a gauge to 1 if ok, else to 0.
func setClaim(g prometheus.Gauge, ok bool) {
	if ok {
		g.Set(1)
		return
	}
	g.Set(0)
}

func (m *metrics) reloaded(err error) {
	if err != nil {
		m.settings.Set(0)
		m.reloads.WithLabelValues("refused").Inc()
		return
	}
	m.settings.Set(1)
	m.reloads.WithLabelValues("taken").Inc()
}

// series identifies the counters of one kind of request, and try the counter of one
// kind of attempt.
type (
	requestLabels struct {
		operation, provider string
		status              int
		outcome             reqlog.ExchangeOutcome
	}
	attemptLabels struct {
		provider string
		status   int
	}
	savingLabels struct{ provider, cache string }
)

type requestMetrics struct {
	requests        prometheus.Counter
	duration, first prometheus.Observer
	input, output   prometheus.Counter
	unknown         prometheus.Counter
	estimate        prometheus.Counter
}

func (m *metrics) newChild(s requestLabels) *requestMetrics {
	return &requestMetrics{
		requests: m.requests.WithLabelValues(s.operation, s.provider, strconv.Itoa(s.status), s.outcome.String()),
		duration: m.duration.WithLabelValues(s.operation, s.provider),
		first:    m.first.WithLabelValues(s.operation, s.provider),
		input:    m.tokens.WithLabelValues(s.provider, "input"),
		output:   m.tokens.WithLabelValues(s.provider, "output"),
		unknown:  m.unknown.WithLabelValues(s.provider),
		estimate: m.estimate.WithLabelValues(s.provider),
	}
}

func (m *metrics) newTry(t attemptLabels) prometheus.Counter {
	return m.attempts.WithLabelValues(t.provider, strconv.Itoa(t.status))
}

// otherLabel replaces the operation and the provider of further requests once there are
// maxKeys kinds.
const otherLabel = "_OTHER"

// statusLabel returns a status for a label: itself if it is in use, otherwise the first of
// its class. Hosts that clients choose send any number of three digits.
func statusLabel(status int) int {
	if http.StatusText(status) != "" || status == 0 || status == 246 || status == 446 || status == 499 || status >= 520 && status <= 530 {
		return status
	}
	return status / 100 * 100
}

// count counts an ended request.
func (m *metrics) count(e *reqlog.Entry) {
	c := m.children.of(requestLabels{string(e.Operation), e.Provider, statusLabel(e.Status), e.Outcome()},
		requestLabels{operation: otherLabel, provider: otherLabel}, m.newChild)
	c.requests.Inc()
	c.duration.Observe(e.Total.Seconds())
	if e.FirstToken > 0 {
		c.first.Observe(e.FirstToken.Seconds())
	}
	m.overhead.Observe(e.Overhead.Seconds())
	if e.Usage.Known {
		c.input.Add(float64(e.Usage.Prompt()))
		c.output.Add(float64(e.Usage.Completion()))
	}
	if e.Usage.Known && !e.Priced {
		c.unknown.Inc()
	}
	if e.Usage.Estimated {
		c.estimate.Inc()
	}
	m.countCache(e)
	m.tools.count(e)
	m.models.count(e)
	if e.ErrorSource == "gateway" {
		m.codes.of(e.ErrorCode, otherLabel, func(code string) prometheus.Counter { return m.errors.WithLabelValues(code) }).Inc()
	}
	for i := range e.Attempts {
		a := &e.Attempts[i]
		m.tries.of(attemptLabels{a.Provider, statusLabel(a.Status)}, attemptLabels{provider: otherLabel}, m.newTry).Inc()
	}
}

// countCache counts what caches did for a request.
func (m *metrics) countCache(e *reqlog.Entry) {
	if e.CacheStatus != "" && e.CacheStatus != "DISABLED" {
		m.statuses.of(e.CacheStatus, otherLabel, func(status string) prometheus.Counter { return m.cached.WithLabelValues(status) }).Inc()
	}
	if e.Saved.Response > 0 {
		m.saving(e.Provider, "response").Add(float64(e.Saved.Response) / 1e9)
	}
	if e.Saved.Prompt > 0 {
		m.saving(e.Provider, "prompt").Add(float64(e.Saved.Prompt) / 1e9)
	}
}

// saving returns the counter of what a kind of cache saved of a provider.
func (m *metrics) saving(provider, cache string) prometheus.Counter {
	return m.savings.of(savingLabels{provider, cache}, savingLabels{otherLabel, cache},
		func(l savingLabels) prometheus.Counter { return m.saved.WithLabelValues(l.provider, l.cache) })
}

// recorder passes the entry of an ended request to the metrics, the ledger, which
// applies it to the log, the telemetry exporter and the log tail.
type recorder struct {
	metrics   *metrics
	ledger    *ledger.Ledger
	telemetry *telemetry.Exporter
	tail      *controlplane.Tail
}

// recorder returns the recorder of requests.
func (s *Server) recorder() reqlog.Recorder {
	if s.NoRecording {
		return s.metrics
	}
	return recorder{s.metrics, s.ledger, s.telemetry, s.tail}
}

// Record implements [reqlog.Recorder] by counting only.
func (m *metrics) Record(_ context.Context, e *reqlog.Entry) { m.count(e) }

// Record implements reqlog.Recorder.
func (r recorder) Record(ctx context.Context, e *reqlog.Entry) {
	if r.metrics != nil {
		r.metrics.count(e)
	}
	r.telemetry.Record(ctx, e)
	r.tail.Record(ctx, e)
	r.ledger.Record(ctx, e)
}

// importRecorder records imported entries in the ledger, from where they get into the log,
// and sends them to the log tail. They are not part of metrics and telemetry.
type importRecorder struct {
	ledger *ledger.Ledger
	tail   *controlplane.Tail
}

// Record implements reqlog.Recorder.
func (r importRecorder) Record(ctx context.Context, e *reqlog.Entry) {
	r.tail.Record(ctx, e)
	r.ledger.Record(ctx, e)
}

var _, _ reqlog.Recorder = recorder{}, importRecorder{}
