package conformance

import (
	"database/sql"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// TestConnectionsToTheDatabaseAreEncryptedAsTold starts the program on a
// real server that takes one kind of connection alone.
func TestConnectionsToTheDatabaseAreEncryptedAsTold(t *testing.T) {
	server := storetest.NewServer(t)
	ours, other := storetest.NewAuthority(t, "ours"), storetest.NewAuthority(t, "other")
	client, clientKey := ours.Issue(t, "client")
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	caFile, clientFile, clientKeyFile := file("ca.pem", ours.PEM), file("client.pem", client), file("client.key", clientKey)
	const here, elsewhere = "localhost", "db.example"
	for _, tt := range []struct {
		of, name string
		takes    string // "" is a server without encryption
		host     string // in its certificate
		env      []string
		refuses  string // what the start ends with; empty when it serves
	}{
		{"S-571", "DISABLED speaks in plain text", storetest.PlainOnly, here, []string{"DB_SSL=DISABLED"}, ""},
		{"S-571", "DISABLED does not connect to a server that requires TLS", storetest.TLSOnly, here, []string{"DB_SSL=DISABLED"}, "reject"},
		{"S-572", "PREFERRED encrypts where it can", storetest.TLSOnly, elsewhere, []string{"DB_SSL=PREFERRED"}, ""},
		{"S-572", "PREFERRED speaks in plain text else", "", "", []string{"DB_SSL=PREFERRED"}, ""},
		{"S-573", "REQUIRED takes any certificate", storetest.TLSOnly, elsewhere, []string{"DB_SSL=REQUIRED"}, ""},
		{"S-573", "REQUIRED takes no plain text", "", "", []string{"DB_SSL=REQUIRED"}, "TLS"},
		{"S-574 S-577", "VERIFY_CA takes another host", storetest.TLSOnly, elsewhere, []string{"DB_SSL=VERIFY_CA", "DB_SSL_CA=" + caFile}, ""},
		{"S-574 S-577", "VERIFY_CA takes no other authority", storetest.TLSOnly, here, []string{"DB_SSL=VERIFY_CA", "DB_SSL_CA=" + other.PEM}, "unknown authority"},
		{"S-575 S-577", "VERIFY_IDENTITY takes its host", storetest.TLSOnly, here, []string{"DB_SSL=VERIFY_IDENTITY", "DB_SSL_CA=" + ours.PEM}, ""},
		{"S-575", "VERIFY_IDENTITY takes no other host", storetest.TLSOnly, elsewhere, []string{"DB_SSL=VERIFY_IDENTITY", "DB_SSL_CA=" + ours.PEM}, "127.0.0.1"},
		{"S-576", "the cloud's authorities are built in, and do not know ours", storetest.TLSOnly, here, []string{"DB_SSL=CLOUD_A_BUNDLE", "SSL_CERT_FILE=" + caFile}, "unknown authority"},
		{"S-576", "the cloud's product is another name of it", storetest.TLSOnly, here, []string{"DB_SSL=Amazon RDS", "SSL_CERT_FILE=" + caFile}, "unknown authority"},
		{"S-577", "a client shows its certificate", storetest.WithClients, here, []string{"DB_SSL=REQUIRED", "DB_SSL_CERT=" + client, "DB_SSL_KEY=" + clientKey}, ""},
		{"S-577", "which may be files", storetest.WithClients, here, []string{"DB_SSL=REQUIRED", "DB_SSL_CERT=" + clientFile, "DB_SSL_KEY=" + clientKeyFile}, ""},
		{"S-577", "a server that wants one takes none without", storetest.WithClients, here, []string{"DB_SSL=REQUIRED"}, "certificate"},
		{"S-577", "half of a pair ends the start", storetest.WithClients, here, []string{"DB_SSL=REQUIRED", "DB_SSL_CERT=" + client}, "DB_SSL_KEY"},
		{"S-577", "and so does the other half", storetest.WithClients, here, []string{"DB_SSL=REQUIRED", "DB_SSL_KEY=" + clientKey}, "DB_SSL_CERT"},
	} {
		prove(t, tt.of, tt.name, func(t *testing.T) {
			certificate, key := ours.Issue(t, tt.host)
			server.Reconfigure(t, tt.takes, certificate, key, ours.PEM)
			address, _, _ := strings.Cut(server.DSN(), "?")
			g, err := launch("version: 1\n", append(tt.env, "DATABASE_URL="+address)...)
			if err == nil {
				defer g.stop()
			}
			if tt.refuses == "" && err != nil {
				t.Errorf("the program does not start: %v", err)
			}
			if tt.refuses != "" && (err == nil || !strings.Contains(err.Error(), tt.refuses)) {
				t.Errorf("the start ended with %v, want %q", err, tt.refuses)
			}
		})
	}
}

// TestFailedPublicationIsTriedAgain breaks a row that the gateway has to read
// with a new key, and repairs it without another change: the next look has to
// publish what the failed one did not.
func TestFailedPublicationIsTriedAgain(t *testing.T) {
	g := launchFor(t, "version: 1\n")
	raw, err := sql.Open("sqlite", filepath.Join(g.data, "modelgate.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	run := func(text string, args ...any) {
		t.Helper()
		waittest.Until(t, "the database is not locked: "+text, func() bool { _, err := raw.ExecContext(t.Context(), text, args...); return err == nil })
	}
	var settings string
	if err := raw.QueryRowContext(t.Context(), `SELECT settings FROM organisations WHERE slug = 'default'`).Scan(&settings); err != nil {
		t.Fatal(err)
	}
	const publishes = "\nmodelgate_snapshot_ok 1\n"
	run(`UPDATE organisations SET settings = '{' WHERE slug = 'default'`)
	key := strings.TrimSpace(mustCommand(t, "keys", "create", "--data", g.data, "--name", "late"))
	waittest.Until(t, "publishing fails", func() bool { return !strings.Contains(g.metrics(t), publishes) })
	if got := statusOf(t, g.url+"/models", key); got != http.StatusUnauthorized {
		t.Errorf("before it is published the key is answered %d", got)
	}
	run(`UPDATE organisations SET settings = $1 WHERE slug = 'default'`, settings)
	waittest.Until(t, "the key is published", func() bool { return statusOf(t, g.url+"/models", key) == http.StatusOK })
	if text := g.metrics(t); !strings.Contains(text, publishes) {
		t.Errorf("the metrics do not say that changes are published:\n%s", text)
	}
}

// metrics returns the metrics of the gateway.
func (g *gateway) metrics(t *testing.T) string {
	t.Helper()
	res, err := client.Get(g.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
