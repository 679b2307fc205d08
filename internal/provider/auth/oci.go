package auth

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/provider"
)

// ociID matches a tenancy, a user or a fingerprint.
var ociID = boundedText{regexp.MustCompile(`^[A-Za-z0-9._:-]+$`), 1, 255}

// signOCI signs a request with the key of a user.
// https://docs.oracle.com/iaas/Content/API/Concepts/signingrequests.htm
func (s *Signer) signOCI(t *provider.Target, req *http.Request, body []byte) error {
	pem := t.Option("private_key")
	if pem == "" {
		pem = t.Key.Reveal()
	}
	if pem == "" {
		return checkKey(t)
	}
	var id []string
	for _, name := range []string{"tenancy", "user", "fingerprint"} {
		v := t.Option(name)
		if !ociID.MatchString(v) {
			return invalid(t, name, "is required to sign requests, and must consist of letters, digits, dots, dashes and colons")
		}
		id = append(id, v)
	}
	// In headers and environment variables a PEM text has \n instead of line
	// breaks.
	signer, bad := rsaKey(strings.ReplaceAll(pem, `\n`, "\n"))
	if bad != "" {
		return apierr.New(apierr.Invalid, "provider %q: the signing key %s", t.ID, bad).WithParam("private_key").WithCode("credential_malformed")
	}
	text, names, err := s.ociText(req, body)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(text))
	seal, err := rsa.SignPKCS1v15(nil, signer, crypto.SHA256, sum[:])
	if err != nil {
		return apierr.New(apierr.Invalid, "provider %q: the signing key cannot sign",
			t.ID).WithParam("private_key").WithCode("credential_malformed")
	}
	drop(req.Header, "Authorization")
	req.Header["Authorization"] = []string{`Signature version="1",keyId="` + strings.Join(id, "/") + `",algorithm="rsa-sha256",headers="` +
		names + `",signature="` + base64.StdEncoding.EncodeToString(seal) + `"`}
	return nil
}

// ociText sets the headers that the signature covers, and returns the text to
// sign and their names. The body is covered too if there is one.
func (s *Signer) ociText(req *http.Request, body []byte) (text, names string, err error) {
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	target := sentPath(req.URL)
	if req.URL.RawQuery != "" || req.URL.ForceQuery {
		target += "?" + req.URL.RawQuery
	}
	drop(req.Header, "Date", "X-Content-Sha256")
	date := s.Now().UTC().Format(http.TimeFormat)
	req.Header["Date"] = []string{date}
	lines := []string{"(request-target): " + strings.ToLower(req.Method) + " " + target, "date: " + date, "host: " + host}
	names = "(request-target) date host"
	if req.Method == http.MethodPost || req.Method == http.MethodPut || req.Method == http.MethodPatch {
		hash, length, err := contents(req, body)
		if err != nil {
			return "", "", err
		}
		kind := req.Header.Get("Content-Type")
		if kind == "" {
			kind = "application/json"
			req.Header["Content-Type"] = []string{kind}
		}
		digest := base64.StdEncoding.EncodeToString(hash[:])
		req.Header["X-Content-Sha256"] = []string{digest}
		lines = append(lines, "x-content-sha256: "+digest, "content-type: "+kind, "content-length: "+strconv.FormatInt(length, 10))
		names += " x-content-sha256 content-type content-length"
	}
	return strings.Join(lines, "\n"), names, nil
}

// sentPath returns the path of u as it is sent.
func sentPath(u *url.URL) string {
	path := u.EscapedPath()
	if u.Opaque != "" {
		path = u.Opaque
		if rest, ok := strings.CutPrefix(path, "//"); ok { // with its host
			_, path, _ = strings.Cut(rest, "/")
			path = "/" + path
		}
	}
	if path == "" {
		return "/"
	}
	return path
}
