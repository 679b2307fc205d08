package secretref_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"modelgate/internal/secrets/secretref"
)

const (
	awsID     = "AKIDEXAMPLE12345678"
	awsSecret = "canary/wJalrXUtnFEMI+bPxRfiCYEXAMPLEKEY"
	roleID    = "ASIAROLE123456789012"
	roleARN   = "arn:aws:iam::123456789012:role/gateway"
)

func inAWS(pairs ...string) secretref.Reference {
	ref := secretref.Reference{
		Manager: secretref.AWS, Path: "prod/app", Key: "key",
		Auth:    map[string]string{"type": "accessKey", "region": "eu-west-1", "access_key_id": awsID},
		Secrets: credentials("secret_access_key", awsSecret),
	}
	return withAuth(ref, pairs...)
}

// verify recomputes the signature of a request with the signer of the AWS SDK.
func verify(t *testing.T, r *http.Request, body []byte, id string) {
	t.Helper()
	got := r.Header.Get("Authorization")
	_, rest, _ := strings.Cut(got, "SignedHeaders=")
	names, _, _ := strings.Cut(rest, ",")
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		t.Errorf("x-amz-date: %v", err)
		return
	}
	again, err := http.NewRequest(r.Method, "https://"+r.Host+r.URL.RequestURI(), nil)
	if err != nil {
		t.Error(err)
		return
	}
	for name := range strings.SplitSeq(names, ";") {
		if name != "host" {
			again.Header[http.CanonicalHeaderKey(name)] = r.Header.Values(name)
		}
	}
	sum := sha256.Sum256(body)
	keys := aws.Credentials{AccessKeyID: id, SecretAccessKey: awsSecret, SessionToken: r.Header.Get("X-Amz-Security-Token")}
	if err := v4.NewSigner().SignHTTP(t.Context(), keys, again, hex.EncodeToString(sum[:]), "secretsmanager", "eu-west-1", at); err != nil {
		t.Error(err)
	}
	if want := again.Header.Get("Authorization"); got != want || !strings.Contains(names, "x-amz-target") {
		t.Errorf("signed\n got %s\nwant %s", got, want)
	}
}

// secretsManager answers as AWS Secrets Manager does.
func secretsManager(t *testing.T, id string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		verify(t, r, body, id)
		if r.Header.Get("X-Amz-Target") != "secretsmanager.GetSecretValue" || r.Header.Get("Content-Type") != "application/x-amz-json-1.1" {
			t.Errorf("asked with %v", r.Header)
		}
		if !bytes.Equal(body, []byte(`{"SecretId":"prod/app"}`)) {
			respondWith(400, `{"__type":"ResourceNotFoundException","Message":"canary"}`)(w, r)
			return
		}
		io.WriteString(w, `{"ARN":"arn:x","SecretString":"{\"key\":\"`+canary+`\"}"}`)
	}
}

func TestSecretsManagerIsAskedWithAValidSignature(t *testing.T) {
	m := newManager(t, secretsManager(t, awsID))
	r, ref := newResolver(secretref.Options{}), inAWS("endpoint", m.URL)
	if got := mustResolve(t, r, ref); got != canary {
		t.Errorf("%q", got)
	}
	ref.Secrets = credentials("secret_access_key", awsSecret, "session_token", "IQoJb3JpZ2luX2VjE//session==")
	if got := mustResolve(t, r, ref); got != canary {
		t.Errorf("with a session: %q", got)
	}
	ref.Path = "prod/none"
	mustFail(t, r, ref, "secret_not_found")
}

