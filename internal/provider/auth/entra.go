package auth

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
)

const (
	entraAuthority = "https://login.microsoftonline.com"
	// azureMetadata is the address of the token service of a virtual machine.
	// https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token
	azureMetadata = "http://169.254.169.254/metadata/identity/oauth2/token"
)

// entraTenant matches the id or the domain of a directory.
var entraTenant = boundedText{regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]*$`), 1, 254}

// signEntra sets an access token of Microsoft Entra if the options ask for one.
// A ready-made token or a key has been set before.
func (s *Signer) signEntra(ctx context.Context, t *provider.Target, req *http.Request) error {
	if t.Option("ad_token") != "" {
		return nil
	}
	way := t.Option("auth_mode")
	if way == "" && t.Option("entra_client_secret") != "" {
		way = "entra"
	}
	var fetch func(context.Context, *provider.Target) (secret.String, error)
	switch way {
	case "", "apiKey":
		return checkKey(t)
	case "entra":
		fetch = s.entraSecret
	case "managed":
		fetch = s.entraManaged
	case "workload":
		fetch = s.entraWorkload
	default:
		return invalid(t, "auth_mode", "must be apiKey, entra, managed or workload")
	}
	token, err := fetch(ctx, t)
	if err != nil {
		return err
	}
	drop(req.Header, "Api-Key", "X-Api-Key")
	setBearer(req, t, token)
	return nil
}

// entraSecret fetches a token with an application's secret.
// https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow
func (s *Signer) entraSecret(ctx context.Context, t *provider.Target) (secret.String, error) {
	tenant, client, password := t.Option("entra_tenant_id"), t.Option("entra_client_id"), t.Option("entra_client_secret")
	switch {
	case !entraTenant.MatchString(tenant):
		return secret.String{}, invalid(t, "entra_tenant_id", "must be the id or the domain of a tenant")
	case client == "":
		return secret.String{}, missing(t, "entra_client_id")
	case password == "":
		return secret.String{}, missing(t, "entra_client_secret")
	}
	scope := entraScope(t)
	return s.tokens.get(ctx, keyOf("entra", tenant, client, password, scope), func(ctx context.Context) (secret.String, time.Time, error) {
		return s.token(ctx, form(entraAddress(entraAuthority, tenant), url.Values{
			"grant_type": {"client_credentials"}, "client_id": {client}, "client_secret": {password}, "scope": {scope},
		}))
	})
}

func entraAddress(authority, tenant string) string {
	return strings.TrimRight(authority, "/") + "/" + tenant + "/oauth2/v2.0/token"
}

// entraScope returns the scope of the token. The endpoints of deployments and
// those of projects belong to different services.
// https://learn.microsoft.com/azure/ai-foundry/concepts/authentication-authorization-foundry
func entraScope(t *provider.Target) string {
	host := t.Base.Hostname()
	switch scope := t.Option("entra_scope"); {
	case scope != "":
		return scope
	case strings.HasSuffix(host, ".inference.ml.azure.com"), strings.HasSuffix(host, ".models.ai.azure.com"):
		return "https://ml.azure.com/.default"
	case strings.HasPrefix(t.Base.Path, "/api/projects/"):
		return "https://ai.azure.com/.default"
	}
	return "https://cognitiveservices.azure.com/.default"
}

// checkEntraScope returns an error if t may not have a token of the machine for
// its scope. Providers stored through the API get tokens for model services
// only: with a token for the management of the cloud, its receiver could act as
// the machine.
func checkEntraScope(t *provider.Target) error {
	if err := checkMachineIdentity(t); err != nil {
		return err
	}
	if t.Lending != provider.MachineIdentityAll && t.Option("entra_scope") != "" {
		return invalid(t, "entra_scope",
			"cannot be combined with the identity of the gateway's machine; leave it out, or define the provider in modelgate.yaml")
	}
	return nil
}

// entraManaged fetches a token of the machine's managed identity: from App
// Service, otherwise from the virtual machine.
// https://learn.microsoft.com/azure/app-service/overview-managed-identity#rest-endpoint-reference
func (s *Signer) entraManaged(ctx context.Context, t *provider.Target) (secret.String, error) {
	if err := checkEntraScope(t); err != nil {
		return secret.String{}, err
	}
	client := t.Option("managed_client_id")
	values := url.Values{"resource": {strings.TrimSuffix(entraScope(t), ".default")}}
	if client != "" {
		values.Set("client_id", client)
	}
	q := tokenRequest{method: http.MethodGet, url: azureMetadata, header: map[string]string{"Metadata": "true"}}
	values.Set("api-version", "2018-02-01")
	if endpoint := s.Getenv("IDENTITY_ENDPOINT"); endpoint != "" {
		q.url, q.header = endpoint, map[string]string{"X-Identity-Header": s.Getenv("IDENTITY_HEADER")}
		values.Set("api-version", "2019-08-01")
	}
	q.url += "?" + values.Encode()
	return s.tokens.get(ctx, keyOf("entra-managed", q.url), func(ctx context.Context) (secret.String, time.Time, error) {
		return s.token(ctx, q)
	})
}

// entraWorkload exchanges the token in a file of the cluster. The file is read
// each time, since the cluster replaces it.
// https://azure.github.io/azure-workload-identity/docs/
func (s *Signer) entraWorkload(ctx context.Context, t *provider.Target) (secret.String, error) {
	if err := checkEntraScope(t); err != nil {
		return secret.String{}, err
	}
	authority, tenant := s.Getenv("AZURE_AUTHORITY_HOST"), s.Getenv("AZURE_TENANT_ID")
	client, file := t.Option("workload_client_id"), s.Getenv("AZURE_FEDERATED_TOKEN_FILE")
	if authority == "" {
		authority = entraAuthority
	}
	if client == "" {
		client = s.Getenv("AZURE_CLIENT_ID")
	}
	if !entraTenant.MatchString(tenant) || client == "" || file == "" {
		return secret.String{}, noIdentity(t)
	}
	scope := entraScope(t)
	return s.tokens.get(ctx, keyOf("entra-workload", authority, tenant, client, file, scope),
		func(ctx context.Context) (secret.String, time.Time, error) {
			assertion, err := s.ReadFile(file)
			if err != nil {
				return secret.String{}, time.Time{}, noIdentity(t)
			}
			return s.token(ctx, form(entraAddress(authority, tenant), url.Values{
				"grant_type":            {"client_credentials"},
				"client_id":             {client},
				"scope":                 {scope},
				"client_assertion":      {strings.TrimSpace(string(assertion))},
				"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
			}))
		})
}
