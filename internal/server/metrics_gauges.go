package server

import (
	"cmp"
	"context"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modelgate/internal/controlplane/limits"
	"modelgate/internal/dataplane"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider/health"
	"modelgate/internal/store"
)

// maxGauges is how many workspaces, providers and tool servers have gauges.
const maxGauges = 1000

// scrapeTime limits how long a scrape waits for the database.
const scrapeTime = time.Second

var (
	spentDollars = prometheus.NewDesc("modelgate_workspace_spent_dollars",
		"Cost of all requests of a workspace, counted by all nodes, in US dollars.",
		[]string{"organisation", "workspace"}, nil)
	budgetLabels  = []string{"organisation", "workspace", "period"}
	budgetDollars = prometheus.NewDesc("modelgate_workspace_budget_dollars",
		"Budget of a workspace in a period, in US dollars.",
		budgetLabels, nil)
	usedDollars = prometheus.NewDesc("modelgate_workspace_budget_used_dollars",
		"Part of the budget of a workspace that is used, in US dollars.",
		budgetLabels, nil)
	budgetTokens = prometheus.NewDesc("modelgate_workspace_budget_tokens",
		"Budget of a workspace in a period, in tokens.",
		budgetLabels, nil)
	usedTokens = prometheus.NewDesc("modelgate_workspace_budget_used_tokens",
		"Part of the budget of a workspace that is used, in tokens.",
		budgetLabels, nil)

	openBreakers = prometheus.NewDesc("modelgate_provider_open_breakers",
		"Circuit breakers of a managed provider that are not closed.",
		[]string{"organisation", "workspace", "provider", "slug"}, nil)
	brokenTools = prometheus.NewDesc("modelgate_tool_server_broken",
		"1 if a tool server or an agent has failed repeatedly and is not asked for a while, else 0.",
		[]string{"organisation", "workspace", "server"}, nil)
)

// workspaceGauges are read from the database when they are scraped. Without it there are
// none.
type workspaceGauges struct{ server *Server }

// Describe implements [prometheus.Collector].
func (workspaceGauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{spentDollars, budgetDollars, usedDollars, budgetTokens, usedTokens} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (g workspaceGauges) Collect(to chan<- prometheus.Metric) {
	s := g.server
	if s.store == nil || !s.store.Ready() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	ids := s.servedWorkspaces()
	spent, err := s.store.Background().Spending(ctx, store.WorkspaceBudget, ids...)
	if err != nil {
		return // the database is unavailable, which another metric reports
	}
	for _, id := range ids {
		name := s.metrics.nameOf(id)
		to <- prometheus.MustNewConstMetric(spentDollars, prometheus.GaugeValue, float64(spent[id].Cost)/1e9, name.Organisation, name.Slug)
	}
	refs := make([]store.BudgetRef, len(ids))
	for i, id := range ids {
		refs[i] = store.BudgetRef{Kind: store.WorkspaceBudget, ID: id}
	}
	holders, err := s.store.Background().Budgets(ctx, refs)
	if err != nil {
		return
	}
	for i := range holders {
		g.collectBudgets(&holders[i], to)
	}
}

// collectBudgets sends the budgets of a workspace. Those that cannot be read have no gauges.
func (g workspaceGauges) collectBudgets(h *store.BudgetHolder, to chan<- prometheus.Metric) {
	list, _, err := limits.ParseAny(h.UsageLimits)
	if err != nil {
		return
	}
	name := g.server.metrics.nameOf(h.ID)
	sent := make(map[string]bool) // a metric that is sent twice would make the scrape fail
	for i := range list {
		u := &list[i]
		period, limit, used := cmp.Or(u.PeriodicReset, "none"), budgetDollars, usedDollars
		if u.PeriodicResetDays > 0 {
			period = strconv.Itoa(u.PeriodicResetDays) + "d"
		}
		if u.Type == limits.Tokens {
			limit, used = budgetTokens, usedTokens
		}
		if sent[u.Type+period] {
			continue
		}
		sent[u.Type+period] = true
		to <- prometheus.MustNewConstMetric(used, prometheus.GaugeValue, u.Used(h.Spent), name.Organisation, name.Slug, period)
		if u.CreditLimit != nil {
			to <- prometheus.MustNewConstMetric(limit, prometheus.GaugeValue, *u.CreditLimit, name.Organisation, name.Slug, period)
		}
	}
}

// servedWorkspaces returns the ids of the workspaces that this gateway serves, at most
// maxGauges.
func (s *Server) servedWorkspaces() (ids []string) {
	snap, names := s.holder.Load(), s.metrics.models.names.Load()
	if snap == nil || names == nil {
		return nil
	}
	for id, name := range *names {
		if snap.CheckServed(&access.Identity{Organisation: name.OrganisationID, Workspace: id}) == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids[:min(len(ids), maxGauges)]
}

// breakerGauges are those of providers and tool servers.
type breakerGauges struct{ server *Server }

// Describe implements [prometheus.Collector].
func (breakerGauges) Describe(to chan<- *prometheus.Desc) {
	to <- openBreakers
	to <- brokenTools
}

// Collect implements [prometheus.Collector].
func (g breakerGauges) Collect(to chan<- prometheus.Metric) {
	s := g.server
	open := s.providers.OpenCircuits(time.Now())
	slices.SortFunc(open, func(a, b health.OpenCircuits) int { // those with open breakers are first
		return cmp.Or(cmp.Compare(min(b.Open, 1), min(a.Open, 1)), cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Slug, b.Slug),
			cmp.Compare(a.Provider, b.Provider))
	})
	for _, p := range open[:min(len(open), maxGauges)] {
		name := s.metrics.nameOf(p.Workspace)
		to <- prometheus.MustNewConstMetric(openBreakers, prometheus.GaugeValue, float64(p.Open),
			name.Organisation, name.Slug, p.Provider, p.Slug)
	}
	snap := s.holder.Load()
	if snap == nil || s.toolPeers == nil {
		return
	}
	sent := make(map[[2]string]bool) // a metric that is sent twice would make the scrape fail
	for t := range snap.AllToolServers() {
		if len(sent) == maxGauges {
			return
		}
		if k := [2]string{t.Workspace, t.Slug}; !sent[k] {
			sent[k] = true
			name := s.metrics.nameOf(t.Workspace)
			to <- prometheus.MustNewConstMetric(brokenTools, prometheus.GaugeValue, one(s.toolPeers.State(t.ID).Condition == peer.Broken),
				name.Organisation, name.Slug, t.Slug)
		}
	}
}

// relayGauges count open messages and streams to tool servers and agents.
type relayGauges struct{ tools, agents prometheus.Gauge }

func newRelayGauges(r *prometheus.Registry) relayGauges {
	open := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "modelgate_tool_messages_in_flight",
		Help: "Open messages and streams to tool servers and agents."}, []string{"to"})
	r.MustRegister(open)
	return relayGauges{open.WithLabelValues("tool_server"), open.WithLabelValues("agent")}
}

