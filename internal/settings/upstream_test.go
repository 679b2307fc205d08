package settings_test

import (
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/settings"
)

// authority returns the certificate of a test server, in PEM.
func authority(t *testing.T) string {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	t.Cleanup(s.Close)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

func TestAuthoritiesOfProvidersAddToThoseOfTheSystem(t *testing.T) {
	ca := authority(t)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte("# the company's\n"+ca), 0o600); err != nil {
		t.Fatal(err)
	}
	only := x509.NewCertPool()
	only.AppendCertsFromPEM([]byte(ca))
	system, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	both := system.Clone()
	both.AppendCertsFromPEM([]byte(ca))
	for name, tt := range map[string]struct {
		u    settings.Upstream
		want *x509.CertPool
	}{
		"none":            {settings.Upstream{}, nil},
		"a file":          {settings.Upstream{CA: file}, both},
		"a text":          {settings.Upstream{CA: ca}, both},
		"a file, alone":   {settings.Upstream{CA: file, OnlyCA: true}, only},
		"two authorities": {settings.Upstream{CA: ca + ca, OnlyCA: true}, only},
	} {
		got, err := tt.u.Authorities()
		if err != nil || (got == nil) != (tt.want == nil) || got != nil && !got.Equal(tt.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, tt.want)
		}
	}
}

func TestUnusableAuthoritiesAreRefusedByName(t *testing.T) {
	ca := authority(t)
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")}))
	broken := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("broken")}))
	for name, tt := range map[string]struct {
		u    settings.Upstream
		says string
	}{
		"no file":               {settings.Upstream{CA: "/does/not/exist.pem"}, "upstream.ca: "},
		"a folder":              {settings.Upstream{CA: t.TempDir()}, "upstream.ca: "},
		"an empty file":         {settings.Upstream{CA: file("")}, "contains no certificate in PEM"},
		"not PEM":               {settings.Upstream{CA: file("\x30\x82\x01\x02")}, "contains no certificate in PEM"},
		"a private key":         {settings.Upstream{CA: file(ca + key)}, `block 2 is "PRIVATE KEY"`},
		"a broken certificate":  {settings.Upstream{CA: file(ca + broken)}, "certificate 2 cannot be read"},
		"a certificate cut off": {settings.Upstream{CA: file(ca + ca[:len(ca)/2])}, "block 2 is not PEM"},
		"nothing but trust":     {settings.Upstream{OnlyCA: true}, "upstream.only_ca: needs upstream.ca"},
		"a file without end":    {settings.Upstream{CA: file(strings.Repeat("#", 2<<20))}, "is longer than"},
	} {
		got, err := tt.u.Authorities()
		if err == nil || got != nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "c2VjcmV0") {
			t.Errorf("%s: %v, want an error with %q", name, err, tt.says)
		}
	}
}
