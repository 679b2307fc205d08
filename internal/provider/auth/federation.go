package auth

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
)

// federation is the part of a Google Cloud credential that describes an
// external identity.
// https://google.aip.dev/auth/4117
type federation struct {
	Audience         string `json:"audience"`
	SubjectTokenType string `json:"subject_token_type"`
	TokenURL         string `json:"token_url"`
	ImpersonationURL string `json:"service_account_impersonation_url"`
	CredentialSource struct {
		File    string            `json:"file"`
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers"`
		Format  struct {
			Type  string `json:"type"`
			Field string `json:"subject_token_field_name"`
		} `json:"format"`
	} `json:"credential_source"`
}

// The only addresses to which the machine's external token and its Google token
// are sent for providers stored through the API.
var (
	googleSTS           = regexp.MustCompile(`^https://sts\.googleapis\.com/v1/token$`)
	googleImpersonation = regexp.MustCompile(`^https://iamcredentials\.googleapis\.com/v1/projects/(-|[a-z0-9-]+)/serviceAccounts/[A-Za-z0-9@._-]+:generateAccessToken$`)
)

func fileNotListed(t *provider.Target) error {
	return credentialError(t,
		"has a credential_source whose file cannot be read: list its folder in secrets.files of modelgate.yaml, or define the provider there")
}

// federated exchanges the machine's external token for one of Google Cloud, and
// that for one of a service account if the credential names one.
// https://cloud.google.com/iam/docs/reference/sts/rest/v1/TopLevel/token
func (s *Signer) federated(ctx context.Context, t *provider.Target, f *federation) (secret.String, time.Time, error) {
	var zero secret.String
	if err := checkMachineIdentity(t); err != nil { // it contains a file name or an address of this machine
		return zero, time.Time{}, err
	}
	guarded, err := reachable(t, "token_url", f.TokenURL)
	if err == nil {
		err = checkTokenAddress(t, f.TokenURL, "token_url", googleSTS)
	}
	if err != nil {
		return zero, time.Time{}, err
	}
	subject, err := s.subject(ctx, t, f)
	if err != nil {
		return zero, time.Time{}, err
	}
	q := form(f.TokenURL, url.Values{
		"grant_type":           {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"audience":             {f.Audience},
		"scope":                {gcpScope},
		"requested_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
		"subject_token":        {subject},
		"subject_token_type":   {f.SubjectTokenType},
	})
	q.guarded = guarded
	token, end, err := s.token(ctx, q)
	if err != nil || f.ImpersonationURL == "" {
		return token, end, err
	}
	return s.impersonate(ctx, t, f.ImpersonationURL, token)
}

// subject reads the external token. It is read each time, since it is replaced
// while the gateway runs.
func (s *Signer) subject(ctx context.Context, t *provider.Target, f *federation) (string, error) {
	var text []byte
	var err error
	source := &f.CredentialSource
	switch {
	case source.File != "" && t.Lending != provider.MachineIdentityAll:
		if s.ReadListed == nil {
			return "", fileNotListed(t)
		}
		if text, err = s.ReadListed(source.File); err != nil {
			return "", fileNotListed(t)
		}
	case source.File != "":
		if text, err = s.ReadFile(source.File); err != nil {
			return "", noIdentity(t)
		}
	case t.Lending != provider.MachineIdentityAll:
		return "", credentialError(t, "has a credential_source without a file; an address is allowed only for providers in modelgate.yaml")
	case strings.HasPrefix(source.URL, "http://"), strings.HasPrefix(source.URL, "https://"):
		if text, err = s.do(ctx, tokenRequest{method: http.MethodGet, url: source.URL, header: source.Headers}); err != nil {
			return "", err
		}
	default:
		return "", credentialError(t, "has a credential_source without a file or url; other sources are not supported")
	}
	if source.Format.Type == "json" {
		var fields map[string]json.RawMessage
		var found string
		if json.Unmarshal(text, &fields) != nil || json.Unmarshal(fields[source.Format.Field], &found) != nil {
			return "", noIdentity(t)
		}
		text = []byte(found)
	}
	if subject := strings.TrimSpace(string(text)); subject != "" && len(subject) <= maxAccount {
		return subject, nil
	}
	return "", noIdentity(t)
}

// impersonate exchanges a token for one of a service account.
// https://cloud.google.com/iam/docs/reference/credentials/rest/v1/projects.serviceAccounts/generateAccessToken
func (s *Signer) impersonate(ctx context.Context, t *provider.Target, address string,
	token secret.String) (secret.String, time.Time, error) {
	guarded, err := reachable(t, "service_account_impersonation_url", address)
	if err == nil {
		err = checkTokenAddress(t, address, "service_account_impersonation_url", googleImpersonation)
	}
	if err != nil {
		return secret.String{}, time.Time{}, err
	}
	q := tokenRequest{method: http.MethodPost, url: address, guarded: guarded, body: `{"scope":["` + gcpScope + `"],"lifetime":"3600s"}`,
		header: map[string]string{"Content-Type": "application/json", "Authorization": "Bearer " + token.Reveal()}}
	body, err := s.do(ctx, q)
	if err != nil {
		return secret.String{}, time.Time{}, err
	}
	var response struct {
		Token string    `json:"accessToken"`
		End   time.Time `json:"expireTime"`
	}
	if json.Unmarshal(body, &response) != nil || !sendable(response.Token) {
		return secret.String{}, time.Time{}, noToken(q)
	}
	return secret.New(response.Token), s.capExpiry(response.End), nil
}
