package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/quotatest"
	"modelgate/internal/testing/storetest"
)

// password is in the addresses of these tests and must not be in an error.
const password = "s3cret-of-an-address"

// jargon matches what drivers, the standard library and the system call a cause.
var jargon = regexp.MustCompile(`SQLSTATE|dial (tcp|unix)|\blookup |[: ](x509|tls|json|yaml|strconv): |net/http|\bGet "|no such file or directory|\(\d+\)|pgconn|rueidis|EOF|%!`)

// sentenceProblems returns what is wrong with the words of an error: a run of four
// words that it says twice, the words of a driver, or a password.
func sentenceProblems(text string) (problems []string) {
	words, seen := strings.Fields(strings.ToLower(text)), make(map[string]bool)
	for i := 0; i+4 <= len(words); i++ {
		run := strings.TrimRight(strings.Join(words[i:i+4], " "), ".:;,")
		if seen[run] {
			problems = append(problems, fmt.Sprintf("says %q twice", run))
		}
		seen[run] = true
	}
	if m := jargon.FindString(text); m != "" {
		problems = append(problems, fmt.Sprintf("has the words of a driver: %q", m))
	}
	for _, secret := range []string{password, `\u003c`, `\u003e`, `\u0026`} {
		if strings.Contains(text, secret) {
			problems = append(problems, "contains "+secret)
		}
	}
	return problems
}

// failing is a command that fails, and words that its error must have: the setting to
// change, or the file.
type failing struct {
	name string
	args []string
	env  []string
	says []string
}

// check runs the command and checks its error.
func (c failing) check(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // if it starts after all
	defer cancel()
	var out, log output
	p := &program{strings.NewReader(""), &out, &log, environment(c.env), c.env}
	code, errs := p.main(ctx, c.args), log.String()
	line, _, _ := strings.Cut(errs, "\nrun `modelgate ") // of wrong usage
	if code == 0 {
		t.Errorf("modelgate %s ended with 0", strings.Join(c.args, " "))
	}
	for _, want := range c.says {
		if !strings.Contains(line, want) {
			t.Errorf("%q does not name %q", line, want)
		}
	}
	for _, problem := range sentenceProblems(line) {
		t.Errorf("%s: %s", problem, line)
	}
}

// mustFolder returns a folder with files, and with a damaged database in each of two
// folders of data.
func mustFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, data := range []string{"data", "damaged", "damaged-log", "folder/modelgate.db"} {
		if err := os.MkdirAll(filepath.Join(dir, data), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"file":                  "x",
		"empty":                 "\n",
		"damaged/modelgate.db":  strings.Repeat("not a database; ", 512),
		"damaged-log/logs.db":   strings.Repeat("not a database; ", 512),
		"syntax.yaml":           "version: 1\nproviders: [\n",
		"unknown.yaml":          "version: 1\nfoo: 1\n",
		"variable.yaml":         "providers: [{slug: a, provider: openai, api_key: '${NOT_SET_HERE}'}]\n",
		"tls.yaml":              "listener: {tls: {certificate: " + dir + "/absent.pem, key: " + dir + "/absent.key}}\n",
		"half-tls.yaml":         "listener: {tls: {certificate: " + dir + "/file, key: " + dir + "/file}}\n",
		"binary.yaml":           "\xff\xfe\x00",
		"option.yaml":           "providers: [{slug: a, provider: openai, options: {regoin: x}}]\n",
		"slugs.yaml":            "providers: [{slug: a, provider: openai}, {slug: a, provider: openai}]\n",
		"short.key":             "short\n",
		"syntax.json":           `{"targets":[{`,
		"unknown.json":          `{"strategy":{"mode":"<best>"},"foo":[]}`,
		"prices.csv":            "a,b\n1,2\n",
		"counters-address.yaml": "limits: {counters: {store: redis, url: '${WEB_ADDRESS_OF_A_TEST}'}}\n",
		"cache-address.yaml":    "cache: {store: redis, url: '${WEB_ADDRESS_OF_A_TEST}'}\n",
	} {
		mustWrite(t, filepath.Join(dir, name), text)
	}
	return dir
}

