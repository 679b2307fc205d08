package postgres

import (
	"crypto/x509"
	"encoding/pem"
	"testing"
)

func TestTheCloudsBundleHoldsAuthoritiesAlone(t *testing.T) {
	n := 0
	for rest := []byte(cloudBundle); ; n++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !c.IsCA || c.CheckSignatureFrom(c) != nil {
			t.Errorf("certificate %d: %v, authority %t", n, err, c != nil && c.IsCA)
		}
	}
	if n < 80 {
		t.Errorf("%d authorities, want those of every region", n)
	}
}