func TestASecretsManagerThatMisbehavesIsReportedWithoutItsWords(t *testing.T) {
	for name, tt := range map[string]struct {
		status     int
		text, code string
		says       string
	}{
		"denied":      {400, `{"__type":"com.amazonaws.secretsmanager#AccessDeniedException","Message":"canary"}`, "secret_manager_refused", "AccessDeniedException"},
		"a wrong key": {400, `{"__type":"InvalidSignatureException","message":"canary"}`, "secret_manager_refused", "InvalidSignatureException"},
		"throttled":   {400, `{"__type":"ThrottlingException"}`, "secret_manager_failed", "ThrottlingException"},
		"broken":      {500, `{"__type":"InternalServiceError"}`, "secret_manager_failed", "500"},
		"unknown":     {400, `{"__type":"canary"}`, "secret_manager_refused", "400"},
		"forbidden":   {403, `canary`, "secret_manager_refused", "403"},
		"not JSON":    {200, `canary`, "secret_manager_failed", "without a secret"},
		"no secret":   {200, `{"ARN":"canary"}`, "secret_manager_failed", "without a secret"},
		"a number":    {200, `{"SecretString":7}`, "secret_manager_failed", "without a secret"},
	} {
		t.Run(name, func(t *testing.T) {
			r, ref := newResolver(secretref.Options{}), inAWS("endpoint", newManager(t, respondWith(tt.status, tt.text)).URL)
			mustFail(t, r, ref, tt.code)
			if _, err := r.Resolve(t.Context(), ref); !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %q", err, tt.says)
			}
		})
	}
	binary := inAWS("endpoint", newManager(t, respondWith(200, `{"SecretBinary":"Y2FuYXJ5"}`)).URL)
	binary.Key = ""
	if got := mustResolve(t, newResolver(secretref.Options{}), binary); got != "canary" {
		t.Errorf("a binary secret: %q", got)
	}
}

func TestARoleOfAWSIsAssumed(t *testing.T) {
	assumed := 0
	d := doer{
		"https://secretsmanager.eu-west-1.amazonaws.com/": secretsManager(t, roleID),
		"https://sts.eu-west-1.amazonaws.com/": func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if !strings.Contains(string(body), "ExternalId=team") || !strings.Contains(r.Header.Get("Authorization"), "Credential="+awsID) {
				t.Errorf("asked for a role with %s", body)
			}
			assumed++
			fmt.Fprintf(w, `<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>%s</AccessKeyId><SecretAccessKey>%s</SecretAccessKey>
<SessionToken>of-the-role</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`, roleID, awsSecret, time.Now().Add(time.Hour).Format(time.RFC3339))
		},
	}
	env := &variables{values: map[string]string{"AWS_ACCESS_KEY_ID": awsID, "AWS_SECRET_ACCESS_KEY": awsSecret}}
	own := inAWS("type", "assumedRole", "role_arn", roleARN, "external_id", "team")
	machine := own
	machine.Auth = map[string]string{"type": "assumedRole", "region": "eu-west-1", "role_arn": roleARN, "external_id": "team"}
	machine.Secrets = nil
	strict, lending := secretref.New(secretref.Options{Client: d, LookupEnv: env.lookup}), secretref.New(secretref.Options{Client: d, LookupEnv: env.lookup, OwnIdentity: true})
	for range 2 {
		if got := mustResolve(t, strict, own); got != canary {
			t.Errorf("with keys of its own: %q", got)
		}
	}
	if assumed != 1 {
		t.Errorf("the role was assumed %d times", assumed)
	}
	mustFail(t, strict, machine, "secret_not_allowed")
	if got := mustResolve(t, lending, machine); got != canary {
		t.Errorf("with the machine's: %q", got)
	}
}

func TestTheMachinesIdentityInItsCloudHasToBeLent(t *testing.T) {
	env := &variables{values: map[string]string{"AWS_ACCESS_KEY_ID": awsID, "AWS_SECRET_ACCESS_KEY": awsSecret}}
	d := doer{"https://secretsmanager.eu-west-1.amazonaws.com/": secretsManager(t, awsID)}
	ref := secretref.Reference{Manager: secretref.AWS, Path: "prod/app", Key: "key", Auth: map[string]string{"type": "serviceRole", "region": "eu-west-1"}}
	mustFail(t, secretref.New(secretref.Options{Client: d, LookupEnv: env.lookup}), ref, "secret_not_allowed")
	lending := secretref.New(secretref.Options{Client: d, LookupEnv: env.lookup, OwnIdentity: true})
	if got := mustResolve(t, lending, ref); got != canary {
		t.Errorf("%q", got)
	}
	mustFail(t, lending, withAuth(ref, "endpoint", "https://elsewhere.example.com"), "invalid_request")
	mustFail(t, lending, withAuth(ref, "access_key_id", awsID, "endpoint", "https://elsewhere.example.com"), "invalid_request")
	env.unset("AWS_ACCESS_KEY_ID")
	mustFail(t, lending, ref, "secret_manager_refused")
}

func inAzure(address string) secretref.Reference {
	return secretref.Reference{
		Manager: secretref.Azure, Path: "app-key",
		Auth:    map[string]string{"type": "entra", "vault_url": address, "tenant_id": "contoso.example", "client_id": "gateway"},
		Secrets: credentials("client_secret", "canary-client-secret"),
	}
}

