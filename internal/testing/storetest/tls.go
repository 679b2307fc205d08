package storetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// Sets of connections that a server accepts: the lines of pg_hba.conf.
const (
	PlainOnly   = "hostnossl all all all trust\nhostssl all all all reject\n"
	TLSOnly     = "hostssl all all all trust\nhostnossl all all all reject\n"
	WithClients = "hostssl all all all trust clientcert=verify-ca\n"
	anything    = "host all all all trust\n"
)

// Reconfigure restarts the server with other accepted connections and a certificate,
// its key and the authority of its clients, all in PEM. An empty certificate disables
// encryption.
func (s *Server) Reconfigure(t testing.TB, takes, certificate, key, authority string) {
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

// Authority signs certificates.
type Authority struct {
	PEM string // its own certificate

	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority creates an authority that is valid for an hour.
func NewAuthority(t testing.TB, name string) *Authority {
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
	return &Authority{pemOf("CERTIFICATE", raw), parsed, key}
}

// Issue returns a certificate for a host and its key, in PEM.
func (a *Authority) Issue(t testing.TB, host string) (certificate, key string) {
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
