package auth_test

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/provider"
)

const googleToken = "https://oauth2.googleapis.com/token"

func serviceAccount(t *testing.T, more ...string) string {
	t.Helper()
	_, private := rsaPair()
	a := map[string]any{"type": "service_account", "project_id": "p", "private_key_id": "kid-1", "private_key": private,
		"client_email": "gateway@p.iam.gserviceaccount.com", "token_uri": googleToken}
	for i := 0; i < len(more); i += 2 {
		a[more[i]] = more[i+1]
	}
	return object(t, a)
}

// claims verifies an assertion and returns what it says.
func claims(t *testing.T, assertion string) map[string]any {
	t.Helper()
	private, _ := rsaPair()
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		t.Fatalf("assertion %q", assertion)
	}
	seal, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(&private.PublicKey, crypto.SHA256, sum[:], seal); err != nil {
		t.Errorf("signature: %v", err)
	}
	all := map[string]any{}
	for _, part := range parts[:2] {
		text, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestAServiceAccountIsExchangedOnceUntilShortlyBeforeTheEnd(t *testing.T) {
	w := newWorld()
	w.handle(googleToken, func(rw http.ResponseWriter, _ *http.Request, form url.Values) {
		c := claims(t, form.Get("assertion"))
		for name, want := range map[string]any{"alg": "RS256", "typ": "JWT", "kid": "kid-1", "aud": googleToken,
			"iss": "gateway@p.iam.gserviceaccount.com", "scope": "https://www.googleapis.com/auth/cloud-platform"} {
			if c[name] != want {
				t.Errorf("%s = %v, want %v", name, c[name], want)
			}
		}
		if life := c["exp"].(float64) - c["iat"].(float64); life != 3600 || c["iat"] != float64(w.now.Unix()) {
			t.Errorf("issued at %v for %v s", c["iat"], life)
		}
		if got := form.Get("grant_type"); got != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
			t.Errorf("grant_type = %q", got)
		}
		io.WriteString(rw, grant("ya29."+w.now.Format("150405"), 3600))
	})
	s, spec := w.signer(), row(provider.MethodGCP, "cloud_b_")
	for _, step := range []struct {
		after time.Duration
		set   provider.Settings
		want  string
	}{
		{0, provider.Settings{Options: options{"cloud_b_service_account_json": serviceAccount(t)}}, "Bearer ya29.120000"},
		{54 * time.Minute, provider.Settings{Options: options{"cloud_b_service_account_json": serviceAccount(t)}}, "Bearer ya29.120000"},
		{0, provider.Settings{Key: key(serviceAccount(t))}, "Bearer ya29.120000"},
		{2 * time.Minute, provider.Settings{Options: options{"cloud_b_service_account_json": serviceAccount(t)}}, "Bearer ya29.125600"},
		{time.Minute, provider.Settings{Options: options{"cloud_b_service_account_json": serviceAccount(t, "client_email", "x@y")}, Key: key("k")}, "Bearer ya29.125700"},
	} {
		w.advance(step.after)
		if w.now == noon.Add(57*time.Minute) {
			w.handleText(googleToken, grant("ya29.125700", 3600))
		}
		if got := mustSign(t, s, spec, step.set); got != step.want {
			t.Errorf("at %v: sent %q, want %q", w.now, got, step.want)
		}
	}
	if len(w.asked) != 3 || w.guarded[0] {
		t.Errorf("asked %v, guarded %v; want three times, freely", w.asked, w.guarded)
	}
}

