package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/sessions"
	"modelgate/internal/model/pricing"
	"modelgate/internal/server"
	"modelgate/internal/settings"
)

// serveFlags are the flags of commands that run a gateway.
type serveFlags struct {
	data, listen, admin, config *string
	public                      *string
	trusted                     *string
	adminToken                  keyFlags
	master                      masterFlags
	logLevel, logFormat         *string
}

func newServeFlags(f *flags, data string) serveFlags {
	return serveFlags{
		data:   f.text("data", "MODELGATE_DATA", data, "`folder` of the databases; created if missing"),
		listen: f.text("listen", "MODELGATE_LISTEN", "127.0.0.1:8787", "`host:port` of the API"),
		admin:  f.text("admin-listen", "MODELGATE_ADMIN_LISTEN", "127.0.0.1:8788", "`host:port` of metrics and health; \"off\" disables it"),
		config: f.text("config", "MODELGATE_CONFIG", "", "settings `file` (modelgate.yaml)"),
		public: f.text("public-url", "MODELGATE_PUBLIC_URL", "",
			"base `address` of links, for example https://gateway.example.com; defaults to public_url of the settings file, otherwise the address of --listen"),
		trusted: f.text("trusted-hosts", "MODELGATE_TRUSTED_HOSTS", "",
			"comma-separated `list` of hosts, host:port, *.suffix or CIDR that custom hosts may use even if private"),
		master: newMasterFlags(f),
		adminToken: keyFlags{
			f.text("admin-token-file", "", "",
				"`file` with the bearer token of metrics; or the token itself in the environment variable MODELGATE_ADMIN_TOKEN"),
			new(string), "admin-token", "MODELGATE_ADMIN_TOKEN",
		},
		logLevel: f.text("log-level", "MODELGATE_LOG_LEVEL", "",
			"least `level` of messages: debug, info, warn or error; defaults to log.level of the settings file, otherwise info"),
		logFormat: f.text("log-format", "MODELGATE_LOG_FORMAT", "text", "`format` of messages: text or json"),
	}
}

const serveHelp = `Runs the gateway.

MODELGATE_BOOTSTRAP_KEY in the environment is a gateway key with every scope,
accepted from the first start. MODELGATE_DEPLOYMENT_SECRET is the secret of the
deployment that the gateway belongs to: it then serves only the keys of the
deployment's workspaces.

To turn off a feature, set its variable to OFF: GUARDRAILS_ENABLED,
API_ACCESS_ENABLED, DATA_EXPORTS_ENABLED, USAGE_LIMITS_ENABLED,
AUDIT_LOGS_ENABLED, SCIM_ENABLED, POLICY_ENABLED. LOG_RETENTION_DISPLAY (90) and
METRICS_RETENTION_DISPLAY (365) are numbers of days to display; they are not enforced.

Prices of providers come from the first of these sources that has them, and are
cached for an hour: MODEL_CONFIGS_PROXY_URL, if MODEL_CONFIGS_PROXY_FETCH_ENABLED is ON;
MODEL_CONFIGS_PRICING_LOG_STORE_PATH, a folder in the file store;
MODEL_CONFIGS_PRICING_LOCAL_PATH, a folder on this host; the built-in price book.
MODEL_CONFIGS_CAPABILITIES_LOG_STORE_PATH and MODEL_CONFIGS_CAPABILITIES_LOCAL_PATH
are the folders of capabilities.`

func serve(p *program) *cobra.Command {
	f := p.flags("serve",
		serveHelp,
		`modelgate serve --data data --config modelgate.yaml
modelgate serve --listen 0.0.0.0:8787 --database-url postgres://modelgate@db.example.com/modelgate`)
	sf := newServeFlags(f, "data")
	d := databaseFlags{data: sf.data}.withAddress(f)
	logs := logsFlag(f)
	return f.run(func(ctx context.Context) error {
		o, err := sf.options(ctx, p)
		if err != nil {
			return err
		}
		o.Database = secret.New(*d.url)
		_, o.DatabaseOptions = d.address()
		o.LogsDatabase = secret.New(*logs)
		return p.run(ctx, o, func(s *server.Server) { p.printStartup(s, p.keyHint(d)) })
	})
}

// options converts flags and environment to the options of server.
func (sf serveFlags) options(ctx context.Context, p *program) (server.Options, error) {
	o := server.Options{
		Data:        *sf.data,
		Listen:      *sf.listen,
		AdminListen: *sf.admin,
		Config:      *sf.config,
		Version:     version,
		Commit:      commit,

		ModuleCompiler: compilerCommand(),
		HeapFloor:      server.HeapFloor,
	}
	if o.AdminListen == "off" {
		o.AdminListen = ""
	}
	o.TrustedHosts = splitHosts(*sf.trusted)
	var err error
	if o.BootstrapKey, err = p.secret("MODELGATE_BOOTSTRAP_KEY"); err != nil {
		return o, err
	}
	if o.DeploymentSecret, err = p.secret("MODELGATE_DEPLOYMENT_SECRET"); err != nil {
		return o, err
	}
	if *sf.public != "" {
		if o.PublicURL, err = settings.ParsePublicURL(*sf.public); err != nil {
			return o, usage("--public-url %v", err)
		}
	}
	if o.MasterKey, o.PreviousMasterKey, err = sf.master.read(ctx, p); err != nil {
		return o, err
	}
	if o.AdminToken, err = sf.adminToken.read(ctx, p); err != nil {
		return o, fmt.Errorf("reading the admin token: %w", err)
	}
	level := new(slog.LevelVar) // info
	if *sf.logLevel == "" {
		o.LogLevel = level
	} else if err := level.UnmarshalText([]byte(*sf.logLevel)); err != nil {
		return o, usage("the log level must be debug, info, warn or error, not %q", *sf.logLevel)
	}
	if o.Logger, err = p.logger(level, *sf.logFormat); err != nil {
		return o, err
	}
	return o, p.readFeatures(&o)
}