func TestKeyVaultIsReadWithATokenForIt(t *testing.T) {
	token := func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"access_token":"canary-token","expires_in":3600}`)
	}
	vault := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer canary-token" || r.URL.Query().Get("api-version") == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		io.WriteString(w, `{"value":"`+canary+`","id":"x"}`)
	}
	const address = "https://acme.vault.azure.net"
	d := doer{
		address + "/secrets/app-key": vault,
		address + "/secrets/off":     respondWith(403, `{"error":{"code":"Forbidden","innererror":{"code":"SecretDisabled"}}}`),
		address + "/secrets/odd":     respondWith(200, `{"value":7,"canary":""}`),
		"https://login.microsoftonline.com/contoso.example/oauth2/v2.0/token": func(w http.ResponseWriter, r *http.Request) {
			if r.ParseForm(); r.PostForm.Get("scope") != "https://vault.azure.net/.default" || r.PostForm.Get("client_secret") != "canary-client-secret" {
				respondWith(401, `{"error":"invalid_client","error_description":"canary"}`)(w, r)
				return
			}
			token(w, r)
		},
		"http://169.254.169.254/metadata/identity/oauth2/token": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("resource") != "https://vault.azure.net/" {
				t.Errorf("a token for %s", r.URL.Query().Get("resource"))
			}
			token(w, r)
		},
	}
	env := &variables{}
	strict, lending := secretref.New(secretref.Options{Client: d, LookupEnv: env.lookup}), secretref.New(secretref.Options{Client: d, LookupEnv: env.lookup, OwnIdentity: true})
	ref := inAzure(address + "/")
	if got := mustResolve(t, strict, ref); got != canary {
		t.Errorf("%q", got)
	}
	for path, code := range map[string]string{"off": "secret_not_found", "odd": "secret_manager_failed", "none": "secret_manager_failed"} {
		r := ref
		r.Path = path
		mustFail(t, strict, r, code)
	}
	wrong := ref
	wrong.Secrets = credentials("client_secret", "canary-of-another")
	mustFail(t, strict, wrong, "secret_manager_refused")
	for _, way := range []string{"managed", "default"} {
		machine := secretref.Reference{Manager: secretref.Azure, Path: "app-key", Auth: map[string]string{"type": way, "vault_url": address}}
		mustFail(t, strict, machine, "secret_not_allowed")
		if got := mustResolve(t, lending, machine); got != canary {
			t.Errorf("%s: %q", way, got)
		}
		for _, elsewhere := range []string{"https://vault.example.com", "http://acme.vault.azure.net", "https://vault.azure.net.example.com"} {
			mustFail(t, lending, withAuth(machine, "vault_url", elsewhere), "invalid_request")
		}
	}
}

func TestAReferenceToACloudIsChecked(t *testing.T) {
	azure, vault := inAzure("https://acme.vault.azure.net"), "auth_config."
	path := func(p string) secretref.Reference { r := azure; r.Path = p; return r }
	bare := inAWS()
	bare.Secrets = nil
	role := withAuth(bare, "type", "assumedRole", "role_arn", roleARN)
	open := azure
	open.Secrets = nil
	for param, list := range map[string][]secretref.Reference{
		"":                          {inAWS(), azure, path("app-key/0123456789abcdef0123456789abcdef")},
		vault + "region":            {inAWS("region", ""), inAWS("region", "evil.net/")},
		vault + "type":              {inAWS("type", "apiKey"), inAWS("type", "serviceRole"), withAuth(azure, "type", "managed"), withAuth(azure, "type", "x")},
		vault + "access_key_id":     {inAWS("access_key_id", "")},
		vault + "secret_access_key": {bare, role},
		vault + "role_arn":          {inAWS("type", "assumedRole")},
		vault + "vault_url":         {withAuth(azure, "vault_url", ""), withAuth(azure, "vault_url", "acme")},
		vault + "client_secret":     {open},
		vault + "tenant_id":         {withAuth(azure, "tenant_id", "")},
		"secret_path":               {path(""), path("a/b"), path("../certificates/x"), path("a?x=1"), path("a b")},
		"manager_type":              {{Manager: "paper"}},
	} {
		for _, r := range list {
			wantParam(t, secretref.New(secretref.Options{}).Check(r), param, r)
		}
	}
}
