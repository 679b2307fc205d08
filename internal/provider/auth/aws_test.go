package auth_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/provider"
)

// stsResponse is a response of STS with keys that end at a moment.
func stsResponse(action, id string, end time.Time) string {
	return fmt.Sprintf(`<%[1]sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%[1]sResult><Credentials>
<AccessKeyId>%[2]s</AccessKeyId><SecretAccessKey>%[3]s</SecretAccessKey><SessionToken>of-the-role</SessionToken><Expiration>%[4]s</Expiration>
</Credentials></%[1]sResult></%[1]sResponse>`, action, id, awsSecret, end.Format(time.RFC3339))
}

const (
	roleARN = "arn:aws:iam::123456789012:role/gateway"
	roleID  = "ASIAROLE123456789012"
)

func roleOptions(more ...string) options {
	o := options{"cloud_a_access_key_id": awsID, "cloud_a_secret_access_key": awsSecret, "cloud_a_region": "eu-west-1",
		"cloud_a_role_arn": roleARN, "cloud_a_external_id": "ex & tern/al"}
	for i := 0; i < len(more); i += 2 {
		o[more[i]] = more[i+1]
	}
	return o
}

func TestARoleIsAssumedOnceUntilItEnds(t *testing.T) {
	w := newWorld()
	w.handle("https://sts.eu-west-1.amazonaws.com/", func(rw http.ResponseWriter, r *http.Request, form url.Values) {
		verify(t, r, []byte(form.Encode()), "sts", "eu-west-1")
		if form.Get("RoleArn") != roleARN || !strings.HasPrefix(form.Get("ExternalId"), "ex & tern/al") || form.Get("Action") != "AssumeRole" {
			t.Errorf("asked for %v", form)
		}
		io.WriteString(rw, stsResponse("AssumeRole", roleID, w.now.Add(time.Hour)))
	})
	s, spec := w.signer(), row(provider.MethodAWS, "cloud_a_")
	for _, step := range []struct {
		after time.Duration
		asked int
	}{{0, 1}, {54 * time.Minute, 1}, {2 * time.Minute, 2}, {time.Minute, 2}} {
		w.advance(step.after)
		target := mustTarget(t, spec, provider.Settings{Options: roleOptions()})
		req := newRequest(t, target)
		if err := s.Sign(t.Context(), target, req, nil); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(req.Header.Get("Authorization"), "Credential="+roleID+"/") || req.Header.Get("X-Amz-Security-Token") != "of-the-role" {
			t.Errorf("signed with %v", req.Header)
		}
		if len(w.asked) != step.asked {
			t.Errorf("after %v: STS was asked %d times, want %d", step.after, len(w.asked), step.asked)
		}
	}
	mustSign(t, s, spec, provider.Settings{Options: roleOptions("cloud_a_external_id", "ex & tern/al of another")})
	if len(w.asked) != 3 {
		t.Error("the keys for one external id served another")
	}
}

func TestRegionsOfChinaHaveTheirOwnSTS(t *testing.T) {
	w := newWorld()
	w.handleText("https://sts.cn-north-1.amazonaws.com.cn/", stsResponse("AssumeRole", roleID, noon.Add(time.Hour)))
	mustSign(t, w.signer(), row(provider.MethodAWS, "cloud_a_"), provider.Settings{Options: roleOptions("cloud_a_region", "cn-north-1")})
}

func TestAWSCredentialsThatCannotBeUsedAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		key  string
		set  options
		kind apierr.Kind
		code string
	}{
		{"none", "", options{"region": "r"}, apierr.Invalid, "missing_credential"},
		{"an id alone", "", options{"access_key_id": awsID, "region": "r"}, apierr.Invalid, ""},
		{"a secret alone", "", options{"secret_access_key": "s", "region": "r"}, apierr.Invalid, ""},
		{"an id that would leave its place", "", options{"access_key_id": awsID + ", SignedHeaders=", "secret_access_key": "s", "region": "r"}, apierr.Invalid, ""},
		{"no region", "", options{"access_key_id": awsID, "secret_access_key": "s"}, apierr.Invalid, ""},
		{"a region that is a host", "", options{"access_key_id": awsID, "secret_access_key": "s", "region": "evil.net/"}, apierr.Invalid, ""},
		{"a session token with a line end", "", options{"access_key_id": awsID, "secret_access_key": "s", "session_token": "a\r\nX: b", "region": "r"}, apierr.Invalid, ""},
		{"a role that is none", "", options{"access_key_id": awsID, "secret_access_key": "s", "role_arn": "gateway", "region": "r"}, apierr.Invalid, ""},
		{"no role to assume", "", options{"access_key_id": awsID, "secret_access_key": "s", "auth_type": "assumedRole", "region": "r"}, apierr.Invalid, ""},
		{"an unknown way", "", options{"auth_type": "magic", "region": "r"}, apierr.Invalid, ""},
		{"a role of the machine for a client", "", options{"role_arn": roleARN, "region": "r"}, apierr.Forbidden, "machine_identity_refused"},
		{"the machine's role instead of keys", "", options{"access_key_id": awsID, "secret_access_key": "s", "auth_type": "serviceRole", "region": "r"}, apierr.Forbidden, "machine_identity_refused"},
		{"the machine's role for a client", "k", options{"auth_type": "serviceRole", "region": "r"}, apierr.Forbidden, "machine_identity_refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.env["AWS_ACCESS_KEY_ID"], w.env["AWS_SECRET_ACCESS_KEY"] = awsID, awsSecret
			_, err := sign(t, w.signer(), row(provider.MethodAWS, ""), provider.Settings{Key: key(tt.key), Options: tt.set})
			mustRefuse(t, err, tt.kind, tt.code)
			if len(w.asked) != 0 {
				t.Errorf("asked %v", w.asked)
			}
		})
	}
}

