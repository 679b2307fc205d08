package secretref

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
)

// checkMachineIdentity returns an error for the host's identity unless the operator
// allows it.
func (r *Resolver) checkMachineIdentity(ref *Reference) error {
	if r.OwnIdentity {
		return nil
	}
	return invalid("auth_config.type",
		"%s uses the identity of the gateway's host, which the operator must allow with secrets.own_identity in modelgate.yaml; set credentials of your own", ref.Auth["type"]).
		WithCode("secret_not_allowed")
}

// lender returns the identity name that auth uses for the host's identity.
func (r *Resolver) lender() string {
	if r.OwnIdentity {
		return "secret-reference"
	}
	return ""
}

var awsRegion = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)

func (r *Resolver) checkAWS(ref *Reference) error {
	machine := ref.Auth["access_key_id"] == ""
	if err := ref.requireFields("region"); err != nil {
		return err
	}
	var err error
	switch ref.Auth["type"] {
	case "accessKey":
		err = ref.requireFields("access_key_id", "secret_access_key")
	case "assumedRole":
		if err = ref.requireFields("role_arn"); err == nil && !machine {
			err = ref.requireFields("secret_access_key")
		}
	case "serviceRole":
		machine = true
	default:
		err = invalid("auth_config.type", "must be accessKey, assumedRole or serviceRole")
	}
	if err == nil && machine {
		err = r.checkMachineIdentity(ref)
	}
	if err != nil {
		return err
	}
	if !awsRegion.MatchString(ref.Auth["region"]) {
		return invalid("auth_config.region", "is not the name of a region")
	}
	if ref.Auth["endpoint"] == "" {
		return nil
	}
	if machine {
		return invalid("auth_config.endpoint", "cannot be combined with the identity of the gateway's host, which is sent only to the cloud")
	}
	return r.checkAddress("endpoint", ref)
}

// aws reads a secret from AWS Secrets Manager.
// https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_GetSecretValue.html
func (r *Resolver) aws(ctx context.Context, ref *Reference) (secretPayload, error) {
	q := managerRequest{client: r.Client, method: http.MethodPost, url: awsAddress(ref),
		guarded: ref.Auth["endpoint"] != "", header: map[string]string{
			"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": "secretsmanager.GetSecretValue"}}
	options := map[string]string{"auth_type": ref.Auth["type"], "region": ref.Auth["region"]}
	for _, name := range []string{"access_key_id", "role_arn", "external_id"} {
		options[name] = ref.Auth[name]
	}
	for _, name := range []string{"secret_access_key", "session_token"} {
		options[name] = ref.Secrets[name].Reveal()
	}
	spec := &provider.Spec{ID: AWS, BaseURL: q.url, Auth: provider.Auth{Method: provider.MethodAWS, Service: "secretsmanager"}}
	q.sign = func(req *http.Request, body []byte) error { return r.signAs(ctx, spec, options, req, body) }
	var err error
	if q.body, err = json.Marshal(map[string]string{"SecretId": ref.Path}); err != nil {
		return secretPayload{}, err
	}
	status, body, err := r.ask(ctx, q)
	if err != nil {
		return secretPayload{}, err
	}
	if !success(status) {
		return secretPayload{}, awsError(status, body)
	}
	var response struct {
		String *string `json:"SecretString"`
		Binary []byte  `json:"SecretBinary"`
	}
	if json.Unmarshal(body, &response) != nil || response.String == nil && response.Binary == nil {
		return secretPayload{}, failed("the manager returned a response without a secret")
	}
	if response.String == nil {
		return secretPayload{text: secret.New(string(response.Binary))}, nil
	}
	return secretPayload{text: secret.New(*response.String)}, nil
}

// awsAddress returns the address of the secrets of a region, or the configured
// endpoint.
func awsAddress(ref *Reference) string {
	if endpoint := ref.Auth["endpoint"]; endpoint != "" {
		return strings.TrimRight(endpoint, "/") + "/"
	}
	address := "https://secretsmanager." + ref.Auth["region"] + ".amazonaws.com"
	if strings.HasPrefix(ref.Auth["region"], "cn-") {
		address += ".cn"
	}
	return address + "/"
}

func (r *Resolver) signAs(ctx context.Context, spec *provider.Spec, options map[string]string, req *http.Request, body []byte) error {
	t, err := provider.NewTarget(spec, provider.Settings{Slug: r.lender(), Options: options})
	if err != nil {
		return err
	}
	return r.signer.Sign(ctx, t, req, body)
}

// awsWords are the AWS errors that say what to do. Nothing else in a response is
// repeated.
var awsWords = []string{
	"AccessDeniedException", "UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException", "InvalidClientTokenId",
	"DecryptionFailure", "InvalidRequestException", "InvalidParameterException", "ThrottlingException", "InternalServiceError",
}

