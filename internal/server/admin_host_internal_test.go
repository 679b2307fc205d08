package server

import (
	"net/http/httptest"
	"testing"

	"modelgate/api"
	"modelgate/internal/base/secret"
)

func TestAdminListenerWithoutATokenChecksHost(t *testing.T) {
	open := &Server{Options: Options{AdminListen: "gateway.internal:8788"}}
	for _, tt := range []struct {
		host string
		want bool
	}{
		{"127.0.0.1:8788", true}, {"127.0.0.1", true}, {"[::1]:8788", true}, {"[::1]", true}, {"10.0.0.5:80", true},
		{"localhost:8788", true}, {"LOCALHOST", true}, {"gateway.internal:8788", true},
		{"evil.example", false}, {"evil.example:8788", false}, {"localhost.evil.example", false},
		{"127.0.0.1.evil.example:8788", false}, {"127.0.0.1@evil.example", false}, {"", false}, {":8788", false},
	} {
		if got := open.isAdminHost(tt.host); got != tt.want {
			t.Errorf("Host %q admitted: %t, want %t", tt.host, got, tt.want)
		}
	}
	token := &Server{Options: Options{AdminToken: secret.New("an admin token of a test")}}
	if !token.isAdminHost("metrics.example") {
		t.Error("with a token, a host is refused")
	}
}

func TestControlPlaneRefusesTwoKeys(t *testing.T) {
	for _, name := range []string{api.HeaderKey, "Authorization"} {
		r := httptest.NewRequest("GET", "/v1/auth/me", nil)
		r.Header[name] = []string{"a", "a"}
		if _, err := new(Server).authenticate(r); err == nil {
			t.Errorf("two of %s are accepted", name)
		}
	}
}
