package store_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modelgate/internal/store"
	"modelgate/internal/store/storetest"
)

// What the server takes: the lines of pg_hba.conf.
const (
	plainOnly   = "hostnossl all all all trust\nhostssl all all all reject\n"
	tlsOnly     = "hostssl all all all trust\nhostnossl all all all reject\n"
	withClients = "hostssl all all all trust clientcert=verify-ca\n"
	anything    = "host all all all trust\n"
)

func TestTheModesOfEncryption(t *testing.T) {
	server := storetest.NewServer(t)
	ours, other := newAuthority(t, "ours"), newAuthority(t, "other")
	client, clientKey := ours.issue(t, "client")
	strange, strangeKey := other.issue(t, "client")
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, []byte(ours.pem), 0o600); err != nil {
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
		{"nothing said, encryption offered", tlsOnly, "localhost", store.Options{}, ""},
		{"disabled", plainOnly, "localhost", store.Options{SSL: "DISABLED"}, ""},
		{"disabled, encryption wanted", tlsOnly, "localhost", store.Options{SSL: "DISABLED"}, "reject"},
		{"preferred, offered", tlsOnly, "localhost", store.Options{SSL: "preferred"}, ""},
		{"preferred, not offered", "", "", store.Options{SSL: "PREFERRED"}, ""},
		{"required, offered by anyone", tlsOnly, "db.example", store.Options{SSL: "REQUIRED"}, ""},
		{"required, not offered", "", "", store.Options{SSL: "REQUIRED"}, "TLS"},
		{"authority verified", tlsOnly, "localhost", store.Options{SSL: "VERIFY_CA", CA: caFile}, ""},
		{"authority verified, other host", tlsOnly, "db.example", store.Options{SSL: "VERIFY_CA", CA: ours.pem}, ""},
		{"another authority", tlsOnly, "localhost", store.Options{SSL: "VERIFY_CA", CA: other.pem}, "unknown authority"},
		{"none of the system's authorities", tlsOnly, "localhost", store.Options{SSL: "VERIFY_CA"}, "unknown authority"},
		{"authority verified, not offered", "", "", store.Options{SSL: "VERIFY_CA", CA: ours.pem}, "TLS"},
		{"identity verified", tlsOnly, "localhost", store.Options{SSL: "VERIFY_IDENTITY", CA: ours.pem}, ""},
		{"identity verified, other host", tlsOnly, "db.example", store.Options{SSL: "VERIFY_IDENTITY", CA: ours.pem}, "127.0.0.1"},
		{"identity verified, another authority", tlsOnly, "localhost", store.Options{SSL: "VERIFY_IDENTITY", CA: other.pem}, "unknown authority"},
		{"the cloud's authorities", tlsOnly, "localhost", store.Options{SSL: "CLOUD_A_BUNDLE"}, "unknown authority"},
		{"the cloud's authorities, by its product's name", tlsOnly, "localhost", store.Options{SSL: "Amazon RDS"}, "unknown authority"},
		{"a newer bundle of the cloud's authorities", tlsOnly, "localhost", store.Options{SSL: "CLOUD_A_BUNDLE", CA: ours.pem}, ""},
		{"own certificate", withClients, "localhost", store.Options{SSL: "REQUIRED", Cert: client, Key: clientKey}, ""},
		{"own certificate of a stranger", withClients, "localhost", store.Options{SSL: "REQUIRED", Cert: strange, Key: strangeKey}, ""},
		{"own certificate wanted", withClients, "localhost", store.Options{SSL: "REQUIRED"}, "certificate"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			certificate, key := ours.issue(t, tt.host)
			reconfigure(t, server, tt.takes, certificate, key, ours.pem)
			address, _, _ := strings.Cut(server.DSN(), "?")
			db, err := store.Open(t.Context(), address, tt.o)
			if err == nil {
				db.Close()
			}
			wantsError := tt.refuse != "" || strings.Contains(tt.name, "stranger")
			if (err != nil) != wantsError || err != nil && (!strings.Contains(err.Error(), tt.refuse) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("Open() = %v, want one line with %q", err, tt.refuse)
			}
		})
	}
}

func TestHalfOfWhatEncryptionNeedsIsRefused(t *testing.T) {
	authority := newAuthority(t, "a")
	certificate, key := authority.issue(t, "client")
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

// reconfigure makes a server take other connections. Empty takes turns
// encryption off.
func reconfigure(t *testing.T, s *storetest.Server, takes, certificate, key, authority string) {
	t.Helper()
	s.Stop()
	s.Write(t, "data/pg_hba.conf", anything)
	s.Write(t, "data/postgresql.auto.conf", "ssl = off\n")
	if takes != "" {
		s.Write(t, "data/pg_hba.conf", takes)
		s.Write(t, "data/server.crt", certificate)
		s.Write(t, "data/server.key", key)
		s.Write(t, "data/root.crt", authority)
		s.Write(t, "data/postgresql.auto.conf", "ssl = on\nssl_ca_file = 'root.crt'\n")
	}
	s.Start(t)
}

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         string
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := template(name)
	of.IsCA, of.BasicConstraintsValid, of.KeyUsage = true, true, x509.KeyUsageCertSign
	raw, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{parsed, key, pemOf("CERTIFICATE", raw)}
}

// issue returns a certificate for a host, and its key.
func (a *authority) issue(t *testing.T, host string) (certificate, key string) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := template(host)
	of.DNSNames = []string{host}
	if host == "localhost" {
		of.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	raw, err := x509.CreateCertificate(rand.Reader, of, a.certificate, &own.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return pemOf("CERTIFICATE", raw), pemOf("EC PRIVATE KEY", der)
}

func template(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
}

func pemOf(kind string, raw []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}))
}