func TestErrorsOfFilesAndFlagsSayWhatToChange(t *testing.T) {
	dir := mustFolder(t)
	t.Setenv("WEB_ADDRESS_OF_A_TEST", "http://u:"+password+"@h")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	in := func(name string) string { return filepath.Join(dir, name) }
	serve := func(flags ...string) []string {
		return append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "off", "--data", in("data")}, flags...)
	}
	for _, c := range []failing{
		{"no settings file", serve("--config", in("absent.yaml")), nil, []string{"absent.yaml not found"}},
		{"a folder of settings", serve("--config", dir), nil, []string{dir + " is a folder"}},
		{"settings without an end", serve("--config", in("syntax.yaml")), nil, []string{"syntax.yaml:2:12"}},
		{"settings with an unknown field", serve("--config", in("unknown.yaml")), nil, []string{"unknown.yaml:2:1", `"foo"`}},
		{"settings with a variable that is not set", serve("--config", in("variable.yaml")), nil, []string{"NOT_SET_HERE", "api_key"}},
		{"settings that are not text", serve("--config", in("binary.yaml")), nil, []string{"binary.yaml"}},
		{"settings with a misspelt option", serve("--config", in("option.yaml")), nil, []string{"regoin"}},
		{"settings with a slug twice", serve("--config", in("slugs.yaml")), nil, []string{"slug"}},
		{"no certificate", serve("--config", in("tls.yaml")), nil, []string{"listener.tls", "absent.pem does not exist"}},
		{"a certificate that is none", serve("--config", in("half-tls.yaml")), nil, []string{"listener.tls"}},
		{"counters at an address of another kind", serve("--config", in("counters-address.yaml")), nil, []string{"limits.counters.url", "redis://"}},
		{"a cache at an address of another kind", serve("--config", in("cache-address.yaml")), nil, []string{"cache.url", "redis://"}},
		{"check of no file", []string{"check", in("absent.yaml")}, nil, []string{"absent.yaml not found"}},
		{"check of a folder", []string{"check", dir}, nil, []string{dir + " is a folder"}},
		{"check of no config", []string{"check", in("absent.json")}, nil, []string{"absent.json does not exist"}},
		{"check of half a config", []string{"check", in("syntax.json")}, nil, []string{"syntax.json", "byte"}},
		{"check of a config with unknown properties", []string{"check", in("unknown.json")}, nil, []string{`"<best>"`, "$.foo"}},
		{"apply of no file", []string{"apply", "--data", in("data"), in("absent.yaml")}, nil, []string{"absent.yaml does not exist"}},
		{"apply of half a file", []string{"apply", "--data", in("data"), in("syntax.yaml")}, nil, []string{"syntax.yaml:2:12"}},
		{"prices of no file", []string{"prices", "check", in("absent.csv")}, nil, []string{"absent.csv does not exist"}},
		{"prices that are none", []string{"prices", "check", in("prices.csv")}, nil, []string{"prices.csv"}},
		{"a data folder that is a file", serve("--data", in("file")), nil, []string{"--data", in("file"), "not a folder"}},
		{"a data folder below a file", serve("--data", in("file/data")), nil, []string{"MODELGATE_DATA", in("file"), "not a folder"}},
		{"a damaged database", serve("--data", in("damaged")), nil, []string{in("damaged/modelgate.db"), "restore a backup"}},
		{"a damaged log", serve("--data", in("damaged-log")), nil, []string{in("damaged-log/logs.db"), "restore a backup"}},
		{"a folder instead of a database", serve("--data", in("folder")), nil, []string{"name a file in it"}},
		{"a database in no folder", serve("--database-url", "file:/nowhere/x.db"), nil, []string{"/nowhere/x.db", "create the folder"}},
		{"a database of another kind", serve("--database-url", "mysql://u:"+password+"@h/x"), nil, []string{"postgres://"}},
		{"a database by keywords", serve("--database-url", "host=h password="+password), nil, []string{"postgres://"}},
		{"a database at half an address", serve("--database-url", "postgres://u:"+password+"@h:port/x"), nil, []string{"DATABASE_URL", "postgres://user:password@host:5432/name"}},
		{"a log at an address of another kind", serve("--logs-database-url", "mysql://u:"+password+"@h/x"), nil, []string{"MODELGATE_LOGS_DATABASE_URL"}},
		{"an unknown mode of encryption", serve("--database-url", "postgres://h/x", "--db-ssl", "SOME"), nil, []string{"DB_SSL", "VERIFY_CA"}},
		{"no file of authorities", serve("--database-url", "postgres://h/x", "--db-ssl", "VERIFY_CA", "--db-ssl-ca", in("absent.pem")), nil, []string{"DB_SSL_CA", "absent.pem does not exist"}},
		{"half a certificate", serve("--database-url", "postgres://h/x", "--db-ssl-cert", in("absent.pem")), nil, []string{"DB_SSL_KEY"}},
		{"a short master key", serve(), []string{"MODELGATE_MASTER_KEY=short"}, []string{"at least 16 bytes"}},
		{"a short master key in a file", serve("--master-key-file", in("short.key")), nil, []string{"at least 16 bytes"}},
		{"no master key file", serve("--master-key-file", in("absent.key")), nil, []string{"--master-key-file", "absent.key does not exist"}},
		{"an empty master key file", serve("--master-key-file", in("empty")), nil, []string{"--master-key-file", "is empty"}},
		{"a folder as master key", serve("--master-key-file", dir), nil, []string{"--master-key-file", "is a folder"}},
		{"a master key command that fails", serve("--master-key-command", "exit 3"), nil, []string{"--master-key-command", "exit status 3"}},
		{"a previous master key only", serve(), []string{"MODELGATE_MASTER_KEY_PREVIOUS=0123456789abcdef0123"}, []string{"MODELGATE_MASTER_KEY"}},
		{"no previous master key file", serve("--previous-master-key-file", in("absent.key")), nil, []string{"--previous-master-key-file"}},
		{"no admin token file", serve("--admin-token-file", in("absent")), nil, []string{"--admin-token-file", "does not exist"}},
		{"an address without a port", serve("--listen", "foo"), nil, []string{"API address foo", "host:port"}},
		{"an address with a port too high", serve("--listen", "127.0.0.1:99999"), nil, []string{"API address 127.0.0.1:99999", "host:port"}},
		{"an address of another machine", serve("--listen", "192.0.2.1:80"), nil, []string{"API address 192.0.2.1:80", "this machine"}},
		{"an address that is taken", serve("--listen", taken.Addr().String()), nil, []string{"already in use", "choose another"}},
		{"an admin address that is taken", serve("--admin-listen", taken.Addr().String()), nil, []string{"admin address", "already in use"}},
		{"a public address that is none", serve("--public-url", "foo"), nil, []string{"--public-url", "https://"}},
		{"trusted hosts with a scheme", serve("--trusted-hosts", "http://x"), nil, []string{"MODELGATE_TRUSTED_HOSTS"}},
		{"an unknown variable", serve(), []string{"MODELGATE_LISTN=x"}, []string{"did you mean MODELGATE_LISTEN?"}},
		{"no gateway for a health check", []string{"healthcheck", "--listen", "127.0.0.1:1"}, nil, []string{"127.0.0.1:1", "connection refused", "--listen"}},
		{"no gateway to tail", []string{"tail", "--url", "http://127.0.0.1:1"}, nil, []string{"127.0.0.1:1", "connection refused", "--url"}},
		{"a gateway without a name to tail", []string{"tail", "--url", "http://nothing.invalid"}, nil, []string{"nothing.invalid", "--url"}},
		{"an address of a gateway with a blank", []string{"tail", "--url", "foo bar"}, nil, []string{"--url"}},
		{"an address of a gateway by file transfer", []string{"tail", "--url", "ftp://foo"}, nil, []string{"--url", "http"}},
		{"a question that is not a file", []string{"explain", in("absent.json")}, nil, []string{"neither a file nor a request id"}},
		{"a ledger that is not there", []string{"ledger", "verify", "--data", in("absent")}, nil, []string{"--data", "does not exist"}},
		{"a key that is not there", []string{"keys", "revoke", "--data", in("data"), "nobody"}, nil, []string{"nobody not found"}},
		{"earlier heads that are not there", []string{"audit", "verify", "--data", in("data"), "--since", in("absent")}, nil, []string{"--since", "does not exist"}},
	} {
		t.Run(c.name, c.check)
	}
}

