package server

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"modelgate/internal/controlplane"
	"modelgate/internal/controlplane/analytics"
	"modelgate/internal/controlplane/catalogue"
	"modelgate/internal/controlplane/directory"
	"modelgate/internal/controlplane/exports"
	"modelgate/internal/controlplane/factors"
	"modelgate/internal/controlplane/guardrails"
	"modelgate/internal/controlplane/integrations"
	"modelgate/internal/controlplane/jobs"
	"modelgate/internal/controlplane/manifest"
	"modelgate/internal/controlplane/organisations"
	"modelgate/internal/controlplane/policies"
	"modelgate/internal/controlplane/providers"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/secrets"
	"modelgate/internal/controlplane/sessions"
	"modelgate/internal/controlplane/toolservers"
	"modelgate/internal/controlplane/webhooks"
	"modelgate/internal/controlplane/workloads"
	"modelgate/internal/dataplane"
	"modelgate/internal/dataplane/agents"
	"modelgate/internal/dataplane/socket"
	"modelgate/internal/identity/workload"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/settings"
)

// makeRoutes creates the handlers of the data plane and the control plane.
func (s *Server) makeRoutes(set *settings.Settings) {
	s.tail, s.sockets = new(controlplane.Tail), socket.New(socket.Options{})
	credentials := s.newToolCredentials()
	s.toolUsers = credentials.users
	relay := s.toolRelay(set, credentials)
	s.toolServers = relay
	s.agents = agents.New(relay, s.toolPeers, s.toolsOr(relay))
	plane := dataplane.New(dataplane.Options{
		Snapshot:  &s.holder,
		Engine:    s.engine,
		Clients:   clients(),
		Recorder:  s.recorder(),
		Keyless:   s.keylessRecorder(set),
		Logger:    s.Logger,
		MaxJSON:   set.Limits.JSONBody.Or(50 << 20),
		MaxUpload: set.Limits.UploadBody.Or(512 << 20),
		KeepAlive: orNone(set.Timeouts.KeepAlive),

		Gate:    s.gate,
		Sockets: s.sockets,

		UnmeteredCalls: set.Realtime.UnmeteredCalls,
		IsModelRoute:   s.isModelRoute,
		OtherRoutes:    s.controlRoutes,
		PublicURL:      s.publicURL,
		Box:            s.box,

		PromptEnvelopeOnly: set.Compat.PromptEnvelopeOnly,
		HookStatus:         set.Compat.Status246,
		Guardrails:         s.guardrails,
		SkipGuardrails:     s.Off[route.Guardrails],
		Cache:              s.cache,
		Keeper:             s.kept,
		Tools:              countedTools{s.agents, s.metrics.open},
		UseSecret:          s.useClientSecret,
		Responses:          s.kept.Responses(),
		Files:              s.kept.Files(),
		Feedback:           s.addFeedback,
		Shadow:             s.addShadowResults,
		PromptCacheSaved:   s.promptCacheSaved,

		ClientStall:     set.Timeouts.Client.Or(5 * time.Minute),
		AttemptsTimeout: orNone(set.Timeouts.Budget),
	})
	s.plane, s.requests = plane, plane
	tests := s.newCredentialTester()
	logs := &controlplane.LogHandler{Authenticate: s.authenticate, Store: s.logs, Flush: s.flushLog,
		DB: s.store, Files: s.files, Logger: s.Logger}
	s.logRoute, s.tail.Logs = logs, logs
	s.control = controlplane.New(route.Deps{
		DB: s.store, Logger: s.Logger, Authenticate: s.authenticate, OnChange: s.storeChanged, AwaitSpending: s.ledger.AwaitCounted,
		Guardrails: s.guardrails, Secrets: s.ring, CheckHost: s.engine.Client.CheckHost, Egress: s.egressPolicies, Files: s.files,
		Links:  route.Links{PublicURL: s.publicURL, ListenURL: s.listenURL()},
		Bodies: s.engine.Bounds.Pool, Keyless: reqlog.NewAllowance(keylessPerDay(set)), Time: controlTime, Off: s.Off, Version: s.Version,
	}, controlplane.Families{
		Organisations: organisations.Routes{Retention: s.Retention},
		State:         manifest.Routes{Box: s.box, References: s.references},
		Factors:       factors.Routes{Lifetime: s.sessionAbsolute, Count: s.metrics.signIn},
		Sessions:      sessions.Routes{Lifetimes: s.sessionLifetimes, Verify: s.token, Count: s.metrics.signIn},
		SignIn:        s.signIn(),
		OAuth:         s.oauth(),
		ToolServers: toolservers.Routes{Snapshot: s.holder.Load, Probe: s.probeTools, SignIn: credentials.signIn(),
			Fetch:    func(r *http.Request) (*http.Response, error) { return s.engine.Client.Do(r, true) },
			Commands: func() []string { return slices.Sorted(maps.Keys(set.Tools.Commands)) }},
		Workloads:    workloads.Routes{Verifier: workload.NewVerifier(s.engine.Client), Issue: s.issueWorkloadKey},
		Guardrails:   guardrails.Routes{Test: plane.TestGuardrail, CheckModule: s.modules.Check, RemoveModule: s.modules.Remove, Log: s.logs},
		Integrations: integrations.Routes{Tests: tests},
		Providers:    providers.Routes{Health: s.providerHealth, Node: s.process, Tests: tests},
		Catalogue:    catalogue.Routes{Snapshot: s.holder.Load},
		Policies:     policies.Routes{Policies: s.currentPolicies, Counters: s.engine.Quota},
		Secrets:      secrets.Routes{References: s.references},
		Analytics:    analytics.Routes{Log: s.logs, GroupEntries: s.sum},
		Jobs:         jobs.Routes{Queued: s.jobs.Notify},
		Directory:    directory.Routes{UserMode: s.DirectoryUserMode},
		Webhooks:     webhooks.Routes{Sender: s.webhooks, Queued: s.jobs.Notify},
		Exports:      exports.Routes{Files: s.exportFiles(), Started: s.jobs.Notify, GroupEntries: s.sum},
		Logs:         controlplane.Logs{Log: s.logs, Flush: s.flushLog, Recorder: importRecorder{s.ledger, s.tail}, Policy: s.logPolicy},
		Cache:        s.cacheInvalidations(),
	})
	s.documentRoutes()
}