func TestKeysOfAWSMayBeInTwoPlaces(t *testing.T) {
	spec := row(provider.MethodAWS, "")
	for _, tt := range []struct {
		name string
		set  provider.Settings
		want string
	}{
		{"an API key", provider.Settings{Key: key("ABSK-x"), Options: options{"region": "r"}}, "Bearer ABSK-x"},
		{"an API key by name", provider.Settings{Key: key("ABSK-x"), Options: options{"region": "r", "auth_type": "apiKey"}}, "Bearer ABSK-x"},
		{"an id instead of the key", provider.Settings{Key: key(awsID), Options: options{"region": "r", "secret_access_key": awsSecret}}, "AWS4-HMAC-SHA256 Credential=" + awsID},
		{"both", provider.Settings{Key: key("ABSK-x"), Options: options{"region": "r", "access_key_id": awsID, "secret_access_key": awsSecret}}, "AWS4-HMAC-SHA256 Credential=" + awsID},
		{"none behind a custom host", provider.Settings{CustomHost: "https://signer.example.com", Options: options{"region": "r"}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := mustSign(t, newWorld().signer(), spec, tt.set)
			if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// The identity of the machine is found where AWS puts it, for an entry of the
// settings.
func TestTheMachinesRoleIsFound(t *testing.T) {
	keys := fmt.Sprintf(`{"AccessKeyId":%q,"SecretAccessKey":%q,"Token":"of-the-role","Expiration":"2026-11-21T18:00:00Z"}`, roleID, awsSecret)
	for name, prepare := range map[string]func(*world){
		"in the environment": func(w *world) {
			w.env["AWS_ACCESS_KEY_ID"], w.env["AWS_SECRET_ACCESS_KEY"] = roleID, awsSecret
		},
		"by web identity": func(w *world) {
			w.env["AWS_WEB_IDENTITY_TOKEN_FILE"], w.env["AWS_ROLE_ARN"], w.files["/t"] = "/t", roleARN, "web-token\n"
			w.handle("https://sts.eu-west-1.amazonaws.com/", func(rw http.ResponseWriter, r *http.Request, form url.Values) {
				if form.Get("WebIdentityToken") != "web-token" || form.Get("RoleArn") != roleARN || r.Header.Get("Authorization") != "" {
					t.Errorf("asked for %v with %v", form, r.Header)
				}
				io.WriteString(rw, stsResponse("AssumeRoleWithWebIdentity", roleID, noon.Add(time.Hour)))
			})
		},
		"in the container": func(w *world) {
			w.env["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"], w.env["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "/v2/c", "pass"
			w.handle("http://169.254.170.2/v2/c", func(rw http.ResponseWriter, r *http.Request, _ url.Values) {
				if r.Header.Get("Authorization") != "pass" {
					t.Errorf("container asked with %v", r.Header)
				}
				io.WriteString(rw, keys)
			})
		},
		"in the instance": func(w *world) {
			const base = "http://169.254.169.254/latest"
			w.handleText(base+"/api/token", "pass\n")
			w.handleText(base+"/meta-data/iam/security-credentials/", "my-role\n")
			w.handle(base+"/meta-data/iam/security-credentials/my-role", func(rw http.ResponseWriter, r *http.Request, _ url.Values) {
				if r.Header.Get("X-Aws-Ec2-Metadata-Token") != "pass" {
					t.Errorf("instance asked with %v", r.Header)
				}
				io.WriteString(rw, keys)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			prepare(w)
			s, set := w.signer(), provider.Settings{Slug: "entry", Options: options{"auth_type": "serviceRole", "region": "eu-west-1"}}
			for range 2 {
				if got := mustSign(t, s, row(provider.MethodAWS, ""), set); !strings.Contains(got, "Credential="+roleID+"/") {
					t.Errorf("signed with %q", got)
				}
			}
			if len(w.asked) > 3 {
				t.Errorf("asked again: %v", w.asked)
			}
		})
	}
}

func TestTheMachinesKeysMayAssumeARole(t *testing.T) {
	w := newWorld()
	w.env["AWS_ACCESS_KEY_ID"], w.env["AWS_SECRET_ACCESS_KEY"] = awsID, awsSecret
	w.handle("https://sts.eu-west-1.amazonaws.com/", func(rw http.ResponseWriter, r *http.Request, form url.Values) {
		verify(t, r, []byte(form.Encode()), "sts", "eu-west-1")
		io.WriteString(rw, stsResponse("AssumeRole", roleID, noon.Add(time.Hour)))
	})
	got := mustSign(t, w.signer(), row(provider.MethodAWS, ""), provider.Settings{Slug: "entry",
		Options: options{"auth_type": "assumedRole", "role_arn": roleARN, "region": "eu-west-1"}})
	if !strings.Contains(got, "Credential="+roleID+"/") {
		t.Errorf("signed with %q", got)
	}
}
