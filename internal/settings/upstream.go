package settings

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"

	"modelgate/internal/base/oserr"
)

// maxAuthorities is the limit of a file of authorities, in bytes. Those of systems have a
// quarter of it.
const maxAuthorities = 1 << 20

// Authorities returns the authorities that connections to providers trust. Nil is the
// system's. The error names the field.
func (u *Upstream) Authorities() (*x509.CertPool, error) {
	if u.CA == "" {
		if u.OnlyCA {
			return nil, errors.New("upstream.only_ca: needs upstream.ca; without an authority, no provider could be reached")
		}
		return nil, nil
	}
	text := []byte(u.CA)
	if !strings.Contains(u.CA, "-----BEGIN") {
		var err error
		if text, err = os.ReadFile(u.CA); err != nil {
			return nil, fmt.Errorf("upstream.ca: %w", oserr.File(err))
		}
	}
	pool := x509.NewCertPool()
	if !u.OnlyCA {
		system, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("upstream.ca: the system's authorities cannot be read (%w); set upstream.only_ca to do without", err)
		}
		pool = system
	}
	if err := addAuthorities(pool, text); err != nil {
		return nil, fmt.Errorf("upstream.ca: %w", err)
	}
	return pool, nil
}

// addAuthorities adds all certificates of a text in PEM. Nothing else may be in it, because a
// private key or a broken certificate is there by mistake.
func addAuthorities(pool *x509.CertPool, text []byte) error {
	if len(text) > maxAuthorities {
		return fmt.Errorf("is longer than %d bytes", maxAuthorities)
	}
	for n := 1; ; n++ {
		var block *pem.Block
		block, text = pem.Decode(text)
		switch {
		case block == nil && strings.Contains(string(text), "-----BEGIN"):
			return fmt.Errorf("block %d is not PEM; copy the file again", n)
		case block == nil && n == 1:
			return errors.New("contains no certificate in PEM; if the file is in DER, convert it with openssl x509 -inform der")
		case block == nil:
			return nil
		case block.Type != "CERTIFICATE":
			return fmt.Errorf("block %d is %.40q, not a certificate; leave it out", n, block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("certificate %d cannot be read; copy the file again", n)
		}
		pool.AddCert(c)
	}
}
