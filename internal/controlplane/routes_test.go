package controlplane_test

import (
	"net/http/httptest"
	"testing"

	"modelgate/internal/controlplane"
	"modelgate/internal/controlplane/route"
)

func TestRequestsForModelsPassTheControlPlaneAtNoCost(t *testing.T) {
	api := controlplane.New(route.Deps{Version: "test"}, controlplane.Families{})
	for _, tt := range []struct {
		method, path string
		want         bool
	}{
		{"POST", "/v1/chat/completions", false},
		{"GET", "/v1/models", false},
		{"POST", "/v1beta/models/m:generateContent", false},
		{"POST", "/model/m/converse", false},
		{"GET", "/v1", false},
		{"GET", "/v1/", false},
		{"GET", "/v1/configs", true},
		{"GET", "/v1/configs/x", true},
		{"GET", "/v1/configs/../models", false},
		{"GET", "/v1/configsx", false},
		{"PATCH", "/v1/configs", false},
		{"GET", "/openapi.json", true},
	} {
		if got := api.Handles(httptest.NewRequest(tt.method, tt.path, nil)); got != tt.want {
			t.Errorf("Handles(%s %s) = %t, want %t", tt.method, tt.path, got, tt.want)
		}
	}
	if n := len(api.Routes()); n < 50 {
		t.Errorf("%d routes, want all", n)
	}
	for _, r := range api.Routes() {
		for _, p := range r.Paths() {
			if !api.Handles(httptest.NewRequest(r.Method, p, nil)) {
				t.Errorf("Handles(%s %s) = false, want true", r.Method, p)
			}
		}
	}
	chat := httptest.NewRequest("POST", "/v1/chat/completions", nil)
	if n := testing.AllocsPerRun(100, func() { api.Handles(chat) }); n != 0 {
		t.Errorf("Handles allocates %g times for a path of models, want 0", n)
	}
}
