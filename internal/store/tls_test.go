package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func TestTheModesOfEncryption(t *testing.T) {
	server := storetest.NewServer(t)
	ours, other := storetest.NewAuthority(t, "ours"), storetest.NewAuthority(t, "other")
	client, clientKey := ours.Issue(t, "client")
	strange, strangeKey := other.Issue(t, "client")
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, []byte(ours.PEM), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		takes  string // "" is a server without encryption
		host   string // in the server's certificate
		o      store.Options
		refuse string // what the error says; empty when it works
	}{
		{"nothing said, no encryption offered", "", "", store.Options{}, ""},
		{"nothing said, encryption offered", storetest.TLSOnly, "localhost", store.Options{}, ""},
		{"disabled", storetest.PlainOnly, "localhost", store.Options{SSL: "DISABLED"}, ""},
		{"disabled, encryption wanted", storetest.TLSOnly, "localhost", store.Options{SSL: "DISABLED"}, "reject"},
		{"preferred, offered", storetest.TLSOnly, "localhost", store.Options{SSL: "preferred"}, ""},
		{"preferred, not offered", "", "", store.Options{SSL: "PREFERRED"}, ""},
		{"required, offered by anyone", storetest.TLSOnly, "db.example", store.Options{SSL: "REQUIRED"}, ""},
		{"required, not offered", "", "", store.Options{SSL: "REQUIRED"}, "TLS"},
		{"authority verified", storetest.TLSOnly, "localhost", store.Options{SSL: "VERIFY_CA", CA: caFile}, ""},
		{"authority verified, other host", storetest.TLSOnly, "db.example", store.Options{SSL: "VERIFY_CA", CA: ours.PEM}, ""},
		{"another authority", storetest.TLSOnly, "localhost", store.Options{SSL: "VERIFY_CA", CA: other.PEM}, "unknown authority"},
		{"none of the system's authorities", storetest.TLSOnly, "localhost", store.Options{SSL: "VERIFY_CA"}, "unknown authority"},
		{"authority verified, not offered", "", "", store.Options{SSL: "VERIFY_CA", CA: ours.PEM}, "TLS"},
		{"identity verified", storetest.TLSOnly, "localhost", store.Options{SSL: "VERIFY_IDENTITY", CA: ours.PEM}, ""},
		{"identity verified, other host", storetest.TLSOnly, "db.example", store.Options{SSL: "VERIFY_IDENTITY", CA: ours.PEM}, "another name"},
		{"identity verified, another authority", storetest.TLSOnly, "localhost", store.Options{SSL: "VERIFY_IDENTITY", CA: other.PEM}, "unknown authority"},
		{"the cloud's authorities", storetest.TLSOnly, "localhost", store.Options{SSL: "CLOUD_A_BUNDLE"}, "unknown authority"},
		{"the cloud's authorities, by its product's name", storetest.TLSOnly, "localhost", store.Options{SSL: "Amazon RDS"}, "unknown authority"},
		{"a newer bundle of the cloud's authorities", storetest.TLSOnly, "localhost", store.Options{SSL: "CLOUD_A_BUNDLE", CA: ours.PEM}, ""},
		{"own certificate", storetest.WithClients, "localhost", store.Options{SSL: "REQUIRED", Cert: client, Key: clientKey}, ""},
		{"own certificate of another server", storetest.WithClients, "localhost", store.Options{SSL: "REQUIRED", Cert: strange, Key: strangeKey}, ""},
		{"own certificate wanted", storetest.WithClients, "localhost", store.Options{SSL: "REQUIRED"}, "certificate"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			certificate, key := ours.Issue(t, tt.host)
			server.Reconfigure(t, tt.takes, certificate, key, ours.PEM)
			address, _, _ := strings.Cut(server.DSN(), "?")
			db, err := store.Open(t.Context(), address, tt.o)
			if err == nil {
				db.Close()
			}
			wantsError := tt.refuse != "" || strings.Contains(tt.name, "of another server")
			if (err != nil) != wantsError || err != nil && (!strings.Contains(err.Error(), tt.refuse) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("Open() = %v, want one line with %q", err, tt.refuse)
			}
		})
	}
}

func TestHalfOfWhatEncryptionNeedsIsRefused(t *testing.T) {
	authority := storetest.NewAuthority(t, "a")
	certificate, key := authority.Issue(t, "client")
	for _, tt := range []struct {
		name string
		o    store.Options
		says string
	}{
		{"a certificate without its key", store.Options{Cert: certificate}, "DB_SSL_KEY"},
		{"a key without its certificate", store.Options{Key: key}, "DB_SSL_CERT"},
		{"the wrong way round", store.Options{Cert: key, Key: certificate}, "DB_SSL_CERT"},
		{"no such file", store.Options{SSL: "VERIFY_CA", CA: "/nowhere/ca.pem"}, "DB_SSL_CA"},
		{"no certificate in it", store.Options{SSL: "VERIFY_CA", CA: "-----BEGIN NOTHING-----"}, "DB_SSL_CA"},
		{"no such mode", store.Options{SSL: "MAYBE"}, "VERIFY_IDENTITY"},
	} {
		_, err := store.Connect(t.Context(), "postgres://user:canary@127.0.0.1:1/db", tt.o)
		if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: Connect() = %v, want %s named and no password", tt.name, err, tt.says)
		}
	}
}
