package auth

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/base/sigv4"
	"modelgate/internal/provider"
)

// awsMetadata is the address of the metadata service of EC2.
const awsMetadata = "http://169.254.169.254/latest"

// machineKeys returns the keys of the machine from the environment, a web
// identity, the container or the instance, in this order.
// https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
func (s *Signer) machineKeys(ctx context.Context, t *provider.Target) (sigv4.Keys, error) {
	env := sigv4.Keys{
		ID:      s.Getenv("AWS_ACCESS_KEY_ID"),
		Secret:  secret.New(s.Getenv("AWS_SECRET_ACCESS_KEY")),
		Session: secret.New(s.Getenv("AWS_SESSION_TOKEN")),
	}
	if env.ID != "" && !env.Secret.Empty() {
		return env, nil
	}
	file, role, region := s.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), s.Getenv("AWS_ROLE_ARN"), t.Option("region")
	if file != "" && role != "" {
		if !awsRegion.MatchString(region) {
			return sigv4.Keys{}, invalid(t, "region", "must be the name of a region")
		}
		return s.keys.get(ctx, keyOf("web", file, role, region), func(ctx context.Context) (sigv4.Keys, time.Time, error) {
			token, err := s.ReadFile(file)
			if err != nil {
				return sigv4.Keys{}, time.Time{}, noIdentity(t)
			}
			return s.sts(ctx, region, url.Values{
				"Action": {"AssumeRoleWithWebIdentity"}, "RoleArn": {role}, "WebIdentityToken": {strings.TrimSpace(string(token))},
			}, nil)
		})
	}
	if address := s.containerAddress(); address != "" {
		return s.keys.get(ctx, keyOf("container", address), func(ctx context.Context) (sigv4.Keys, time.Time, error) {
			return s.containerKeys(ctx, t, address)
		})
	}
	return s.keys.get(ctx, keyOf("instance"), s.instanceKeys)
}

// containerAddress returns the address of a container's keys, empty if there is
// none.
// https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
func (s *Signer) containerAddress() string {
	if path := s.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); path != "" {
		return "http://169.254.170.2" + path
	}
	return s.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
}

func (s *Signer) containerKeys(ctx context.Context, t *provider.Target, address string) (sigv4.Keys, time.Time, error) {
	q := tokenRequest{method: http.MethodGet, url: address, header: map[string]string{}}
	token := s.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN")
	if file := s.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
		text, err := s.ReadFile(file)
		if err != nil {
			return sigv4.Keys{}, time.Time{}, noIdentity(t)
		}
		token = string(text)
	}
	if token = strings.TrimSpace(token); token != "" {
		q.header["Authorization"] = token
	}
	return s.metadataKeys(ctx, q)
}

// instanceKeys fetches keys from version 2 of the metadata service.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
func (s *Signer) instanceKeys(ctx context.Context) (sigv4.Keys, time.Time, error) {
	pass, err := s.do(ctx, tokenRequest{method: http.MethodPut, url: awsMetadata + "/api/token",
		header: map[string]string{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": "300"}})
	if err != nil {
		return sigv4.Keys{}, time.Time{}, err
	}
	q := tokenRequest{method: http.MethodGet, url: awsMetadata + "/meta-data/iam/security-credentials/",
		header: map[string]string{"X-Aws-Ec2-Metadata-Token": strings.TrimSpace(string(pass))}}
	roles, err := s.do(ctx, q)
	if err != nil {
		return sigv4.Keys{}, time.Time{}, err
	}
	role, _, _ := strings.Cut(strings.TrimSpace(string(roles)), "\n")
	q.url += url.PathEscape(strings.TrimSpace(role))
	return s.metadataKeys(ctx, q)
}

func (s *Signer) metadataKeys(ctx context.Context, q tokenRequest) (sigv4.Keys, time.Time, error) {
	body, err := s.do(ctx, q)
	if err != nil {
		return sigv4.Keys{}, time.Time{}, err
	}
	var found stsKeys
	if err := json.Unmarshal(body, &found); err != nil {
		return sigv4.Keys{}, time.Time{}, noToken(q)
	}
	return s.sessionKeys(q, found)
}
