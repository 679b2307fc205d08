// Package server assembles and runs the gateway.
//
// [New] opens the data folder, reads the settings, builds the first snapshot and binds
// the listeners; [Server.Run] serves until its context ends and then drains. It
// guarantees that a failed reload changes nothing and that stopping loses nothing that
// was served. It does not handle requests (see dataplane and controlplane) or flags and
// signals (see cmd).
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"modelgate/internal/base/clientaddr"
	"modelgate/internal/base/secret"
	"modelgate/internal/cache/respcache"
	"modelgate/internal/controlplane"
	"modelgate/internal/controlplane/exports"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/sessions"
	"modelgate/internal/controlplane/webhooks"
	"modelgate/internal/dataplane"
	"modelgate/internal/dataplane/agents"
	"modelgate/internal/dataplane/socket"
	"modelgate/internal/dataplane/tools"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/guardrail"
	"modelgate/internal/guardrail/checks"
	"modelgate/internal/identity/jwt"
	"modelgate/internal/limits/inflight"
	"modelgate/internal/limits/policy"
	"modelgate/internal/model/pricing"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/caching"
	"modelgate/internal/provider"
	"modelgate/internal/provider/health"
	"modelgate/internal/records/ledger"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/telemetry"
	"modelgate/internal/secrets/datakey"
	"modelgate/internal/secrets/secretref"
	"modelgate/internal/server/connections"
	"modelgate/internal/settings"
	"modelgate/internal/snapshot"
	"modelgate/internal/stateplane"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
	"modelgate/internal/upstream"
)

// Options configure a gateway. Listen, AdminListen and Data are required; the rest may
// be zero.
type Options struct {
	Data        string // folder of local files; created if necessary
	Listen      string // host:port of the API
	AdminListen string // host:port of metrics and health; empty disables the listener

	// AdminToken is required to read metrics. It may be empty if only this host can
	// reach the admin listener.
	AdminToken secret.String

	Config string // modelgate.yaml; empty for none

	// PublicURL is the prefix of links, without a trailing slash. If empty, the
	// settings decide.
	PublicURL string

	// Database is the control plane's database, in the form of store.Open. Empty is a
	// file in the data folder. DatabaseOptions configure the connection to PostgreSQL.
	Database        secret.String
	DatabaseOptions store.Options

	// LogsDatabase is the database of the log; see [LogsAddress]. It has the same
	// options.
	LogsDatabase secret.String

	ModuleCompiler []string      // Command of wasmcode.Options; nil compiles modules in this process
	BootstrapKey   secret.String // a gateway key with every scope, for automation
	MasterKey      secret.String // seals and opens credentials
	// PreviousMasterKey opens what was sealed before the master key changed. Empty is
	// none.
	PreviousMasterKey secret.String

	// DeploymentSecret authenticates the gateway as part of a deployment, which limits
	// it to the keys of the deployment's workspaces. Empty serves all.
	DeploymentSecret secret.String

	TrustedHosts  []string // in addition to those of the settings
	TrustLoopback bool     // custom hosts may be on this host: demo and development

	// ManagedProviders are managed providers in addition to those of the settings.
	// Without a workspace they belong to the first one.
	ManagedProviders []snapshot.ManagedProvider
	// Specs are provider definitions in addition to the table. One with an id of the
	// table replaces it.
	Specs []*provider.Spec

	// Upstream configures upstream connections. The settings and the fields above take
	// precedence.
	Upstream upstream.Options

	// Tools serves the requests to tool servers. Nil has none.
	Tools dataplane.Tools

	// PriceFiles says where prices are read in addition to the built-in book.
	PriceFiles PriceFiles
	// Time is the clock of price files and of the lifetimes of cached responses. Nil is
	// time.Now.
	Time func() time.Time

	// Off are disabled features. Retention is displayed and removes nothing.
	Off       route.DisabledFeatures
	Retention route.Retention
	// DirectoryUserMode is directory.Routes.UserMode.
	DirectoryUserMode bool

	// OIDCScopes are requested from every identity provider in addition to its own.
	OIDCScopes []string

	Logger *slog.Logger // nil is silent
	// LogLevel is set to the level in the settings. Nil keeps the logger's own.
	LogLevel *slog.LevelVar
	Version  string
	Commit   string // from which the program was built; empty if it is unknown

	// NoRecording disables the ledger and the log, to measure what recording costs.
	// There is deliberately no setting for it.
	NoRecording bool

	// HeapFloor is the heap size, in bytes, below which garbage is not collected. Zero
	// keeps Go's default.
	HeapFloor int
}