func TestTheAddressForTokensIsCheckedByTheClient(t *testing.T) {
	for _, tt := range []struct {
		address string
		guarded bool
		refused bool
	}{
		{"https://oauth2.googleapis.com/token", false, false},
		{"https://OAuth2.googleapis.com/token", false, false},
		{"https://oauth2.googleapis.com:8443/token", true, false},
		{"https://evil-googleapis.com/token", true, false},
		{"https://oauth2.googleapis.com.evil.net/token", true, false},
		{"https://tokens.example.com/t", true, false},
		{"https://169.254.169.254/t", true, false}, // which the guard refuses
		{"http://oauth2.googleapis.com/token", false, true},
		{"https://u:p@oauth2.googleapis.com/token", false, true},
		{"file:///etc/passwd", false, true},
		{"://", false, true},
	} {
		t.Run(tt.address, func(t *testing.T) {
			w := newWorld()
			if u, err := url.Parse(tt.address); err == nil {
				w.handleText(u.Scheme+"://"+u.Host+u.Path, grant("t", 60))
			}
			_, err := sign(t, w.signer(), row(provider.MethodGCP, "cloud_b_"), provider.Settings{Key: key(serviceAccount(t, "token_uri", tt.address))})
			if tt.refused {
				mustRefuse(t, err, apierr.Invalid, "credential_malformed")
				return
			}
			if err != nil || len(w.guarded) != 1 || w.guarded[0] != tt.guarded {
				t.Errorf("got %v, guarded %v, want guarded %t", err, w.guarded, tt.guarded)
			}
		})
	}
}

func TestReadyTokensOfGoogleAreSentAsTheyAre(t *testing.T) {
	w := newWorld()
	for _, set := range []provider.Settings{
		{Key: key("ya29.x")},
		{Key: key("ya29.x"), Options: options{"cloud_b_auth_type": "accessToken", "cloud_b_service_account_json": "{}"}},
	} {
		if got := mustSign(t, w.signer(), row(provider.MethodGCP, "cloud_b_"), set); got != "Bearer ya29.x" || len(w.asked) != 0 {
			t.Errorf("sent %q, asked %v", got, w.asked)
		}
	}
}

func TestARefreshTokenIsExchanged(t *testing.T) {
	w := newWorld()
	w.handle(googleToken, func(rw http.ResponseWriter, _ *http.Request, form url.Values) {
		if form.Get("refresh_token") != "r" || form.Get("client_id") != "c" || form.Get("client_secret") != "s" || form.Get("grant_type") != "refresh_token" {
			t.Errorf("asked with %v", form)
		}
		io.WriteString(rw, grant("ya29.user", 3600))
	})
	got := mustSign(t, w.signer(), row(provider.MethodGCP, ""), provider.Settings{
		Key: key(object(t, map[string]any{"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r"}))})
	if got != "Bearer ya29.user" {
		t.Errorf("sent %q", got)
	}
}

func federatedAccount(t *testing.T, source map[string]any, more ...string) string {
	t.Helper()
	a := map[string]any{"type": "external_account", "audience": "//iam.googleapis.com/pool", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
		"token_url": "https://sts.googleapis.com/v1/token", "credential_source": source}
	for i := 0; i < len(more); i += 2 {
		a[more[i]] = more[i+1]
	}
	return object(t, a)
}

func TestAnIdentityOfElsewhereIsExchanged(t *testing.T) {
	const acting = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/sa@p.iam.gserviceaccount.com:generateAccessToken"
	for _, tt := range []struct {
		name   string
		source map[string]any
		more   []string
		want   string
	}{
		{"from a file", map[string]any{"file": "/t"}, nil, "Bearer federated"},
		{"from a field of a file", map[string]any{"file": "/j", "format": map[string]any{"type": "json", "subject_token_field_name": "id"}}, nil, "Bearer federated"},
		{"from an address", map[string]any{"url": "http://127.0.0.1:9/id", "headers": map[string]any{"X-Pass": "p"}}, nil, "Bearer federated"},
		{"to act as a service account", map[string]any{"file": "/t"}, []string{"service_account_impersonation_url", acting}, "Bearer acting"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.files["/t"], w.files["/j"] = " subject \n", `{"id":"subject","other":1}`
			w.handle("http://127.0.0.1:9/id", func(rw http.ResponseWriter, r *http.Request, _ url.Values) {
				if r.Header.Get("X-Pass") != "p" {
					t.Errorf("the source was asked with %v", r.Header)
				}
				io.WriteString(rw, "subject")
			})
			w.handle("https://sts.googleapis.com/v1/token", func(rw http.ResponseWriter, _ *http.Request, form url.Values) {
				if form.Get("subject_token") != "subject" || form.Get("audience") != "//iam.googleapis.com/pool" ||
					form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:token-exchange" || form.Get("subject_token_type") != "urn:ietf:params:oauth:token-type:jwt" {
					t.Errorf("asked with %v", form)
				}
				io.WriteString(rw, grant("federated", 3600))
			})
			w.handle(acting, func(rw http.ResponseWriter, r *http.Request, _ url.Values) {
				if r.Header.Get("Authorization") != "Bearer federated" {
					t.Errorf("acting asked with %v", r.Header)
				}
				io.WriteString(rw, `{"accessToken":"acting","expireTime":"2026-11-21T13:00:00Z"}`)
			})
			set := provider.Settings{Slug: "entry", Options: options{"service_account_json": federatedAccount(t, tt.source, tt.more...), "auth_type": "workloadIdentityFederation"}}
			s := w.signer()
			for range 2 {
				if got := mustSign(t, s, row(provider.MethodGCP, ""), set); got != tt.want {
					t.Errorf("sent %q, want %q", got, tt.want)
				}
			}
			if len(w.asked) > 2 {
				t.Errorf("asked again: %v", w.asked)
			}
			// A client that knows the text must not be lent what the entry fetched.
			set.Slug = ""
			_, err := sign(t, s, row(provider.MethodGCP, ""), set)
			mustRefuse(t, err, apierr.Forbidden, "machine_identity_refused")
		})
	}
}