// readFeatures reads the settings that only the environment has: disabled features, the
// displayed retention, scopes of identity providers, and who manages the members of groups.
func (p *program) readFeatures(o *server.Options) (err error) {
	if o.Retention, err = route.ReadRetention(p.env); err != nil {
		return usage("%v", err)
	}
	var doubts []route.Feature
	o.Off, doubts = route.ParseDisabledFeatures(p.env)
	for _, f := range doubts {
		o.Logger.Warn("feature not disabled; only the exact value OFF disables it", "variable", string(f))
	}
	for name := range strings.SplitSeq(p.env("OIDC_CUSTOM_SCOPES"), ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(o.OIDCScopes, name) {
			o.OIDCScopes = append(o.OIDCScopes, name)
		}
	}
	const userMode = "SCIM_MEMBERSHIP_USER_MODE"
	switch on := p.env(userMode); on {
	case "", "OFF":
	case "ON":
		o.DirectoryUserMode = true
	default:
		return usage("%s must be ON or OFF, not %.20q", userMode, on)
	}
	return p.readPriceFiles(o)
}

// readPriceFiles reads where files with prices are.
func (p *program) readPriceFiles(o *server.Options) (err error) {
	o.PriceFiles = server.PriceFiles{
		PricingLogStore: p.env("MODEL_CONFIGS_PRICING_LOG_STORE_PATH"), CapabilitiesLogStore: p.env("MODEL_CONFIGS_CAPABILITIES_LOG_STORE_PATH"),
		PricingLocal: p.env("MODEL_CONFIGS_PRICING_LOCAL_PATH"), CapabilitiesLocal: p.env("MODEL_CONFIGS_CAPABILITIES_LOCAL_PATH"),
	}
	const enabled, address = "MODEL_CONFIGS_PROXY_FETCH_ENABLED", "MODEL_CONFIGS_PROXY_URL"
	switch on := p.env(enabled); {
	case on != "" && on != "ON" && on != "OFF":
		return usage("%s must be ON or OFF, not %.20q", enabled, on)
	case on == "ON" && p.env(address) == "":
		o.Logger.Warn("price proxy not used; its address is missing", "variable", address)
	case on == "ON":
		if o.PriceFiles.Proxy, err = pricing.ParseProxy(p.env(address)); err != nil {
			return usage("%s %v", address, err)
		}
	case p.env(address) != "":
		o.Logger.Warn("price proxy not used; it is not enabled", "variable", enabled)
	}
	return nil
}

func (p *program) logger(level slog.Leveler, format string) (*slog.Logger, error) {
	o := &slog.HandlerOptions{Level: level}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(p.err, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(p.err, o)), nil
	}
	return nil, usage("the log format must be text or json, not %q", format)
}

// run serves until a signal ends it gracefully; a second signal ends it at once.
func (p *program) run(ctx context.Context, o server.Options, greet func(*server.Server)) error {
	s, err := server.New(ctx, o)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	greet(s) // readers of the output may send a signal at once
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	now := make(chan struct{})
	done := make(chan struct{})
	defer close(done)
	drain := func() {
		p.notify(daemon.SdNotifyStopping)
		stop()
	}
	reload := func() {
		p.notify(daemon.SdNotifyReloading)
		s.Reload(context.WithoutCancel(ctx))
		p.notify(daemon.SdNotifyReady)
	}
	go handleSignals(signals, done, drain, now, reload)
	p.notify(daemon.SdNotifyReady) // connections are accepted, and wait until they are served
	return s.Run(ctx, now)
}

// handleSignals handles signals: SIGHUP reloads, the first other one drains, the second
// ends at once.
func handleSignals(signals <-chan os.Signal, done <-chan struct{}, drain func(), now chan<- struct{}, reload func()) {
	draining := false
	for {
		select {
		case <-done:
			return
		case sig := <-signals:
			switch {
			case sig == syscall.SIGHUP:
				reload()
			case !draining:
				draining = true
				drain()
			default:
				close(now)
				return
			}
		}
	}
}

// printStartup prints the addresses of the gateway, and the first key, which is shown
// only once, with the command to create more.
func (p *program) printStartup(s *server.Server, more string) {
	fmt.Fprintf(p.out, "modelgate %s serves %s/v1\n", version, s.Root())
	if a := s.AdminAddr(); a != nil {
		fmt.Fprintf(p.out, "metrics and health at http://%s/metrics, /health, /ready\n", a)
	}
	fmt.Fprintf(p.out, "log retention: %s; change it with logs.retention in the settings\n", s.LogRetention())
	fmt.Fprintf(p.out, "audit log retention: %s; change it with audit.retention in the settings\n", s.AuditLogRetention())
	if s.Providers() == 0 {
		fmt.Fprint(p.out,
			"no managed providers configured; send provider keys with requests, or add providers to modelgate.yaml and pass --config (docs/settings.md)\n")
	}
	if key := s.FirstKey(); !key.Empty() {
		fmt.Fprintf(p.out, "\nThis is the first start. Your gateway key, shown only once:\n\n  %s\n\n%s", key.Reveal(), more)
	}
	if s.LinksAreLocal() {
		fmt.Fprintf(p.out, "links begin with %s; set --public-url or public_url to the address that others use to reach the gateway\n", s.URL())
	}
	if claim := s.Claim(); !claim.Empty() {
		fmt.Fprintf(p.out, "\nThis installation has no owner yet. Claim it within a day at\n\n  %s%s?token=%s\n", s.URL(), sessions.ClaimPath,
			claim.Reveal())
	}
}
