// Package server assembles the gateway and runs it.
//
// [New] opens the data folder, reads the settings, builds the first snapshot
// and binds the listeners; [Server.Run] serves until its context ends and then
// drains. It promises that a broken reload changes nothing and that a stop
// loses nothing that was answered. Serving a request is left to dataplane and
// controlplane, flags and signals to cmd.
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

	"modelgate/internal/apierr"
	"modelgate/internal/bytepool"
	"modelgate/internal/clientaddr"
	"modelgate/internal/controlplane"
	"modelgate/internal/controlplane/exports"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/datakey"
	"modelgate/internal/dataplane"
	"modelgate/internal/jwt"
	"modelgate/internal/ledger"
	"modelgate/internal/logstore"
	"modelgate/internal/pipeline"
	"modelgate/internal/provider"
	"modelgate/internal/provider/auth"
	"modelgate/internal/reqlog"
	"modelgate/internal/secret"
	"modelgate/internal/secretref"
	"modelgate/internal/settings"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
	"modelgate/internal/telemetry"
	"modelgate/internal/upstream"
)

// Options is how a gateway is started. Listen, AdminListen and Data have to be
// given; the rest may be zero.
type Options struct {
	Data        string // folder of what is kept on this machine; created when missing
	Listen      string // host:port of the API
	AdminListen string // host:port of metrics and health; empty opens none

	// AdminToken has to be sent for metrics. Empty is for an admin listener that
	// this machine alone can reach.
	AdminToken secret.String

	Config string // modelgate.yaml; empty reads none

	// PublicURL is the address that links begin with, without a slash at its end.
	// Empty leaves it to the settings.
	PublicURL string

	// Database is the control plane's, as store.Open takes it. Empty is a file in
	// the data folder. DatabaseOptions say how a PostgreSQL server is reached.
	Database        secret.String
	DatabaseOptions store.Options

	// LogsDatabase is where the log is kept, as [LogsAddress] takes it, reached
	// with the same options.
	LogsDatabase secret.String

	BootstrapKey secret.String // a gateway key with every scope, for automation
	MasterKey    secret.String // seals and opens credentials
	// PreviousMasterKey opens what was sealed before the master key changed.
	// Empty is none.
	PreviousMasterKey secret.String

	// DeploymentSecret identifies the gateway as one of a deployment: it then
	// serves the keys of that one's workspaces alone. Empty serves all.
	DeploymentSecret secret.String

	TrustedHosts  []string // beside those of the settings
	TrustLoopback bool     // custom hosts may be on this machine: demo and development

	// ManagedProviders are provider entries beside those of the settings. Those without a
	// workspace belong to the first one.
	ManagedProviders []snapshot.ManagedProvider
	// Specs are rows beside those of the provider table. One with the id of a
	// row is in its place.
	Specs []*provider.Spec

	// Upstream is how providers are reached, below what the settings and the
	// fields above say.
	Upstream upstream.Options

	// Off are features that are turned off. Retention is shown to people and
	// removes nothing.
	Off       route.DisabledFeatures
	Retention route.Retention

	Logger *slog.Logger // nil is silent
	// LogLevel is set to what the settings say. Nil keeps the logger's own.
	LogLevel *slog.LevelVar
	Version  string

	// NoRecording keeps no account of attempts and no entry of any exchange: what
	// recording costs is measured so. There is no setting of it.
	NoRecording bool

	// HeapFloor is the size, in bytes, below which the heap is left to grow
	// before its garbage is collected. Zero leaves that to Go's own rule.
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
	telemetry    *telemetry.Exporter // nil when nothing is sent
	exports      *exports.Runner     // nil when they are turned off
	engine       *pipeline.Engine
	metrics      *metrics
	first        *settings.Settings // of the start
	proxies      atomic.Pointer[clientaddr.Policy]
	lifetimes    atomic.Pointer[route.Lifetimes] // of sessions
	inbound      inboundLimits
	certificates *certificates // nil when connections are not encrypted

	api, admin         *http.Server
	apiAddr, adminAddr net.Listener

	plane    http.Handler
	refuse   func(http.ResponseWriter, *http.Request, error) // of plane, for requests to any path
	logRoute http.Handler
	tail     *controlplane.Tail
	control  *route.API
	ready    atomic.Bool
	draining atomic.Bool
	serving  *inFlight
	firstKey secret.String
	claim    secret.String // of the link for the first owner; empty when there is one
	ballast  []byte
	watcher  *fsnotify.Watcher // of the config file's folder; nil without one

	// end cancels every request that outlasts the drain.
	end context.CancelCauseFunc

	box      *secret.Box // of the master key; nil without one
	ring     *datakey.Keyring
	issuers  *jwt.KeySetCache // of the keys of tokens
	follower *storeWatcher
	copy     stateWriter
	away     atomic.Bool // the database could not be reached when last asked

	mu    sync.Mutex // one reload at a time
	state state      // what the current snapshot was built from; guarded by mu

	references *secretref.Resolver
	secrets    *secretref.Cache
	uses       secretUses
	renewed    chan struct{} // holds one token after a secret changed
}

// New opens everything the gateway needs. Errors are one line for an operator.
// The caller calls Run, or Close when it does not.
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
	s.ballast = ballast(o.HeapFloor) // not before: what the start leaves behind would lie among what stays
	return s, nil
}