// countedTools counts the open requests to tool servers and agents.
type countedTools struct {
	dataplane.Tools
	open relayGauges
}

// ServeTools implements [dataplane.Tools].
func (c countedTools) ServeTools(w http.ResponseWriter, r *http.Request, t *dataplane.ToolRequest) error {
	g := c.open.tools
	if t.ForAgent {
		g = c.open.agents
	}
	g.Inc()
	defer g.Dec()
	return c.Tools.ServeTools(w, r, t)
}

// buildInfo returns a metric that says which program this is.
func buildInfo(version, commit string) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "modelgate_build_info",
		Help:        "Version, commit and Go version of the program; always 1.",
		ConstLabels: prometheus.Labels{"version": version, "commit": commit, "goversion": runtime.Version()}})
	g.Set(1)
	return g
}

// readinessMetrics returns what /ready says, and the room on the disk of the data folder.
func readinessMetrics(s *Server) []prometheus.Collector {
	list := []prometheus.Collector{
		gaugeFunc("modelgate_ready", "1 if /ready returns 200, else 0.", func() float64 { return one(s.isReady()) }),
		gaugeFunc("modelgate_disk_free_bytes", "Bytes of the disk of the data folder that the gateway may still write; 0 on systems that do not say.",
			func() float64 { d, _ := s.space.ask(LedgerDir(s.Data)); return float64(d.free) }),
		gaugeFunc("modelgate_disk_size_bytes", "Size of the disk of the data folder in bytes; 0 on systems that do not say.",
			func() float64 { d, _ := s.space.ask(LedgerDir(s.Data)); return float64(d.size) }),
	}
	for _, p := range slices.Concat(blocking, degrading) {
		list = append(list, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "modelgate_problem",
			Help:        "1 while /ready has the problem or would have it after those before it, else 0.",
			ConstLabels: prometheus.Labels{"problem": p.name}},
			func() float64 { return one(p.reason(s) != "") }))
	}
	if s.certificates != nil {
		list = append(list, gaugeFunc("modelgate_tls_certificate_expiry_timestamp_seconds",
			"When the certificate of the listener expires, in seconds since 1970.",
			func() float64 { return float64(s.certificates.expiry().Unix()) }))
	}
	return list
}