func TestErrorsOfDatabasesSayWhichSettingToCheck(t *testing.T) {
	server := storetest.NewServer(t)
	authority, other := storetest.NewAuthority(t, "ours"), storetest.NewAuthority(t, "another")
	certificate, key := authority.Issue(t, "db.example")
	storetest.Exec(t, server.DSN(), "CREATE ROLE guest LOGIN PASSWORD 'right'")
	at := func(user, database string) string {
		return fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s", user, server.Port, database)
	}
	dir := t.TempDir()
	serve := func(address string, flags ...string) []string {
		return append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "off", "--data", dir, "--database-url", address}, flags...)
	}
	const refused = "postgres://u:" + password + "@127.0.0.1:1/x"
	master := []string{"MODELGATE_MASTER_KEY=0123456789abcdef0123456789abcdef"}
	plain := []failing{
		{"no server", serve(refused), nil, []string{"x at 127.0.0.1", "connection refused", "DATABASE_URL"}},
		{"no server, with a master key", serve(refused), master, []string{"connection refused", "DATABASE_URL"}},
		{"no server to migrate", []string{"migrate", "--database-url", refused}, nil, []string{"connection refused", "DATABASE_URL"}},
		{"no host of the name", serve("postgres://u:" + password + "@nothing.invalid/x"), nil, []string{"nothing.invalid", "check the host", "DATABASE_URL"}},
		{"no database of the name", serve(at("postgres", "absent")), nil, []string{`"absent" does not exist`, "DATABASE_URL"}},
		{"no right to make tables", serve(at("guest", "postgres")), nil, []string{"permission denied", "grant", "DATABASE_URL"}},
		{"no right to make tables of the log", []string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "off", "--data", t.TempDir(), "--logs-database-url", at("guest", "postgres")}, nil, []string{"permission denied", "grant", "MODELGATE_LOGS_DATABASE_URL"}},
		{"no encryption", serve(at("postgres", "postgres"), "--db-ssl", "REQUIRED"), nil, []string{"does not offer TLS", "DB_SSL"}},
	}
	for _, c := range plain {
		t.Run(c.name, c.check)
	}
	server.Reconfigure(t, "hostssl all postgres all trust\nhostssl all guest all scram-sha-256\n", certificate, key, authority.PEM)
	for _, c := range []failing{
		{"a wrong password", serve(at("guest:"+password, "postgres")), nil, []string{"password authentication failed", "password in DATABASE_URL"}},
		{"an unencrypted connection", serve(at("postgres", "postgres"), "--db-ssl", "DISABLED"), nil, []string{"no encryption", "DB_SSL"}},
		{"another authority", serve(at("postgres", "postgres"), "--db-ssl", "VERIFY_CA", "--db-ssl-ca", other.PEM), nil, []string{"unknown authority", "DB_SSL_CA"}},
		{"another host", serve(at("postgres", "postgres"), "--db-ssl", "VERIFY_IDENTITY", "--db-ssl-ca", authority.PEM), nil, []string{"another name", "DATABASE_URL"}},
	} {
		t.Run(c.name, c.check)
	}
}

