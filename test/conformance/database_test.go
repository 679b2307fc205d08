package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/store/storetest"
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
		{"S-571", "DISABLED does not speak to who wants more", storetest.TLSOnly, here, []string{"DB_SSL=DISABLED"}, "reject"},
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
