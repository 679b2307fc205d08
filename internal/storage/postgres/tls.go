package postgres

import (
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"modelgate/internal/base/oserr"
)

// cloudBundle is the authorities of the cloud's managed databases, those that
// have not ended by the time of writing. It publishes them at
// https://truststore.pki.rds.amazonaws.com/global/global-bundle.pem.
//
//go:embed cloud_a.pem
var cloudBundle string

// secure sets how connections are encrypted, to each of the hosts that the
// address names.
func (o Options) secure(cfg *pgx.ConnConfig) error {
	mode := strings.ToUpper(strings.TrimSpace(o.SSL))
	var ways []*pgconn.FallbackConfig
	for _, at := range hosts(cfg) {
		encrypted, err := o.tls(at.Host, mode)
		if err != nil {
			return err
		}
		local := strings.HasPrefix(at.Host, "/") // a socket of this machine, which is never encrypted
		if !local && encrypted != nil {
			ways = append(ways, &pgconn.FallbackConfig{Host: at.Host, Port: at.Port, TLSConfig: encrypted})
		}
		if local || encrypted == nil || mode == "" || mode == "PREFERRED" {
			ways = append(ways, &pgconn.FallbackConfig{Host: at.Host, Port: at.Port})
		}
	}
	first := ways[0]
	cfg.Host, cfg.Port, cfg.TLSConfig, cfg.Fallbacks = first.Host, first.Port, first.TLSConfig, ways[1:]
	return nil
}

// hosts returns the hosts that the address names, each once.
func hosts(cfg *pgx.ConnConfig) []pgconn.FallbackConfig {
	list := []pgconn.FallbackConfig{{Host: cfg.Host, Port: cfg.Port}}
	for _, f := range cfg.Fallbacks {
		if last := list[len(list)-1]; f.Host != last.Host || f.Port != last.Port {
			list = append(list, pgconn.FallbackConfig{Host: f.Host, Port: f.Port})
		}
	}
	return list
}

func (o Options) tls(host, mode string) (*tls.Config, error) {
	c := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if err := o.present(c); err != nil {
		return nil, err
	}
	switch mode {
	case "DISABLED":
		return nil, nil
	case "", "PREFERRED", "REQUIRED":
		c.InsecureSkipVerify = true // encryption without identity, as the modes say
		return c, nil
	case "VERIFY_CA", "VERIFY_IDENTITY":
	case "CLOUD_A_BUNDLE", "AMAZON RDS":
		if o.CA == "" {
			o.CA = cloudBundle
		}
	default:
		return nil, fmt.Errorf("DB_SSL is DISABLED, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY or CLOUD_A_BUNDLE, not %.40q", o.SSL)
	}
	if o.CA != "" {
		pem, err := pemText("DB_SSL_CA", o.CA)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("DB_SSL_CA contains no certificate in PEM format")
		}
	}
	if mode == "VERIFY_CA" {
		verifyChainOnly(c)
	}
	return c, nil
}

// verifyChainOnly checks the chain and leaves the name of the host unchecked.
func verifyChainOnly(c *tls.Config) {
	roots := c.RootCAs
	c.InsecureSkipVerify = true // replaced by the check below
	c.VerifyConnection = func(s tls.ConnectionState) error {
		between := x509.NewCertPool()
		for _, cert := range s.PeerCertificates[1:] {
			between.AddCert(cert)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
		return err
	}
}

// present loads the client's own certificate.
func (o Options) present(c *tls.Config) error {
	if o.Cert == "" && o.Key == "" {
		return nil
	}
	if o.Cert == "" || o.Key == "" {
		return errors.New("DB_SSL_CERT and DB_SSL_KEY are given together or not at all")
	}
	cert, err := pemText("DB_SSL_CERT", o.Cert)
	if err != nil {
		return err
	}
	key, err := pemText("DB_SSL_KEY", o.Key)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return errors.New("DB_SSL_CERT and DB_SSL_KEY are not a certificate and its key in PEM")
	}
	c.Certificates = []tls.Certificate{pair}
	return nil
}

// pemText returns a PEM text, which value holds or names the file of.
func pemText(name, value string) ([]byte, error) {
	if strings.Contains(value, "-----BEGIN") {
		return []byte(value), nil
	}
	text, err := os.ReadFile(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, oserr.File(err))
	}
	return text, nil
}
