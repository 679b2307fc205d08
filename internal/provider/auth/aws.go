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

	"modelgate/internal/apierr"
	"modelgate/internal/provider"
	"modelgate/internal/secret"
)

var (
	awsRegion = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)
	awsID     = boundedText{regexp.MustCompile(`^[A-Za-z0-9_]+$`), 16, 128}
	awsARN    = boundedText{regexp.MustCompile(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/[\x21-\x7e]+$`), 1, 600}
)

// aws signs with the keys of the options, or with those of a role that they
// name. A key of the provider itself goes as it is.
func (s *Signer) aws(ctx context.Context, t *provider.Target, req *http.Request, body []byte) error {
	keys, given, err := s.awsKeys(ctx, t)
	if err != nil {
		return err
	}
	if !given {
		return keyAlone(t)
	}
	to := scope{region: t.Option("region"), service: t.Auth.Service}
	if !awsRegion.MatchString(to.region) {
		return invalid(t, "region", "must be the name of a region")
	}
	hash, _, err := contents(req, body)
	if err != nil {
		return err
	}
	if t.Auth.Header != "" {
		drop(req.Header, t.Auth.Header)
	}
	return signV4(req, keys, to, hex.EncodeToString(hash[:]), s.Now())
}

// awsKeys returns the keys to sign t's requests with; given is false where the
// provider's own key does.
func (s *Signer) awsKeys(ctx context.Context, t *provider.Target) (keys awsKeys, given bool, err error) {
	way, role := t.Option("auth_type"), t.Option("role_arn")
	keys, given, err = ownKeys(t)
	switch {
	case err != nil || way == "apiKey":
		return awsKeys{}, false, err
	case way != "" && way != "accessKey" && way != "assumedRole" && way != "serviceRole":
		return keys, false, invalid(t, "auth_type", "takes accessKey, assumedRole, apiKey or serviceRole")
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

// ownKeys returns the keys of the options. Where they hold a secret alone, the
// credential of the request is the id of the access key.
func ownKeys(t *provider.Target) (keys awsKeys, given bool, err error) {
	keys = awsKeys{
		id:      t.Option("access_key_id"),
		secret:  secret.New(t.Option("secret_access_key")),
		session: secret.New(t.Option("session_token")),
	}
	if keys.id == "" && keys.secret.Empty() {
		return keys, false, nil
	}
	if keys.id == "" && awsID.MatchString(t.Key.Reveal()) {
		keys.id = t.Key.Reveal()
	}
	switch {
	case keys.id == "":
		return keys, false, missing(t, "access_key_id")
	case !awsID.MatchString(keys.id):
		return keys, false, invalid(t, "access_key_id", "must be the id of an access key")
	case keys.secret.Empty():
		return keys, false, missing(t, "secret_access_key")
	case !keys.session.Empty() && !sendable(keys.session.Reveal()):
		return keys, false, invalid(t, "session_token", "must be one line of visible characters")
	}
	return keys, true, nil
}

// assume returns keys of a role.
// https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
func (s *Signer) assume(ctx context.Context, t *provider.Target, from awsKeys, role string) (awsKeys, error) {
	region, external := t.Option("region"), t.Option("external_id")
	if !awsARN.MatchString(role) {
		return awsKeys{}, invalid(t, "role_arn", "must be the ARN of a role")
	}
	if !awsRegion.MatchString(region) {
		return awsKeys{}, invalid(t, "region", "must be the name of a region")
	}
	k := keyOf("role", role, external, region, from.id, from.secret.Reveal(), from.session.Reveal())
	return s.keys.get(ctx, k, func(ctx context.Context) (awsKeys, time.Time, error) {
		values := url.Values{"Action": {"AssumeRole"}, "RoleArn": {role}}
		if external != "" {
			values.Set("ExternalId", external)
		}
		return s.sts(ctx, region, values, &from)
	})
}

// sts asks for keys, signed with from unless that is nil.
func (s *Signer) sts(ctx context.Context, region string, values url.Values, from *awsKeys) (awsKeys, time.Time, error) {
	values.Set("Version", "2011-06-15")
	values.Set("RoleSessionName", "modelgate")
	q := form("https://sts."+region+"."+awsDomain(region)+"/", values)
	q.header["Accept"] = "text/xml"
	if from != nil {
		q.sign = func(req *http.Request) error {
			hash := sha256.Sum256([]byte(q.body))
			return signV4(req, *from, scope{region, "sts"}, hex.EncodeToString(hash[:]), s.Now())
		}
	}
	body, err := s.do(ctx, q)
	if err != nil {
		return awsKeys{}, time.Time{}, err
	}
	var answer struct {
		Role stsKeys `xml:"AssumeRoleResult>Credentials"`
		Web  stsKeys `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	if err := xml.Unmarshal(body, &answer); err != nil {
		return awsKeys{}, time.Time{}, noToken(q)
	}
	found := answer.Role
	if found.ID == "" {
		found = answer.Web
	}
	return s.lasting(q, found)
}

// awsDomain is where the services of a region are.
// https://docs.aws.amazon.com/general/latest/gr/sts.html
func awsDomain(region string) string {
	if strings.HasPrefix(region, "cn-") {
		return "amazonaws.com.cn"
	}
	return "amazonaws.com"
}

// stsKeys are keys as STS and, with other names, the metadata services write them.
type stsKeys struct {
	ID         string    `xml:"AccessKeyId" json:"AccessKeyId"`
	Secret     string    `xml:"SecretAccessKey" json:"SecretAccessKey"`
	Session    string    `xml:"SessionToken" json:"Token"`
	Expiration time.Time `xml:"Expiration" json:"Expiration"`
}

// lasting returns found as keys, with the moment they end.
func (s *Signer) lasting(q tokenRequest, found stsKeys) (awsKeys, time.Time, error) {
	if !awsID.MatchString(found.ID) || found.Secret == "" || !sendable(found.Session) || found.Expiration.IsZero() {
		return awsKeys{}, time.Time{}, noToken(q)
	}
	return awsKeys{found.ID, secret.New(found.Secret), secret.New(found.Session)}, s.within(found.Expiration), nil
}

func noIdentity(t *provider.Target) error {
	return apierr.New(apierr.Unauthenticated, "the machine of the gateway has no identity for the provider %q; give the entry credentials of its own", t.ID).
		WithCode("credential_refused")
}