func awsError(status int, body []byte) error {
	var response struct {
		Type string `json:"__type"`
	}
	if json.Unmarshal(body, &response) != nil {
		return statusError(status)
	}
	word := response.Type[strings.LastIndexByte(response.Type, '#')+1:]
	if word == "ResourceNotFoundException" {
		return statusError(http.StatusNotFound)
	}
	for _, known := range awsWords {
		if word != known {
			continue
		}
		if status >= 500 || word == "ThrottlingException" {
			return failed("the manager returned status %d (%s)", status, known)
		}
		return refused("the manager rejected the request with status %d (%s)", status, known)
	}
	return statusError(status)
}

// azureScopes are the scopes of tokens, by suffix of the vault's host.
var azureScopes = map[string]string{
	".vault.azure.net":         "https://vault.azure.net/.default",
	".vault.azure.cn":          "https://vault.azure.cn/.default",
	".vault.usgovcloudapi.net": "https://vault.usgovcloudapi.net/.default",
}

// azureScope returns the scope for a vault, and false for another host.
func azureScope(host string) (string, bool) {
	for suffix, scope := range azureScopes {
		if strings.HasSuffix(strings.ToLower(host), suffix) {
			return scope, true
		}
	}
	return "https://vault.azure.net/.default", false
}

// azureName matches the name of a secret, optionally with its version.
var azureName = regexp.MustCompile(`^[0-9A-Za-z-]+(/[0-9a-f]{32})?$`)

func (r *Resolver) checkAzure(ref *Reference) error {
	if err := ref.requireFields("vault_url"); err != nil {
		return err
	}
	u, err := url.Parse(ref.Auth["vault_url"])
	if err != nil || u.Host == "" {
		return invalid("auth_config.vault_url", "is not the address of a vault")
	}
	switch ref.Auth["type"] {
	case "entra":
		err = ref.requireFields("tenant_id", "client_id", "client_secret")
	case "managed", "default":
		_, ofCloud := azureScope(u.Hostname())
		if err = r.checkMachineIdentity(ref); err == nil && (!ofCloud || u.Scheme != "https") {
			err = invalid("auth_config.vault_url",
				"must be a vault of the cloud, for example https://name.vault.azure.net; the identity of the gateway's host is not sent anywhere else")
		}
	default:
		err = invalid("auth_config.type", "must be entra, managed or default")
	}
	if err != nil {
		return err
	}
	if name, _, _ := strings.Cut(ref.Path, "/"); len(name) > 127 || !azureName.MatchString(ref.Path) {
		return invalid("secret_path", "must be the name of a secret, optionally followed by a slash and its version")
	}
	return r.checkAddress("vault_url", ref)
}

// azure reads a secret from Azure Key Vault.
// https://learn.microsoft.com/rest/api/keyvault/secrets/get-secret/get-secret
func (r *Resolver) azure(ctx context.Context, ref *Reference) (secretPayload, error) {
	base := strings.TrimRight(ref.Auth["vault_url"], "/")
	u, err := url.Parse(base)
	if err != nil {
		return secretPayload{}, err
	}
	scope, _ := azureScope(u.Hostname())
	options := map[string]string{"auth_mode": ref.Auth["type"], "entra_scope": scope, "entra_tenant_id": ref.Auth["tenant_id"]}
	switch ref.Auth["type"] {
	case "entra":
		options["entra_client_id"], options["entra_client_secret"] = ref.Auth["client_id"], ref.Secrets["client_secret"].Reveal()
	case "managed":
		options["managed_client_id"] = ref.Auth["client_id"]
	case "default":
		options["auth_mode"], options["managed_client_id"], options["workload_client_id"] = "managed", ref.Auth["client_id"],
			ref.Auth["client_id"]
		if file, ok := r.LookupEnv("AZURE_FEDERATED_TOKEN_FILE"); ok && file != "" {
			options["auth_mode"] = "workload"
		}
	}
	spec := &provider.Spec{ID: Azure, BaseURL: base,
		Auth: provider.Auth{Header: "Authorization", Scheme: "Bearer", Method: provider.MethodEntra}}
	status, body, err := r.ask(ctx, managerRequest{
		client: r.Client, method: http.MethodGet, url: base + "/secrets/" + ref.Path + "?api-version=7.4", guarded: true,
		header: map[string]string{"Accept": "application/json"},
		sign:   func(req *http.Request, body []byte) error { return r.signAs(ctx, spec, options, req, body) },
	})
	if err != nil {
		return secretPayload{}, err
	}
	if status == http.StatusForbidden && bytes.Contains(body, []byte("SecretDisabled")) {
		return secretPayload{}, apierr.New(apierr.UpstreamFailed, "the secret is disabled").WithCode("secret_not_found")
	}
	if !success(status) {
		return secretPayload{}, statusError(status)
	}
	var response struct{ Value *string }
	if json.Unmarshal(body, &response) != nil || response.Value == nil {
		return secretPayload{}, failed("the manager returned a response without a secret")
	}
	return secretPayload{text: secret.New(*response.Value)}, nil
}
