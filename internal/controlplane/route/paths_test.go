package route_test

import (
	"context"
	"net/http"
	"testing"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/testing/routetest"
)

func TestAPathGoesToTheRouteWithMorePlainNames(t *testing.T) {
	type input struct {
		Thing string `path:"thing"`
	}
	type part struct {
		Part string `path:"part"`
	}
	c := routetest.New(t, func(a *route.API) {
		route.Add(a, route.Route{Method: http.MethodGet, Path: "/things/{thing}", Name: "thing"},
			func(_ context.Context, _ *route.Caller, in *input) (*string, error) {
				s := "thing " + in.Thing
				return &s, nil
			})
		route.Add(a, route.Route{Method: http.MethodGet, Path: "/things/{thing}/versions", Name: "versions"},
			func(_ context.Context, _ *route.Caller, in *input) (*string, error) {
				s := "versions of " + in.Thing
				return &s, nil
			})
		route.Add(a, route.Route{Method: http.MethodGet, Path: "/things/parts/{part}", Name: "part"},
			func(_ context.Context, _ *route.Caller, in *part) (*string, error) {
				s := "part " + in.Part
				return &s, nil
			})
	}).Root()
	for path, want := range map[string]string{
		"/things/a":              "thing a",
		"/things/parts":          "thing parts",
		"/things/a/versions":     "versions of a",
		"/things/parts/versions": "part versions",
		"/things/parts/x":        "part x",
		"/things/a@latest":       "thing a@latest",
		"/things/a%40latest":     "thing a@latest",
	} {
		var got string
		if c.Must("GET", path, "", &got); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	for _, path := range []string{"/things", "/things/a/b", "/things/parts/x/y", "/things/a%2fversions"} {
		if a := c.Call("GET", path, ""); a.Status != http.StatusNotFound || a.Body != "no route" {
			t.Errorf("%s: %d %s, want no route", path, a.Status, a.Body)
		}
	}
}