// Server is a gateway.
type Server struct {
	Options
	holder       snapshot.Holder
	store        *store.DB
	logs         *logstore.Store
	ledger       *ledger.Ledger
	spender      *budgetCounter
	counters     *limitCounters
	telemetry    *telemetry.Exporter // nil if nothing is sent
	exports      *exports.Runner     // nil if disabled
	webhooks     *webhooks.Sender
	jobs         *jobs.Runner
	kept         *stateplane.Plane
	process      string            // name of this process in jobs and in the health of providers
	cache        *caching.Cache    // nil if responses are not cached
	sharedCache  *respcache.Shared // nil for the store memory
	cacheKeys    *cacheKeys        // nil as well then
	prices       *pricing.Keeper
	providers    health.Registry // what was seen of managed providers
	engine       *attempt.Engine
	gate         *inflight.Gate
	metrics      *metrics
	first        *settings.Settings // at the start
	proxies      atomic.Pointer[clientaddr.Policy]
	lifetimes    atomic.Pointer[sessions.Lifetimes] // of sessions
	inbound      inboundLimits
	certificates *certificates // nil without TLS

	api, admin         *http.Server
	apiAddr, adminAddr net.Listener

	plane    http.Handler
	requests *dataplane.Plane // the same, unless a test replaces plane
	logRoute http.Handler
	tail     *controlplane.Tail
	sockets  *socket.Server

	toolServers *tools.Relay
	agents      *agents.Relay
	toolPeers   *peer.Peers
	toolUsers   *connections.Service
	control     *route.API
	ready       atomic.Bool
	space       spaceProbe // of the ledger's disk
	draining    atomic.Bool
	serving     *inFlight
	firstKey    secret.String
	claim       secret.String // token of the claim link; empty if there is an owner
	ballast     []byte
	watcher     *fsnotify.Watcher // of the config file's folder; nil for none

	// end cancels the requests that outlast the drain.
	end context.CancelCauseFunc

	guardrails *guardrail.Table
	modules    *checks.Modules
	shadows    shadowSampler
	compiler   *guardrailCompiler // of saved guardrails

	box      *secret.Box // of the master key; nil without one
	ring     *datakey.Keyring
	issuers  *jwt.KeySetCache // key sets of token issuers
	follower *storeWatcher
	copy     stateWriter
	away     atomic.Bool // the database was unavailable at the last check
	deaf     atomic.Bool // notifications of other nodes' changes do not arrive

	mu    sync.Mutex // one reload at a time
	state state      // input of the current snapshot; guarded by mu
	// policies are those of the current snapshot, with what requests know of their
	// values; guarded by mu.
	policies *policy.Set

	references *secretref.Resolver
	secrets    *secretref.Cache
	uses       secretUses
	renewed    chan struct{} // receives a token after a secret changed, or a guardrail was compiled late
}

// New opens everything the gateway needs. Errors are one line for an operator. The
// caller must call Run or Close.
func New(ctx context.Context, o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = slog.New(newLineLimit(o.Logger.Handler()))
	s := &Server{Options: o, serving: newCrowd(), follower: newFollower(), copy: newCopies()}
	if err := s.open(ctx); err != nil {
		s.Close()
		return nil, err
	}
	s.ballast = ballast(o.HeapFloor) // allocated late, so that garbage of the start is not mixed with what stays
	return s, nil
}

