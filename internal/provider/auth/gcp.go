package auth

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
)

const (
	gcpScope = "https://www.googleapis.com/auth/cloud-platform"
	gcpToken = "https://oauth2.googleapis.com/token"
	// gcpMetadata is the address of the token of the machine's service account.
	// https://cloud.google.com/compute/docs/access/authenticate-workloads
	gcpMetadata = "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token"

	maxAccount = 64 << 10
	maxKeyBits = 4096 // a longer key would take a second of CPU time
)

// account is a Google Cloud credential in JSON: a service account, a user's
// refresh token or an external identity.
// https://google.aip.dev/auth/4110
type account struct {
	Type         string `json:"type"`
	ClientEmail  string `json:"client_email"`
	PrivateKeyID string `json:"private_key_id"`
	PrivateKey   string `json:"private_key"`
	TokenURI     string `json:"token_uri"`

	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	RefreshToken string `json:"refresh_token"`

	federation
}

// signGCP sets an access token: the key itself, one fetched with the service
// account or external identity in the options or the key, or one of the
// machine.
func (s *Signer) signGCP(ctx context.Context, t *provider.Target, req *http.Request) error {
	text := t.Option("service_account_json")
	if own := strings.TrimSpace(t.Key.Reveal()); text == "" && strings.HasPrefix(own, "{") {
		text = own
	}
	switch way := t.Option("auth_type"); strings.ToLower(way) {
	case "", "serviceaccount", "workloadidentityfederation", "wif":
		if text == "" && way != "" {
			return missing(t, "service_account_json")
		}
	case "workload", "metadata":
		return s.gcpMachine(ctx, t, req)
	case "apikey", "accesstoken":
		text = ""
	default:
		return invalid(t, "auth_type", "must be serviceAccount, workloadIdentityFederation, workload or accessToken")
	}
	if text == "" {
		return checkKey(t)
	}
	// The key includes the caller and everything that decides about the use of
	// the machine's identity: a token that was fetched with a file of the
	// machine must not be used by a client that sends the same text, or by a
	// provider of the same slug in another workspace.
	asks := fmt.Sprint(t.Lending, t.Guarded, t.OwnAddress())
	return s.gcpFetched(ctx, t, req, keyOf("gcp", text, t.Slug, asks), func(ctx context.Context) (secret.String, time.Time, error) {
		return s.exchange(ctx, t, text)
	})
}

// gcpMachine uses the identity of the machine: the file in its environment,
// otherwise its metadata service.
func (s *Signer) gcpMachine(ctx context.Context, t *provider.Target, req *http.Request) error {
	if err := checkMachineIdentity(t); err != nil {
		return err
	}
	name := s.Getenv("GOOGLE_APPLICATION_CREDENTIALS")
	return s.gcpFetched(ctx, t, req, keyOf("gcp-machine", name), func(ctx context.Context) (secret.String, time.Time, error) {
		if name == "" {
			return s.token(ctx, tokenRequest{method: http.MethodGet, url: gcpMetadata, header: map[string]string{"Metadata-Flavor": "Google"}})
		}
		text, err := s.ReadFile(name)
		if err != nil {
			return secret.String{}, time.Time{}, noIdentity(t)
		}
		return s.exchange(ctx, t, string(text))
	})
}

func (s *Signer) gcpFetched(ctx context.Context, t *provider.Target, req *http.Request, k key, fetch fetcher[secret.String]) error {
	token, err := s.tokens.get(ctx, k, fetch)
	if err != nil {
		return err
	}
	setBearer(req, t, token)
	return nil
}

func readAccount(t *provider.Target, text string) (*account, error) {
	var a account
	if len(text) > maxAccount || json.Unmarshal([]byte(text), &a) != nil {
		return nil, credentialError(t, "must be the JSON object of a service account")
	}
	return &a, nil
}

func credentialError(t *provider.Target, what string) error {
	return apierr.New(apierr.Invalid, "provider %q: %sservice_account_json, or the key that holds it, %s", t.ID, t.OptionPrefix, what).
		WithParam("service_account_json").WithCode("credential_malformed")
}

// exchange fetches an access token for a credential.
func (s *Signer) exchange(ctx context.Context, t *provider.Target, text string) (secret.String, time.Time, error) {
	var zero secret.String
	a, err := readAccount(t, text)
	if err != nil {
		return zero, time.Time{}, err
	}
	address := a.TokenURI
	if address == "" {
		address = gcpToken
	}
	guarded, err := reachable(t, "token_uri", address)
	if err != nil {
		return zero, time.Time{}, err
	}
	values := url.Values{}
	switch a.Type {
	case "service_account":
		assertion, err := s.assertion(t, a, address)
		if err != nil {
			return zero, time.Time{}, err
		}
		values.Set("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer")
		values.Set("assertion", assertion)
	case "authorized_user":
		values.Set("grant_type", "refresh_token")
		values.Set("client_id", a.ClientID)
		values.Set("client_secret", a.ClientSecret)
		values.Set("refresh_token", a.RefreshToken)
	case "external_account":
		return s.federated(ctx, t, &a.federation)
	default:
		return zero, time.Time{}, credentialError(t, "must have the type service_account, authorized_user or external_account")
	}
	q := form(address, values)
	q.guarded = guarded
	return s.token(ctx, q)
}

// reachable validates an address in a credential. guarded is false for Google's
// own hosts.
func reachable(t *provider.Target, field, address string) (guarded bool, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return false, credentialError(t, "has a "+field+" that is not an https address")
	}
	return u.Port() != "" || !strings.HasSuffix(strings.ToLower(u.Hostname()), ".googleapis.com"), nil
}

// assertion returns the signed JWT of the service account.
// https://developers.google.com/identity/protocols/oauth2/service-account#authorizingrequests
func (s *Signer) assertion(t *provider.Target, a *account, audience string) (string, error) {
	signer, err := rsaKey(a.PrivateKey)
	if err != "" {
		return "", credentialError(t, "has a private_key that "+err)
	}
	now := s.Now().Unix()
	head, _ := json.Marshal(map[string]string{"alg": "RS256", "typ": "JWT", "kid": a.PrivateKeyID})
	claims, _ := json.Marshal(map[string]any{
		"iss": a.ClientEmail, "sub": a.ClientEmail, "aud": audience, "scope": gcpScope, "iat": now, "exp": now + 3600,
	})
	text := base64.RawURLEncoding.EncodeToString(head) + "." + base64.RawURLEncoding.EncodeToString(claims)
	sum := sha256.Sum256([]byte(text))
	seal, failed := rsa.SignPKCS1v15(nil, signer, crypto.SHA256, sum[:])
	if failed != nil {
		return "", credentialError(t, "has a private_key that cannot sign")
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(seal), nil
}

// rsaKey reads a private key in PEM. bad describes what is wrong with it.
func rsaKey(text string) (k *rsa.PrivateKey, bad string) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, "is not in PEM"
	}
	if strings.Contains(block.Type, "ENCRYPTED") || block.Headers["DEK-Info"] != "" {
		return nil, "is locked by a passphrase"
	}
	if len(block.Bytes) > maxKeyBits { // a key has about half as many bytes as bits
		return nil, "is too long"
	}
	if k, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return k, tooLong(k)
	}
	any, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if k, ok := any.(*rsa.PrivateKey); err == nil && ok {
		return k, tooLong(k)
	}
	return nil, "is not an RSA key"
}

func tooLong(k *rsa.PrivateKey) string {
	if k.N.BitLen() > maxKeyBits {
		return "is too long"
	}
	return ""
}
