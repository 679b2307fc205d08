package diagnosis

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"modelgate/internal/base/secret"
	"modelgate/internal/secrets/datakey"
	"modelgate/internal/server"
	"modelgate/internal/settings"
	"modelgate/internal/storage/postgres"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
	"modelgate/internal/upstream"
)

// input is what the checks read. It does not change while they run.
type input struct {
	Options
	settings *settings.Settings // of an empty file if there is none, or it is invalid
	box      *secret.Box        // nil without a master key
	client   *upstream.Client
	direct   *upstream.Client // without a proxy
	clock    *clock

	state  *state      // nil before the database was read
	loaded chan *state // receives it
}

// state is what the database has.
type state struct {
	db        *store.DB
	stored    *publication.State
	ring      *datakey.Keyring
	endpoints []store.WebhookEndpoint
}

// load reads the settings and the master key.
func load(o Options) (in *input, findings []Finding) {
	in = &input{Options: o, settings: new(settings.Settings), clock: new(clock), loaded: make(chan *state, 1)}
	add := func(name string, list []Finding) {
		for _, f := range list {
			f.Check = name
			findings = append(findings, f)
		}
	}
	if o.StartError != nil {
		add("flags", one(Failed, "correct the flag or the variable", "%v", o.StartError))
	}
	var err error
	if in.box, err = server.MasterBox(o.Server.MasterKey, o.Server.PreviousMasterKey); err != nil {
		add("master key", one(Failed, "", "%v", err))
	}
	add("settings", in.loadSettings())
	shared := o.Server.Upstream
	shared.TrustedHosts = slices.Concat(shared.TrustedHosts, o.Server.TrustedHosts, in.settings.Upstream.TrustedHosts)
	shared.TrustLoopback = shared.TrustLoopback || o.Server.TrustLoopback
	if pool, err := in.settings.Upstream.Authorities(); err == nil && pool != nil { // its error is one of the settings
		shared.RootCAs = pool
	}
	shared.DialTimeout, shared.TLSHandshakeTimeout = o.Timeout*3/5, o.Timeout*3/5
	in.client = upstream.New(shared)
	shared.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	in.direct = upstream.New(shared)
	return in, findings
}

// loadSettings reads the settings file and returns what `modelgate check` says of it.
func (in *input) loadSettings() (list []Finding) {
	o := &in.Server
	if o.Config == "" {
		return one(Note, "", "no settings file (--config or MODELGATE_CONFIG): all settings have their defaults")
	}
	notes, err := server.CheckSettings(o.Config, o.TrustedHosts, o.MasterKey, o.PreviousMasterKey)
	set, loadErr := settings.Load(o.Config, settings.SecretResolver{Env: os.LookupEnv, Box: in.box})
	if loadErr == nil {
		in.settings = set
	}
	err = cmp.Or(err, loadErr)
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			list = append(list, one(Failed, "correct the file; `modelgate check` reports the same", "%s", strings.TrimSpace(line))...)
		}
	} else {
		list = one(OK, "", "%s is valid", o.Config)
	}
	for _, n := range notes {
		list = append(list, one(Note, "", "%s", n)...)
	}
	return list
}

// databaseFile returns the path of the control plane's SQLite file, empty for PostgreSQL.
func (in *input) databaseFile() string {
	dsn := server.DatabaseAddress(in.Server.Data, in.Server.Database)
	if postgres.IsAddress(dsn) {
		return ""
	}
	return strings.TrimPrefix(strings.TrimPrefix(dsn, "file:"), "//")
}

