package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/cmd/modelgate/gateway"
)

// authority is a gateway's authorization server that answers requests for a token in turn.
type authority struct {
	*httptest.Server
	asked   []string
	answers []string // of the token endpoint; the last one stays
}

func newAuthority(t *testing.T, answers ...string) *authority {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	a := &authority{answers: answers}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	a.asked = append(a.asked, fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, r.Header.Get("x-gateway-api-key")))
	switch r.URL.Path {
	case "/oauth/device_authorization":
		if r.PostForm.Get("client_id") != "modelgate-cli" || r.PostForm.Get("device_name") == "" {
			w.WriteHeader(http.StatusBadRequest)
		}
		fmt.Fprintf(w, `{"device_code":"secret-code","user_code":"BCDF-GHJK\u001b[2J","verification_uri":%q,"expires_in":600,"interval":1}`, a.URL+"/device")
	case "/oauth/token":
		if r.PostForm.Get("device_code") != "secret-code" || r.PostForm.Get("grant_type") != "urn:ietf:params:oauth:grant-type:device_code" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		answer := a.answers[0]
		if len(a.answers) > 1 {
			a.answers = a.answers[1:]
		}
		if strings.Contains(answer, "error") {
			w.WriteHeader(http.StatusBadRequest)
		}
		io.WriteString(w, answer)
	case "/v1/auth/logout":
		io.WriteString(w, `{}`)
	default:
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, `{"message":"no"}`)
	}
}

const granted = `{"access_token":"mgs-token","token_type":"Bearer","expires_in":3600}`

func TestLoginStoresTheSessionForOtherCommands(t *testing.T) {
	a := newAuthority(t, `{"error":"authorization_pending"}`, granted)
	code, out, errs := invoke(t, nil, "", "login", "--url", a.URL+"/v1/")
	if code != 0 || !strings.Contains(out, a.URL+"/device") || !strings.Contains(out, "BCDF-GHJK") || !strings.Contains(out, "Signed in") || errs != "" {
		t.Fatalf("login: %d %q %q", code, out, errs)
	}
	if strings.Contains(out, "secret-code") || strings.Contains(out, "mgs-token") || strings.Contains(out, "\x1b") {
		t.Errorf("login printed %q", out)
	}
	path, err := gateway.SessionsFile()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %v, %v", info.Mode(), err)
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("the folder has %v, %v", files, err)
	}
	uses := func(want string, args ...string) {
		t.Helper()
		a.asked = nil
		invoke(t, nil, "", append(args, "--url", a.URL)...)
		if len(a.asked) == 0 || !strings.HasSuffix(a.asked[0], want) {
			t.Errorf("%v sent %q, want the key %q", args, a.asked, want)
		}
	}
	uses(" mgs-token", "tail")
	uses(" other", "tail", "--key", "other")
	uses(" mgs-token", "explain", "0197a3f0-0000-7000-8000-000000000000")
	other := httptest.NewServer(a)
	t.Cleanup(other.Close)
	a.asked = nil
	if _, _, errs := invoke(t, nil, "", "tail", "--url", other.URL); strings.HasSuffix(a.asked[0], "token") || !strings.Contains(errs, "modelgate login") {
		t.Errorf("another gateway got %q; the error is %q", a.asked, errs)
	}
	a.asked = nil
	if code, out, errs := invoke(t, nil, "", "logout", "--url", a.URL); code != 0 || !strings.Contains(out, "Signed out") || a.asked[0] != "POST /v1/auth/logout mgs-token" {
		t.Errorf("logout: %d %q %q, sent %q", code, out, errs, a.asked)
	}
	if code, _, errs := invoke(t, nil, "", "logout", "--url", a.URL); code != 1 || !strings.Contains(errs, "not signed in") {
		t.Errorf("logout again: %d %q", code, errs)
	}
	uses(" ", "tail")
}

func TestLoginSaysWhyItFailed(t *testing.T) {
	for answer, want := range map[string]string{
		`{"error":"access_denied"}`: "denied", `{"error":"expired_token"}`: "in time", `{}`: "no session",
		`{"error":"invalid_grant","error_description":"used"}`: "invalid_grant: used",
	} {
		a := newAuthority(t, answer)
		if code, _, errs := invoke(t, nil, "", "login", "--url", a.URL); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("%s: %d %q, want %q", answer, code, errs, want)
		}
		if path, err := gateway.SessionsFile(); err != nil {
			t.Error(err)
		} else if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: a session was stored", answer)
		}
	}
	a := newAuthority(t, granted)
	a.Close()
	if code, _, errs := invoke(t, nil, "", "login", "--url", a.URL); code != 1 || !strings.Contains(errs, "cannot reach the gateway") {
		t.Errorf("no gateway: %d %q", code, errs)
	}
	if code, _, errs := invoke(t, nil, "", "login", "--url", "ftp://x"); code != 2 || !strings.Contains(errs, "--url") {
		t.Errorf("no address: %d %q", code, errs)
	}
}
