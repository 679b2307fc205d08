package route_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/testing/routetest"
)

func TestBodiesHaveOneReading(t *testing.T) {
	type limit struct {
		Unit string `json:"unit,omitempty" enum:"rpm,rph"`
	}
	type input struct {
		Body struct {
			Name   string                         `json:"name,omitempty" maxLength:"5"`
			Note   route.Optional[string]         `json:"note,omitempty"`
			Open   *bool                          `json:"open,omitempty"`
			Reset  *bool                          `json:"reset,omitempty" nullable:"true"`
			Limits []limit                        `json:"limits,omitempty"`
			Data   route.Optional[map[string]any] `json:"data,omitempty"`
		}
	}
	add := func(a *route.API) {
		for method, name := range map[string]string{http.MethodPost: "make", http.MethodPut: "change"} {
			route.Add(a, route.Route{Method: method, Path: "/things", Name: name, Resource: "thing"},
				func(context.Context, *route.Caller, *input) (*route.Empty, error) { return &route.Empty{}, nil })
		}
	}
	c := routetest.New(t, add).Root()
	for _, tt := range []struct {
		method, body string
		status       int
		want         string
	}{
		{"PUT", `{"name":"a","note":null,"reset":null,"limits":[{"unit":"rpm"},{"unit":"rpm"}],"data":{"a":{"a":null},"b":["a","a"],"A":1}}`, 200, ""},
		{"POST", `{"name":null,"open":null,"limits":null}`, 200, ""},
		{"PUT", `{"name":"a","name":"b"}`, 400, `"param":"name"`},
		{"PUT", `{"name":"a","n\u0061me":"a"}`, 400, `"param":"name"`},
		{"PUT", `{"limits":[{},{"unit":"rpm","unit":"rph"}]}`, 400, `"param":"limits[1].unit"`},
		{"PUT", `{"data":{"x":[[],{"a":1,"b":{"a":1},"a":2}]}}`, 400, `"param":"data.x[1].a"`},
		{"POST", `{"data":{"a":1,"a":1}}`, 400, `"param":"data.a"`},
		{"POST", `{"data":{"%s":1,"%s":1}}`, 400, `data.%s is duplicated`},
		{"POST", `{"data":` + strings.Repeat(`{"a":`, 600) + `1` + strings.Repeat(`}`, 600) + `}`, 400, "nested more than 512 levels deep"},
		{"POST", `{"data":{"` + strings.Repeat("k", 1<<20) + `":{` + strings.Repeat(`"":{"":0},`, 100_000) + `"x":1}}}`, 400, "is duplicated"},
		{"PUT", `{"Name":"a"}`, 400, `"param":"Name"`},
		{"PUT", `{"name":"a","Name":"longer than five"}`, 400, `"param":"Name"`},
		{"PUT", `{"limits":[{"unit":"rpm","Unit":"years"}]}`, 400, `"param":"limits[0].Unit"`},
		{"PUT", `{"name":null}`, 400, `"param":"name"`},
		{"PUT", `{"open": null}`, 400, `"param":"open"`},
		{"PUT", `{"limits":null}`, 400, `"param":"limits"`},
		{"PUT", "{\"name\":\"a\xff\"}", 400, `not valid UTF-8`},
	} {
		if a := c.Call(tt.method, "/things", tt.body); a.Status != tt.status || !strings.Contains(a.Body, tt.want) {
			t.Errorf("%s %s: %d %s, want %d %s", tt.method, tt.body, a.Status, a.Body, tt.status, tt.want)
		}
	}
}