// checkDatabase opens the control plane's database and reads its state, which it passes on.
func (in *input) checkDatabase(ctx context.Context) (list []Finding) {
	dsn := server.DatabaseAddress(in.Server.Data, in.Server.Database)
	if in.databaseFile() == "" {
		list = in.checkPostgres(ctx, dsn, in.Server.DatabaseOptions.Postgres(), in.connections())
		if CountFailures(list) > 0 {
			return list
		}
	}
	db, err := store.Inspect(ctx, dsn, in.Server.DatabaseOptions)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return one(Note, "", "%s does not exist yet; the first start creates it", in.databaseFile())
	case err != nil:
		return append(list, one(Failed, "", "%v", err)...)
	}
	pending, err := db.Pending(ctx)
	if err != nil {
		db.Close()
		return append(list, one(Failed, "", "%v", err)...)
	}
	s := &state{db: db, ring: datakey.New(db, in.box)}
	s.stored, err = publication.Load(ctx, db, nil)
	if err == nil {
		s.endpoints, err = db.ActiveWebhookEndpoints(ctx)
	}
	switch {
	case len(pending) > 0:
		list = append(list, one(Note, "", "%s: %d pending migrations, from %s on; the next start, or `modelgate migrate`, applies them",
			db.Name(), len(pending), pending[0])...)
	case err != nil:
		list = append(list, one(Failed, "", "%s cannot be read: %v", db.Name(), db.ClientError(err))...)
	default:
		list = append(list, one(OK, "", "%s: all migrations are applied; revision %d", db.Name(), s.stored.Revision)...)
	}
	if err != nil { // of an earlier version, perhaps
		db.Close()
		return append(list, one(Note, "", "providers and webhooks of the database are not checked, because it cannot be read before the migrations")...)
	}
	in.loaded <- s
	return list
}

// checks returns the checks that need nothing of the database, and that of the database.
func (in *input) checks() (list []check) {
	list = []check{
		{"data folder", false, in.checkFolder},
		{"disk", false, in.checkDisk},
		{"files", false, in.checkFiles},
		{"open files", false, in.checkOpenFiles},
		{"TLS files", false, in.checkTLSFiles},
		{"database", in.databaseFile() == "", in.checkDatabase},
	}
	list = append(list, in.storeChecks()...)
	list = append(list, check{"ledger", false, in.checkLedger})
	list = append(list, in.listenChecks()...)
	list = append(list, in.proxyChecks()...)
	list = append(list, in.publicURLChecks()...)
	list = append(list, in.serviceChecks()...)
	return append(list, in.destinationChecks(server.Destinations(in.settings, nil, nil), nil)...)
}

// stateChecks returns the checks of what the database has.
func (in *input) stateChecks() []check {
	list := []check{{"master key", false, in.checkMasterKey}}
	known := server.Destinations(in.settings, nil, nil)
	all := server.Destinations(in.settings, in.state.stored, in.state.ring)
	list = append(list, in.destinationChecks(all[len(known):], known)...)
	return append(list, in.endpointChecks()...)
}

// checkMasterKey opens what the master key has sealed: all data keys, and one credential of
// each organisation.
func (in *input) checkMasterKey(context.Context) []Finding {
	s := in.state
	if err := s.ring.Check(s.stored.DataKeys); err != nil {
		return one(Failed, "", "%v", err)
	}
	if in.box == nil {
		return one(Note, "", "no master key: the gateway stores no credentials (set MODELGATE_MASTER_KEY, --master-key-file or --master-key-command)")
	}
	sealed := make(map[string]string) // one of each organisation
	for i := range s.stored.Providers {
		row := &s.stored.Providers[i].Integration.Row
		sealed[row.Organisation] = cmp.Or(sealed[row.Organisation], row.Sealed)
	}
	for i := range s.stored.GuardrailCredentials {
		c := &s.stored.GuardrailCredentials[i]
		sealed[c.Organisation] = cmp.Or(sealed[c.Organisation], c.Sealed)
	}
	opened := 0
	for organisation, text := range sealed {
		if text == "" {
			continue
		}
		if _, err := s.ring.OpenWith(organisation, s.stored.DataKeys[organisation], text); err != nil {
			return one(Failed, "start with the master key that the credential was sealed with, or restore the database from a backup",
				"a credential of the organisation %s cannot be opened: %v", organisation, err)
		}
		opened++
	}
	return one(OK, "", "it opens the data keys of %d organisations, and a credential of each of %d", len(s.stored.DataKeys), opened)
}

// ledgerFolder returns the folder of the ledger.
func (in *input) ledgerFolder() string { return server.LedgerDir(in.Server.Data) }

// logFile returns the file of the log.
func (in *input) logFile() string { return filepath.Join(in.Server.Data, "logs.db") }