func (s *Server) open(ctx context.Context) error {
	if err := trusted("MODELGATE_TRUSTED_HOSTS", s.TrustedHosts); err != nil {
		return err
	}
	if err := s.openBox(); err != nil {
		return err
	}
	s.watcher = s.watchFile() // before it is read, so that no change is missed
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
	if err := s.openLedger(ctx, set); err != nil {
		return err
	}
	if err := s.openTelemetry(ctx, set); err != nil {
		return err
	}
	if err := s.openExports(set); err != nil {
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
	s.makeRoutes(set)
	s.makeServers()
	// A key is shown once, so it is made when nothing else can fail any more.
	if err := s.ensureKey(ctx); err != nil {
		return err
	}
	return s.ensureClaim(ctx)
}

// makeRoutes makes what answers requests, of the data plane and of the control
// plane.
func (s *Server) makeRoutes(set *settings.Settings) {
	s.tail = new(controlplane.Tail)
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

		IsModelRoute: s.isModelRoute,

		PromptEnvelopeOnly: set.Compat.PromptEnvelopeOnly,

		ClientStall:     set.Timeouts.Client.Or(5 * time.Minute),
		AttemptsTimeout: orNone(set.Timeouts.Budget),
	})
	s.plane, s.refuse = plane, plane.Refuse
	logs := &controlplane.LogHandler{Authenticate: s.authenticate, Store: s.logs, Flush: s.flushLog, DB: s.store, Files: s.files, Logger: s.Logger}
	s.logRoute, s.tail.Logs = logs, logs
	s.control = controlplane.New(route.Deps{
		DB: s.store, Logger: s.Logger, Authenticate: s.authenticate, Token: s.token, CheckHost: s.engine.Client.CheckHost, Changed: s.storeChanged, Secrets: s.ring,
		Counted: s.ledger.Counted, Bodies: s.engine.Pool, Keyless: reqlog.NewAllowance(keylessPerDay(set)), Time: controlTime,
		Sum: s.sum, Log: s.logs, FlushLog: s.flushLog, Exports: s.maker(), Recorder: importRecorder{s.ledger, s.tail}, Kept: s.kept, Sessions: s.sessionLifetimes, SignIn: s.metrics.signIn, References: s.references, Files: s.files, PublicURL: s.publicURL, ListenURL: s.listenURL(), Off: s.Off, Retention: s.Retention, Version: s.Version,
	})
}

// orNone returns d, zero for the default and a negative value for no limit.
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
		return nil, fmt.Errorf("there is no settings file %s", file)
	}
	if err != nil {
		return nil, err
	}
	return set, trusted(file, set.Upstream.TrustedHosts)
}

// trusted checks a list of trusted hosts that is in place.
func trusted(place string, hosts []string) error {
	for _, h := range hosts {
		if err := upstream.CheckTrusted(h); err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
	}
	return nil
}

// CheckSettings checks a settings file as a start or a reload would, without
// starting anything.
func CheckSettings(file string, master, previous secret.String) error {
	box, err := MasterBox(master, previous)
	if err != nil {
		return err
	}
	set, err := loadSettings(file, box)
	if err != nil {
		return err
	}
	if _, err := snapshot.Build(input(set)); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

func (s *Server) newEngine(set *settings.Settings) *pipeline.Engine {
	t := set.Timeouts
	client := upstream.New(s.reach(set))
	return &pipeline.Engine{
		Client: client,
		Codecs: codecs(),
		Signer: auth.New(auth.Options{Client: client, ReadListed: func(name string) ([]byte, error) { return s.references.ReadListed(name) }}),
		Pool:   bytepool.New(set.Limits.BodyMemory.Or(1 << 30)),
		Limits: upstream.Timeouts{
			Header:     t.Header.Or(10 * time.Minute),
			FirstEvent: t.FirstToken.Or(5 * time.Minute),
			Idle:       t.Idle.Or(2 * time.Minute),
			Total:      t.Total.Or(0),
		},
		MaxAttempts: set.Limits.Attempts,

		MaxEvent:       int(set.Limits.Event.Or(16 << 20)),
		MaxDecoded:     set.Limits.Decoded.Or(64 << 20),
		UserAgent:      "modelgate/" + s.Version,
		SkipGuardrails: s.Off[route.Guardrails],
	}
}

// FirstKey returns the gateway key that was made because the data folder had
// none, empty on every later start. It can't be shown again.
func (s *Server) FirstKey() secret.String { return s.firstKey }

// Providers returns the number of managed providers.
func (s *Server) Providers() int { return s.holder.Load().Providers() }

// Addr returns the address of the API, and AdminAddr that of metrics and
// health, nil when there is none.
func (s *Server) Addr() net.Addr { return s.apiAddr.Addr() }

// AdminAddr returns the address of the admin listener, nil when there is none.
func (s *Server) AdminAddr() net.Addr {
	if s.adminAddr == nil {
		return nil
	}
	return s.adminAddr.Addr()
}

// Handler returns the API without its listener.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serveAPI) }

// Close releases everything at once. A server that Run has stopped is closed.
func (s *Server) Close() error {
	var errs []error
	if s.watcher != nil {
		s.watcher.Close()
	}
	if s.secrets != nil {
		s.secrets.Close()
	}
	for _, l := range []net.Listener{s.apiAddr, s.adminAddr} {
		if l != nil {
			l.Close()
		}
	}
	errs = append(errs, s.closeRecords(), s.closeTelemetry())
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	if s.engine != nil {
		s.issuers.Close()
		s.engine.Client.Close()
	}
	return errors.Join(errs...)
}

var errNotFound = apierr.New(apierr.NotFound, "there is nothing at this path; model routes begin with /v1/")