func TestErrorsOfRedisSayWhichSettingToCheck(t *testing.T) {
	redis := quotatest.NewRedis(t, "--requirepass", "right")
	master := []string{"MODELGATE_MASTER_KEY=0123456789abcdef0123456789abcdef"}
	for _, c := range []struct{ name, block, credential, says, setting string }{
		{"counters with a wrong password", "limits: {counters: {store: redis, url: %q}}\n", ":" + password + "@", "WRONGPASS", "limits.counters.url"},
		{"counters without a password", "limits: {counters: {store: redis, url: %q}}\n", "", "NOAUTH", "limits.counters.url"},
		{"a cache with a wrong password", "cache: {store: redis, url: %q}\n", ":" + password + "@", "WRONGPASS", "cache.url"},
	} {
		dir := t.TempDir()
		mustWrite(t, filepath.Join(dir, "settings.yaml"), fmt.Sprintf(c.block, "${REDIS_OF_A_TEST}"))
		t.Setenv("REDIS_OF_A_TEST", fmt.Sprintf("redis://%s127.0.0.1:%d", c.credential, redis.Port))
		args := []string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "off", "--data", dir, "--config", filepath.Join(dir, "settings.yaml")}
		t.Run(c.name, failing{c.name, args, master, []string{c.says, c.setting}}.check)
	}
}