func (s *Server) open(ctx context.Context) error {
	if err := checkLength("the bootstrap key (MODELGATE_BOOTSTRAP_KEY)", s.BootstrapKey); err != nil {
		return err
	}
	if err := checkTrustedHosts("MODELGATE_TRUSTED_HOSTS", s.TrustedHosts); err != nil {
		return err
	}
	if err := s.openBox(); err != nil {
		return err
	}
	s.watcher = s.watchFile() // before reading the file, so that no change is missed
	set, err := s.readSettings()
	if err != nil {
		return err
	}
	stored, err := s.openData(ctx, set)
	if err != nil {
		return err
	}
	if _, err := s.ownDeployment(stored); err != nil {
		return err
	}
	if set.Listener.TLS.Enabled() {
		if s.certificates, err = loadCertificates(set.Listener.TLS); err != nil {
			return err
		}
	}
	if err := s.listen(); err != nil {
		return err
	}
	s.inbound = newInboundLimits(set)
	s.engine = s.newEngine(set)
	s.gate = newGate(set, s.engine.Bounds.Pool)
	s.openGuardrails()
	if err := errors.Join(s.openCounters(ctx, set), s.openCache(ctx, set)); err != nil {
		return err
	}
	if err := s.openLedger(ctx, set); err != nil {
		return err
	}
	if err := s.openTelemetry(ctx, set); err != nil {
		return err
	}
	if err := s.openState(set); err != nil {
		return err
	}
	if err := s.openJobs(set); err != nil {
		return err
	}
	if err := s.openPrices(set); err != nil {
		return err
	}
	s.issuers = jwt.New(jwt.Options{Client: s.engine.Client, Logger: s.Logger})
	s.metrics = newMetrics(s)
	s.first = set
	s.openReferences(set)
	if err := s.publish(set, stored); err != nil {
		return err
	}
	s.copy.put(stored)
	s.spender.seed(ctx)
	s.reloadHolds(ctx)
	s.makeRoutes(set)
	s.makeServers()
	// The key is shown only once, so it is created when nothing else can fail.
	if err := s.ensureKey(ctx); err != nil {
		return err
	}
	s.warnPasskeys(ctx)
	return s.ensureClaim(ctx)
}

// orNone converts d: zero is the default and a negative value no limit.
func orNone(d settings.Duration) time.Duration { return time.Duration(d) }

func (s *Server) readSettings() (*settings.Settings, error) {
	if s.Config == "" {
		return new(settings.Settings), nil
	}
	return loadSettings(s.Config, s.box)
}

func loadSettings(file string, box *secret.Box) (*settings.Settings, error) {
	set, err := settings.Load(file, settings.SecretResolver{Env: os.LookupEnv, Box: box})
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("settings file %s not found", file)
	}
	if err != nil {
		return nil, err
	}
	_, err = set.Upstream.Authorities()
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return set, errors.Join(checkTrustedHosts(file, set.Upstream.TrustedHosts), err)
}

// checkTrustedHosts checks a list of trusted hosts. Place names it in errors.
func checkTrustedHosts(place string, hosts []string) error {
	for _, h := range hosts {
		if err := upstream.CheckTrusted(h); err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
	}
	return nil
}

// FirstKey returns the gateway key created because the data folder had none, empty on
// later starts. It cannot be shown again.
func (s *Server) FirstKey() secret.String { return s.firstKey }

// Providers returns the number of managed providers.
func (s *Server) Providers() int { return s.holder.Load().Providers() }

// Handler returns the API without its listener.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serveAPI) }

// Close releases everything at once. It is not needed after Run.
func (s *Server) Close() error {
	var errs []error
	if s.watcher != nil {
		s.watcher.Close()
	}
	if s.secrets != nil {
		s.secrets.Close()
	}
	s.compiler.close()
	for _, l := range []net.Listener{s.apiAddr, s.adminAddr} {
		if l != nil {
			l.Close()
		}
	}
	errs = append(errs, s.closeCache(), s.closeRecords(), s.closeTelemetry())
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	if s.issuers != nil {
		s.issuers.Close()
	}
	if s.engine != nil {
		s.engine.Client.Close()
	}
	return errors.Join(errs...)
}
