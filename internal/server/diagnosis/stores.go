package diagnosis

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"strings"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/server"
	"modelgate/internal/settings"
	"modelgate/internal/storage/kv"
	"modelgate/internal/storage/postgres"
	"modelgate/internal/storage/sqlite"
)

// storeConnections, logConnections and counterConnections return how many connections a node
// opens at most; see docs/operations.md.
func (in *input) storeConnections() int {
	return 2*in.Server.DatabaseOptions.Postgres().PoolSize(0) + 1
}

func (in *input) logConnections() int {
	o := in.Server.DatabaseOptions.Postgres()
	return o.PoolSize(6) + o.PoolSize(2)
}

func (in *input) counterConnections() int { return in.Server.DatabaseOptions.Postgres().PoolSize(8) }

// connections returns how many connections to the control plane's database a node opens.
func (in *input) connections() int {
	n := in.storeConnections()
	address, err := server.LogsAddress(in.Server.LogsDatabase, in.Server.Database)
	if err == nil && !address.Empty() && isSame(address, in.Server.Database) {
		n += in.logConnections()
	}
	if isSame(in.counters(), in.Server.Database) {
		n += in.counterConnections()
	}
	return n
}

func isSame(a, b secret.String) bool { return a.Reveal() == b.Reveal() }

// counters returns the address of the counters of limits, empty for memory.
func (in *input) counters() secret.String {
	c := &in.settings.Limits.Counters
	switch {
	case in.Server.Off[route.UsageLimits], c.Store == settings.CountersInMemory:
		return secret.String{}
	case !c.Address().Empty():
		return c.Address()
	case postgres.IsAddress(in.Server.Database.Reveal()):
		return in.Server.Database
	}
	return secret.String{}
}

// storeChecks returns the checks of the log, the cache and the counters of limits.
func (in *input) storeChecks() []check {
	address, err := server.LogsAddress(in.Server.LogsDatabase, in.Server.Database)
	o := in.Server.DatabaseOptions.Postgres()
	log := check{"log", !address.Empty(), func(ctx context.Context) []Finding {
		switch {
		case err != nil:
			return one(Failed, "", "%v", err)
		case address.Empty():
			return in.checkLogFile(ctx)
		case isSame(address, in.Server.Database):
			return one(OK, "", "it is in the control plane's database")
		}
		o := o
		o.Setting = "MODELGATE_LOGS_DATABASE_URL"
		return in.checkPostgres(ctx, address.Reveal(), o, in.logConnections())
	}}
	list := []check{log}
	if c := &in.settings.Cache; c.Store == settings.CacheInRedis {
		list = append(list, redisCheck("cache", "cache.url", c.Address()))
	}
	counters := in.counters()
	switch {
	case counters.Empty() || isSame(counters, in.Server.Database):
	case postgres.IsAddress(counters.Reveal()):
		o.Setting = "limits.counters.url"
		list = append(list, check{"counters of limits", true, func(ctx context.Context) []Finding {
			return in.checkPostgres(ctx, counters.Reveal(), o, in.counterConnections())
		}})
	default:
		list = append(list, redisCheck("counters of limits", "limits.counters.url", counters))
	}
	return list
}

func (in *input) checkLogFile(ctx context.Context) []Finding {
	db, path, err := sqlite.Inspect(ctx, in.logFile())
	if errors.Is(err, fs.ErrNotExist) {
		return one(Note, "", "%s does not exist yet; the first start creates it", in.logFile())
	}
	if err != nil {
		return one(Failed, "", "%v", err)
	}
	defer db.Close()
	return one(OK, "", "%s can be read", path)
}

func redisCheck(name, setting string, address secret.String) check {
	return check{name, true, func(ctx context.Context) []Finding {
		began := time.Now()
		if err := kv.Ping(ctx, kv.Options{URL: address, Setting: setting}); err != nil {
			return one(Failed, "check "+setting+" and that the server runs", "%v", err)
		}
		return one(OK, "", "Redis responds in %s", since(began))
	}}
}

// databaseServer is what PostgreSQL says of itself.
type databaseServer struct {
	version             string
	now                 time.Time
	readOnly, mayCreate bool
	limit, reserved     int
	others, nodes       int    // connections that are not of gateways, and gateways that listen for changes
	tls                 string // version; empty if the connection is not encrypted
}

const serverQuery = `
	SELECT current_setting('server_version'), clock_timestamp(),
		pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on',
		coalesce(has_schema_privilege(current_schema(), 'CREATE'), false),
		current_setting('max_connections')::int, current_setting('superuser_reserved_connections')::int,
		(SELECT count(*) FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND (datname <> current_database() OR usename <> current_user))::int,
		(SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND usename = current_user AND query LIKE 'LISTEN "modelgate_%')::int,
		coalesce((SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()), '')`

// checkPostgres connects to a database and asks what it allows. Need is the number of
// connections that a node opens.
func (in *input) checkPostgres(ctx context.Context, dsn string, o postgres.Options, need int) []Finding {
	at, err := postgres.ParseServer(dsn, o)
	if err != nil {
		return one(Failed, "", "%v", err)
	}
	conn, err := at.Connect(ctx)
	if err != nil {
		return one(Failed, "", "%s: %s", at.Name, at.Reason(err))
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var s databaseServer
	began := time.Now()
	err = conn.QueryRow(ctx, serverQuery).Scan(&s.version, &s.now, &s.readOnly, &s.mayCreate, &s.limit,
		&s.reserved, &s.others, &s.nodes, &s.tls)
	ended := time.Now()
	if err != nil {
		return one(Failed, "", "%s: %s", at.Name, at.Reason(err))
	}
	in.clock.add("the database", s.now, began, ended)
	took := ended.Sub(began).Round(100 * time.Microsecond)
	list := one(OK, "", "%s: PostgreSQL %s responds in %s, %s", at.Name, s.version, took, s.encryption())
	return append(list, s.problems(conn.Config().Host, need)...)
}

func (s *databaseServer) encryption() string {
	if s.tls == "" {
		return "not encrypted"
	}
	return "encrypted with " + s.tls
}

// problems returns what will not work, or not for long.
func (s *databaseServer) problems(host string, need int) (list []Finding) {
	if s.tls == "" && !isLocal(host) {
		list = append(list, one(Warning, "set DB_SSL to VERIFY_IDENTITY, and DB_SSL_CA", "the connection to %s is not encrypted", host)...)
	}
	if s.readOnly {
		list = append(list, one(Failed, "name the primary server", "the server accepts no changes")...)
	} else if !s.mayCreate {
		list = append(list, one(Failed, "GRANT CREATE ON SCHEMA public TO the user of the address", "the user may not create tables")...)
	}
	nodes := max(s.nodes, 1)
	if free := s.limit - s.reserved - s.others; free < nodes*need {
		list = append(list, one(Warning, "raise max_connections of the server, lower DB_CONNECTIONS, or use a pooler",
			"a node opens up to %d connections, %d nodes %d, and %d of %d are free for them", need, nodes, nodes*need, max(free, 0), s.limit)...)
	}
	return list
}

// isLocal reports whether a host is this machine.
func isLocal(host string) bool {
	if strings.HasPrefix(host, "/") || host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

func since(began time.Time) string { return time.Since(began).Round(100 * time.Microsecond).String() }
