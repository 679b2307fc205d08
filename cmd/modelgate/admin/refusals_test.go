package admin_test

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

func TestRefusalsSayWhatToDo(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	s := newShell(t, g)
	key := s.run("keys", "create", "ci", "--workspace", "default", "--scopes", "completions.write")
	as := func(key string) *shell {
		other := newShell(t, g)
		other.variable["MODELGATE_BOOTSTRAP_KEY"] = key
		return other
	}
	as("mg-wrong-key-of-somebody").refuse([]string{"keys", "list"}, "401", "check --key")
	as("").refuse([]string{"keys", "list"}, "401", "modelgate login", "--key")
	as(key).refuse([]string{"keys", "list"}, "403", "use a key or session with this right")
	as("a key\nx-evil: 1").refuse([]string{"keys", "list"}, "characters")
	s.refuse([]string{"labels", "create", "production", "--workspace", "default"}, "409", "already exists")
	s.refuse([]string{"configs", "list", "--workspace", "nowhere"}, "404", "modelgate workspaces list")
	for _, args := range [][]string{{"keys", "list", "--key", "mg-secret-of-a-call"}, {"keys", "show", "x", "--key=mg-secret-of-a-call"}} {
		if _, _, err := s.try(args...); err == nil || strings.Contains(err.Error(), "secret-of-a-call") {
			t.Errorf("modelgate %s: %v", strings.Join(args, " "), err)
		}
	}
}

func TestGatewayIsUnreachable(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	s := &shell{t: t, variable: map[string]string{"MODELGATE_URL": gone.URL}}
	s.refuse([]string{"keys", "list"}, "cannot reach the gateway at "+strings.TrimPrefix(gone.URL, "http://"), "--url")
	s.refuse([]string{"keys", "list", "--url", "ftp://gate.example"}, "http or https")
	s.refuse([]string{"keys", "list", "--url", "https://user:secret@gate.example"}, "without a password")
	hanging := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hanging:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(hanging) })
	s.refuse([]string{"keys", "list", "--url", silent.URL, "--timeout", "1ms"}, "no response in time", "--timeout")
}

// TestPrivateAuthority reaches a gateway behind a proxy with a certificate of one's own.
func TestPrivateAuthority(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	to, err := url.Parse(g.Root)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }})
	t.Cleanup(front.Close)
	s := newShell(t, g)
	s.variable["MODELGATE_URL"] = front.URL
	s.refuse([]string{"workspaces", "list"}, "certificate", "--ca FILE")
	ca := mustWrite(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})))
	if out := s.run("workspaces", "list", "--ca", ca, "--no-headers", "-o", "name"); out != "default" {
		t.Errorf("workspaces list prints %q", out)
	}
	s.variable["MODELGATE_CA"] = ca
	s.run("workspaces", "list")
	s.refuse([]string{"workspaces", "list", "--ca", mustWrite(t, "bad.pem", "nothing")}, "no certificate in PEM format")
	s.refuse([]string{"workspaces", "list", "--ca", ca + ".away"}, "--ca (MODELGATE_CA)")
}

// TestKeysStayAtTheirHost follows no redirect, because the key would follow too.
func TestKeysStayAtTheirHost(t *testing.T) {
	t.Parallel()
	var asked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	t.Cleanup(other.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		from := httptest.NewServer(http.RedirectHandler(other.URL+"/v1/api-keys", status))
		t.Cleanup(from.Close)
		s := &shell{t: t, variable: map[string]string{"MODELGATE_URL": from.URL, "MODELGATE_BOOTSTRAP_KEY": "mg-secret"}}
		s.refuse([]string{"keys", "list"}, other.URL, "--url")
		s.refuse([]string{"keys", "create", "x", "--scopes", "y"}, other.URL)
	}
	if asked.Load() {
		t.Error("another host was asked")
	}
}

// TestHostileGateways print nothing that controls a terminal, and end.
func TestHostileGateways(t *testing.T) {
	t.Parallel()
	var pages atomic.Int64
	answer := func(f http.HandlerFunc) *shell {
		server := httptest.NewServer(f)
		t.Cleanup(server.Close)
		return &shell{t: t, variable: map[string]string{"MODELGATE_URL": server.URL}}
	}
	const name = "\\u001b[31mred\\u202e\\u009b2J\\r\\nADMIN"
	s := answer(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"id": "%[1]s", "key": "%[1]s", "name": "%[1]s", "warnings": ["%[1]s"], "data": [{"name": "%[1]s", "id": "%[1]s"}], "total": 1}`, name)
	})
	for _, args := range [][]string{{"keys", "list"}, {"keys", "list", "-o", "wide"}, {"keys", "list", "-o", "json"}, {"keys", "list", "-o", "yaml"},
		{"keys", "list", "-o", "name"}, {"keys", "show", "x"}, {"keys", "create", "x", "--scopes", "y"}, {"keys", "create", "x", "--scopes", "y", "-o", "key"},
		{"configs", "create", "x", "--config", "{}"}} {
		out, warnings, err := s.try(args...)
		if err != nil || strings.ContainsAny(out+warnings, "\x1b\u202e\u009b\r") || strings.Contains(out+warnings, "\nADMIN") {
			t.Errorf("modelgate %s prints %q, %q, %v", strings.Join(args, " "), out, warnings, err)
		}
	}
	s = answer(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, `{"message": "%s"}`, name)
	})
	if _, _, err := s.try("keys", "list"); err == nil || !strings.Contains(err.Error(), "418") || strings.ContainsAny(err.Error(), "\r\n") {
		t.Errorf("an error is %q", err)
	}
	s = answer(func(w http.ResponseWriter, _ *http.Request) { // the same page again and again
		pages.Add(1)
		fmt.Fprint(w, `{"data": [{"name": "a", "id": "b"}], "has_more": true, "next_cursor": "same", "total": 9}`)
	})
	s.run("keys", "list", "--all")
	if n := pages.Load(); n != 2 {
		t.Errorf("a list that never ends was read %d times", n)
	}
	for _, body := range []string{"", "null", "[]", "<html>", `{"data": 3}`, `{"data": [3, null, "x"]}`, `{"data_points": 1, "summary": []}`} {
		s = answer(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
		for _, args := range [][]string{{"keys", "list"}, {"keys", "show", "x"}, {"keys", "create", "x", "--scopes", "y"}, {"analytics", "cost"},
			{"integrations", "grants", "x"}, {"top", "keys"}, {"workspaces", "delete", "x", "--yes"}, {"keys", "show", "x", "-o", "yaml"}} {
			s.try(args...) // must end without a panic
		}
	}
	s = answer(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		fmt.Fprint(w, "<html>nginx</html>")
	})
	s.refuse([]string{"keys", "list"}, "502", "not a response of a gateway")
}
