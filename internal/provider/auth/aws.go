package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/base/sigv4"
	"modelgate/internal/provider"
)

var (
	awsRegion = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)
	hexHash   = regexp.MustCompile(`^[0-9a-f]{64}$`)
	awsID     = boundedText{regexp.MustCompile(`^[A-Za-z0-9_]+$`), 16, 128}
	awsARN    = boundedText{regexp.MustCompile(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/[\x21-\x7e]+$`), 1, 600}
)

// signAWS signs with the keys of the options, or with those of a role in the
// options. A key of the provider itself is sent unchanged.
func (s *Signer) signAWS(ctx context.Context, t *provider.Target, req *http.Request, body []byte) error {
	keys, given, err := s.awsKeys(ctx, t)
	if err != nil {
		return err
	}
	if !given {
		return checkAWSKey(t)
	}
	to := sigv4.Scope{Region: t.Option("region"), Service: t.Auth.Service}
	if !awsRegion.MatchString(to.Region) {
		return invalid(t, "region", "must be the name of a region")
	}
	hash := uploadHash(to, req)
	if hash == "" {
		sum, _, err := contents(req, body)
		if err != nil {
			return err
		}
		hash = hex.EncodeToString(sum[:])
	}
	if t.Auth.Header != "" {
		drop(req.Header, t.Auth.Header)
	}
	return sigv4.Sign(req, keys, to, hash, s.Now())
}

// uploadHash returns the hash of the body of an upload to a bucket that is sent as it is made,
// as its sender knows it. Empty means that the hash is computed.
func uploadHash(to sigv4.Scope, req *http.Request) string {
	hash := req.Header.Get(sigv4.HeaderHash)
	if to.Service != sigv4.S3 || req.GetBody != nil || !hexHash.MatchString(hash) {
		return ""
	}
	return hash
}

// checkAWSKey returns an error if a target without an access key has no key either, or one
// that the service does not know.
func checkAWSKey(t *provider.Target) error {
	if t.Auth.Service != sigv4.S3 {
		return checkKey(t)
	}
	return apierr.New(apierr.Invalid, "provider %s: buckets of Amazon S3 need an access key or a role, and a Bedrock API key is neither; set %s and %s, or %s",
		t.Label(), t.OptionPrefix+"access_key_id", t.OptionPrefix+"secret_access_key", t.OptionPrefix+"role_arn").
		WithParam("access_key_id").WithCode("missing_credential")
}

// awsKeys returns the keys to sign t's requests with. given is false if the
// provider's own key is used instead.
func (s *Signer) awsKeys(ctx context.Context, t *provider.Target) (keys sigv4.Keys, given bool, err error) {
	way, role := t.Option("auth_type"), t.Option("role_arn")
	keys, given, err = ownKeys(t)
	switch {
	case err != nil || way == "apiKey":
		return sigv4.Keys{}, false, err
	case way != "" && way != "accessKey" && way != "assumedRole" && way != "serviceRole":
		return keys, false, invalid(t, "auth_type", "must be accessKey, assumedRole, apiKey or serviceRole")
	case given && way != "serviceRole":
	case way == "serviceRole", way == "assumedRole", role != "":
		if err := checkMachineIdentity(t); err != nil {
			return keys, false, err
		}
		if keys, err = s.machineKeys(ctx, t); err != nil {
			return keys, false, err
		}
		given = true
	default:
		return keys, false, nil
	}
	if way == "assumedRole" && role == "" {
		return keys, false, missing(t, "role_arn")
	}
	if role == "" {
		return keys, true, nil
	}
	keys, err = s.assume(ctx, t, keys, role)
	return keys, true, err
}

// ownKeys returns the keys of the options. If these hold only a secret, the
// credential of the request is the access key id.
func ownKeys(t *provider.Target) (keys sigv4.Keys, given bool, err error) {
	keys = sigv4.Keys{
		ID:      t.Option("access_key_id"),
		Secret:  secret.New(t.Option("secret_access_key")),
		Session: secret.New(t.Option("session_token")),
	}
	if keys.ID == "" && keys.Secret.Empty() {
		return keys, false, nil
	}
	if keys.ID == "" && awsID.MatchString(t.Key.Reveal()) {
		keys.ID = t.Key.Reveal()
	}
	switch {
	case keys.ID == "":
		return keys, false, missing(t, "access_key_id")
	case !awsID.MatchString(keys.ID):
		return keys, false, invalid(t, "access_key_id", "must be the id of an access key")
	case keys.Secret.Empty():
		return keys, false, missing(t, "secret_access_key")
	case !keys.Session.Empty() && !sendable(keys.Session.Reveal()):
		return keys, false, invalid(t, "session_token", "must be one line of visible characters")
	}
	return keys, true, nil
}

// assume returns keys of a role.
// https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
func (s *Signer) assume(ctx context.Context, t *provider.Target, from sigv4.Keys, role string) (sigv4.Keys, error) {
	region, external := t.Option("region"), t.Option("external_id")
	if !awsARN.MatchString(role) {
		return sigv4.Keys{}, invalid(t, "role_arn", "must be the ARN of a role")
	}
	if !awsRegion.MatchString(region) {
		return sigv4.Keys{}, invalid(t, "region", "must be the name of a region")
	}
	k := keyOf("role", role, external, region, from.ID, from.Secret.Reveal(), from.Session.Reveal())
	return s.keys.get(ctx, k, func(ctx context.Context) (sigv4.Keys, time.Time, error) {
		values := url.Values{"Action": {"AssumeRole"}, "RoleArn": {role}}
		if external != "" {
			values.Set("ExternalId", external)
		}
		return s.sts(ctx, region, values, &from)
	})
}

// sts requests keys. The request is signed with from unless that is nil.
func (s *Signer) sts(ctx context.Context, region string, values url.Values, from *sigv4.Keys) (sigv4.Keys, time.Time, error) {
	values.Set("Version", "2011-06-15")
	values.Set("RoleSessionName", "modelgate")
	q := form("https://sts."+region+"."+awsDomain(region)+"/", values)
	q.header["Accept"] = "text/xml"
	if from != nil {
		q.sign = func(req *http.Request) error {
			hash := sha256.Sum256([]byte(q.body))
			return sigv4.Sign(req, *from, sigv4.Scope{Region: region, Service: "sts"}, hex.EncodeToString(hash[:]), s.Now())
		}
	}
	body, err := s.do(ctx, q)
	if err != nil {
		return sigv4.Keys{}, time.Time{}, err
	}
	var response struct {
		Role stsKeys `xml:"AssumeRoleResult>Credentials"`
		Web  stsKeys `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	if err := xml.Unmarshal(body, &response); err != nil {
		return sigv4.Keys{}, time.Time{}, noToken(q)
	}
	found := response.Role
	if found.ID == "" {
		found = response.Web
	}
	return s.sessionKeys(q, found)
}

// awsDomain returns the domain of a region's services.
// https://docs.aws.amazon.com/general/latest/gr/sts.html
func awsDomain(region string) string {
	if strings.HasPrefix(region, "cn-") {
		return "amazonaws.com.cn"
	}
	return "amazonaws.com"
}

// stsKeys holds keys in the format of STS and, under other names, of the
// metadata services.
type stsKeys struct {
	ID         string    `xml:"AccessKeyId" json:"AccessKeyId"`
	Secret     string    `xml:"SecretAccessKey" json:"SecretAccessKey"`
	Session    string    `xml:"SessionToken" json:"Token"`
	Expiration time.Time `xml:"Expiration" json:"Expiration"`
}

// sessionKeys returns found as keys with the time at which they expire.
func (s *Signer) sessionKeys(q tokenRequest, found stsKeys) (sigv4.Keys, time.Time, error) {
	if !awsID.MatchString(found.ID) || found.Secret == "" || !sendable(found.Session) || found.Expiration.IsZero() {
		return sigv4.Keys{}, time.Time{}, noToken(q)
	}
	return sigv4.Keys{ID: found.ID, Secret: secret.New(found.Secret), Session: secret.New(found.Session)}, s.capExpiry(found.Expiration), nil
}

func noIdentity(t *provider.Target) error {
	return apierr.New(apierr.Unauthenticated, "the gateway's machine has no identity for the provider %q; set credentials for the provider",
		t.ID).
		WithCode("credential_refused")
}