func TestTheMachinesGoogleIdentityIsFound(t *testing.T) {
	const metadata = "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token"
	for name, prepare := range map[string]func(*world){
		"in a file": func(w *world) {
			w.env["GOOGLE_APPLICATION_CREDENTIALS"], w.files["/sa.json"] = "/sa.json", serviceAccount(t)
			w.handleText(googleToken, grant("ya29.machine", 3600))
		},
		"in the metadata service": func(w *world) {
			w.handle(metadata, func(rw http.ResponseWriter, r *http.Request, _ url.Values) {
				if r.Header.Get("Metadata-Flavor") != "Google" {
					t.Errorf("asked with %v", r.Header)
				}
				io.WriteString(rw, grant("ya29.machine", 3600))
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			prepare(w)
			s, set := w.signer(), provider.Settings{Slug: "entry", Options: options{"auth_type": "workload"}}
			for range 2 {
				if got := mustSign(t, s, row(provider.MethodGCP, ""), set); got != "Bearer ya29.machine" {
					t.Errorf("sent %q", got)
				}
			}
			if len(w.asked) != 1 {
				t.Errorf("asked %v", w.asked)
			}
			set.Slug = ""
			_, err := sign(t, s, row(provider.MethodGCP, ""), set)
			mustRefuse(t, err, apierr.Forbidden, "machine_identity_refused")
		})
	}
}

func TestGoogleCredentialsThatCannotBeUsedAreRefused(t *testing.T) {
	for name, set := range map[string]provider.Settings{
		"none":                 {},
		"no object":            {Options: options{"service_account_json": `"text"`}},
		"another type":         {Key: key(`{"type":"magic"}`)},
		"no private key":       {Key: key(serviceAccount(t, "private_key", ""))},
		"a broken private key": {Key: key(serviceAccount(t, "private_key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"))},
		"a locked private key": {Key: key(serviceAccount(t, "private_key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----"))},
		"a huge object":        {Key: key(serviceAccount(t, "x", strings.Repeat("x", 64<<10)))},
		"an unknown way":       {Key: key("k"), Options: options{"auth_type": "magic"}},
		"no account for a way": {Key: key("k"), Options: options{"auth_type": "serviceAccount"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			_, err := sign(t, w.signer(), row(provider.MethodGCP, ""), set)
			mustRefuse(t, err, apierr.Invalid, "")
			if len(w.asked) != 0 {
				t.Errorf("asked %v", w.asked)
			}
		})
	}
}

func TestStoredProvidersUseTheMachinesIdentityOnlyAsAllowed(t *testing.T) {
	source := func(from string) options {
		return options{"auth_type": "workloadIdentityFederation", "project_id": "p", "region": "r", "service_account_json": `{"type":"external_account","audience":"a",` +
			`"subject_token_type":"t","token_url":"https://sts.googleapis.com/v1/token","credential_source":` + from + `}`}
	}
	pool := func(token, more string) options {
		return options{"auth_type": "workloadIdentityFederation", "project_id": "p", "region": "r", "service_account_json": `{"type":"external_account","audience":"a",` +
			`"subject_token_type":"t","token_url":"` + token + `","credential_source":{"file":"/t"}` + more + `}`}
	}
	const google, theirs, bucket = "https://sts.googleapis.com/v1/token", "https://tokens.example.com/v1/token", "https://storage.googleapis.com/upload/storage/v1/b/theirs/o"
	for _, tt := range []struct {
		name    string
		lending provider.MachineIdentity
		host    string
		o       options
		asked   bool // whether anything is asked, and so the machine's token read
	}{
		{"the operator's own", provider.MachineIdentityAll, "", pool(google, ""), true},
		{"the operator's own, at another address", provider.MachineIdentityAll, "https://vertex.example.com", pool(theirs, ""), true},
		{"lent", provider.MachineIdentityCloudHosts, "", pool(google, ""), true},
		{"lent to a workspace", provider.LendOwn, "", pool(google, ""), true},
		{"lent, of a file that is not listed", provider.MachineIdentityCloudHosts, "", source(`{"file":"/unlisted"}`), false},
		{"lent, of an address", provider.MachineIdentityCloudHosts, "", source(`{"url":"http://169.254.169.254/latest/user-data"}`), false},
		{"lent, to a bucket of theirs", provider.MachineIdentityCloudHosts, "", pool(bucket, ""), false},
		{"lent, to a query of theirs", provider.MachineIdentityCloudHosts, "", pool(google+"?x=1", ""), false},
		{"lent, for tokens of another address", provider.MachineIdentityCloudHosts, "", pool(theirs, ""), false},
		{"lent, at an address of theirs", provider.MachineIdentityCloudHosts, "https://vertex.example.com", pool(google, ""), false},
		{"not lent", provider.MachineIdentityNone, "", pool(google, ""), false},
		{"not lent, of the machine itself", provider.MachineIdentityNone, "", options{"auth_type": "workload", "project_id": "p", "region": "r"}, false},
	} {
		w := newWorld()
		w.files["/t"], w.files["/unlisted"], w.listed = "the machine's own", "the machine's own", []string{"/t"}
		for _, address := range []string{google, theirs} {
			w.handleText(address, `{"access_token":"fetched","expires_in":3600,"token_type":"Bearer"}`)
		}
		_, err := sign(t, w.signer(), row(provider.MethodGCP, ""), provider.Settings{Slug: "entry", CustomHost: tt.host, Options: tt.o, Lending: tt.lending})
		if (err == nil) != tt.asked || (len(w.asked) > 0) != tt.asked {
			t.Errorf("%s: %v, asked %v", tt.name, err, w.asked)
		}
	}
	// What one entry fetched is not for another's of the same slug and text.
	shared := newWorld()
	shared.files["/t"] = "the machine's own"
	shared.handleText(google, `{"access_token":"fetched","expires_in":3600,"token_type":"Bearer"}`)
	s := shared.signer()
	mustSign(t, s, row(provider.MethodGCP, ""), provider.Settings{Slug: "entry", Options: pool(google, "")})
	for _, lending := range []provider.MachineIdentity{provider.MachineIdentityCloudHosts, provider.LendOwn, provider.MachineIdentityNone} {
		_, err := sign(t, s, row(provider.MethodGCP, ""), provider.Settings{Slug: "entry", CustomHost: "https://theirs.example.com", Options: pool(google, ""), Lending: lending})
		mustRefuse(t, err, apierr.Forbidden, "machine_identity_refused")
	}
	// What was got for it does not go to a bucket of theirs either.
	w := newWorld()
	w.files["/t"], w.listed = "the machine's own", []string{"/t"}
	w.handleText(google, `{"access_token":"fetched","expires_in":3600,"token_type":"Bearer"}`)
	o := pool(google, `,"service_account_impersonation_url":"`+bucket+`"`)
	_, err := sign(t, w.signer(), row(provider.MethodGCP, ""), provider.Settings{Slug: "entry", Options: o, Lending: provider.MachineIdentityCloudHosts})
	if mustRefuse(t, err, apierr.Invalid, "credential_malformed"); len(w.asked) != 1 {
		t.Errorf("asked %v", w.asked)
	}
}
