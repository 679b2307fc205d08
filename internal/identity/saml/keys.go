package saml

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"time"

	"modelgate/internal/base/secret"
)

// Key is a key of the gateway with its certificate, which providers know it by.
type Key struct {
	Certificate *x509.Certificate
	private     *rsa.PrivateKey
}

// keyTime is how long certificates are valid. Providers look at the key, not at the time.
const keyTime = 10 * 365 * 24 * time.Hour

// NewKey returns a new key as PEM text, the private key and its certificate.
func NewKey(now time.Time) (secret.String, error) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return secret.String{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return secret.String{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "modelgate"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(keyTime),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return secret.String{}, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)})
	return secret.New(string(append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...))), nil
}

// ParseKeys returns the keys in PEM text, each followed by its certificate.
func ParseKeys(text secret.String) ([]Key, error) {
	var keys []Key
	var private *rsa.PrivateKey
	for rest := []byte(text.Reveal()); ; {
		var block *pem.Block
		var err error
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		switch block.Type {
		case "RSA PRIVATE KEY":
			private, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "CERTIFICATE":
			k := Key{private: private}
			k.Certificate, err = x509.ParseCertificate(block.Bytes)
			keys = append(keys, k)
		}
		if err != nil || private == nil {
			return nil, errors.New("the keys for the provider cannot be read")
		}
	}
	return keys, nil
}

// Rotate returns the keys in PEM text with a new one behind them, or, to finish, without the
// first.
func Rotate(text secret.String, finish bool, now time.Time) (secret.String, error) {
	if !finish {
		more, err := NewKey(now)
		return secret.New(text.Reveal() + more.Reveal()), err
	}
	for rest := []byte(text.Reveal()); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return text, errors.New("the keys for the provider cannot be read")
		}
		if block.Type == "CERTIFICATE" { // ends the first key
			return secret.New(string(rest)), nil
		}
	}
}
