package auth_test

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/provider"
)

func ociOptions(more ...string) options {
	_, private := rsaPair()
	o := options{"oracle_tenancy": "ocid1.tenancy.oc1..aaaa", "oracle_user": "ocid1.user.oc1..bbbb", "oracle_fingerprint": "20:3b:97", "oracle_private_key": private}
	for i := 0; i < len(more); i += 2 {
		o[more[i]] = more[i+1]
	}
	return o
}

var ociSignature = regexp.MustCompile(`^Signature version="1",keyId="ocid1\.tenancy\.oc1\.\.aaaa/ocid1\.user\.oc1\.\.bbbb/20:3b:97",algorithm="rsa-sha256",headers="([^"]*)",signature="([^"]*)"$`)

func TestOracleRequestsAreSigned(t *testing.T) {
	private, one := rsaPair()
	hash := sha256.Sum256([]byte(`{"a":1}`))
	digest := base64.StdEncoding.EncodeToString(hash[:])
	for _, tt := range []struct {
		name, method, body string
		options            options
		want               string
	}{
		{"a request with a body", http.MethodPost, `{"a":1}`, ociOptions(),
			"(request-target): post /20231130/actions/chat?a=1\ndate: Sat, 21 Nov 2026 12:00:00 GMT\nhost: service.example.com\n" +
				"x-content-sha256: " + digest + "\ncontent-type: application/json\ncontent-length: 7"},
		{"a request without one", http.MethodGet, "", ociOptions(),
			"(request-target): get /20231130/actions/chat?a=1\ndate: Sat, 21 Nov 2026 12:00:00 GMT\nhost: service.example.com"},
		{"a key on one line", http.MethodGet, "", ociOptions("oracle_private_key", strings.ReplaceAll(one, "\n", `\n`)),
			"(request-target): get /20231130/actions/chat?a=1\ndate: Sat, 21 Nov 2026 12:00:00 GMT\nhost: service.example.com"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := row(provider.MethodOCI, "oracle_")
			spec.Auth.Header = ""
			target := mustTarget(t, spec, provider.Settings{Options: tt.options})
			req := newRequest(t, target)
			req.Method, req.URL.Path, req.URL.RawQuery = tt.method, "/20231130/actions/chat", "a=1"
			req.Header["date"] = []string{"yesterday"}
			if err := newWorld().signer().Sign(t.Context(), target, req, []byte(tt.body)); err != nil {
				t.Fatal(err)
			}
			m := ociSignature.FindStringSubmatch(req.Header.Get("Authorization"))
			if m == nil {
				t.Fatalf("Authorization: %s", req.Header.Get("Authorization"))
			}
			var names []string
			for line := range strings.SplitSeq(tt.want, "\n") {
				name, _, _ := strings.Cut(line, ": ")
				names = append(names, name)
			}
			if m[1] != strings.Join(names, " ") {
				t.Errorf("covers %q, want %q", m[1], names)
			}
			sum := sha256.Sum256([]byte(tt.want))
			seal, err := base64.StdEncoding.DecodeString(m[2])
			if err != nil {
				t.Fatal(err)
			}
			if err := rsa.VerifyPKCS1v15(&private.PublicKey, crypto.SHA256, sum[:], seal); err != nil {
				t.Errorf("signature: %v", err)
			}
			if req.Header.Get("Date") != "Sat, 21 Nov 2026 12:00:00 GMT" || len(map[string][]string(req.Header)["date"]) != 0 {
				t.Errorf("dates %v", req.Header)
			}
		})
	}
}

func TestOracleCredentialsThatCannotBeUsedAreRefused(t *testing.T) {
	for name, o := range map[string]options{
		"none":                         {},
		"no user":                      ociOptions("oracle_user", ""),
		"a tenancy with a quote":       ociOptions("oracle_tenancy", `a",x="`),
		"a key that is none":           ociOptions("oracle_private_key", "k"),
		"a key locked by a passphrase": ociOptions("oracle_private_key", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: DES-EDE3-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----"),
	} {
		t.Run(name, func(t *testing.T) {
			spec := row(provider.MethodOCI, "oracle_")
			spec.Auth.Header = ""
			_, err := sign(t, newWorld().signer(), spec, provider.Settings{Options: o})
			mustRefuse(t, err, apierr.Invalid, "")
		})
	}
}
