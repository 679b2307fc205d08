package auth_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/provider/auth"
	"modelgate/internal/upstream"
)

func TestClientTokensAreFetchedOnce(t *testing.T) {
	var fetched atomic.Int64
	status := 200
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, password, _ := r.BasicAuth()
		body, _ := io.ReadAll(r.Body)
		if id != "client" || password != "a%3Ab" || !strings.Contains(string(body), "grant_type=client_credentials") ||
			!strings.Contains(string(body), "resource=https%3A%2F%2Ftools.example.com%2Fmcp") || !strings.Contains(string(body), "scope=read+write") {
			t.Errorf("the request has %q %q %s", id, password, body)
		}
		w.WriteHeader(status)
		if status == 200 {
			fmt.Fprintf(w, `{"access_token":"token%d","token_type":"Bearer","expires_in":3600}`, fetched.Add(1))
		} else {
			io.WriteString(w, `{"error":"invalid_client","error_description":"a:b is wrong"}`)
		}
	}))
	defer up.Close()
	c := auth.ClientCredentials{TokenURL: up.URL, Guarded: true, ID: "client", Secret: secret.New("a:b"), Scopes: []string{"read", "write"},
		Resource: "https://tools.example.com/mcp"}
	s := auth.New(auth.Options{Client: upstream.New(upstream.Options{TrustLoopback: true})})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if token, err := s.ClientToken(t.Context(), c); err != nil || token.Reveal() != "token1" {
				t.Errorf("%v", err)
			}
		})
	}
	all.Wait()
	if n := fetched.Load(); n != 1 {
		t.Errorf("%d tokens were fetched", n)
	}
	status = 401
	c.Scopes = []string{"read", "write"}
	other := auth.New(auth.Options{Client: upstream.New(upstream.Options{TrustLoopback: true})})
	_, err := other.ClientToken(t.Context(), c)
	if e := apierr.From(err); e.Code != "credential_refused" || strings.Contains(e.Message, "a:b") {
		t.Errorf("a refused client: %v", err)
	}
	c.TokenURL = "http://10.0.0.1/token"
	if _, err := other.ClientToken(t.Context(), c); err == nil {
		t.Error("a private address was asked")
	}
}
