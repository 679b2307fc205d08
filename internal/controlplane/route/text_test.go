package route_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/testing/routetest"
)

func TestTextThatNoDatabaseKeepsIsRefusedByItsField(t *testing.T) {
	type input struct {
		Name string `path:"name"`
		Ref  string `query:"ref"`
		Body *struct {
			List []map[string]string `json:"list"`
		} `required:"false"`
	}
	c := routetest.New(t, func(a *route.API) {
		route.Add(a, route.Route{Method: http.MethodPost, Path: "/things/{name}", Name: "make", Resource: "thing"},
			func(context.Context, *route.Caller, *input) (*route.Empty, error) { return &route.Empty{}, nil })
	}).Root()
	for _, tt := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/things/a?ref=b", `{"list":[{"a":"\\u0000 € \u0001"}]}`, 200, ""},
		{"/things/a", `{"list":[{},{"a":"x\u0000"}]}`, 400, `"param":"list[1].a"`},
		{"/things/a", `{"list":[{"\u0000":"x"}]}`, 400, `"param":"list[0]."`},
		{"/things/a?ref=%00", ``, 400, `"param":"ref"`},
		{"/things/a?ref=%ff", ``, 400, `"param":"ref"`},
		{"/things/a?ref=b&ref=c", ``, 400, `"param":"ref"`},
		{"/things/a?ref=b&%72ef=b", ``, 400, `"param":"ref"`},
		{"/things/a?ref=b&other=1&other=2", ``, 400, `"param":"other"`},
		{"/things/a?ref=b;c", ``, 400, `the query is invalid`},
		{"/things/a?ref=%zz", ``, 400, `the query is invalid`},
		{"/things/%00", ``, 404, ""},
		{"/things/%ff", ``, 404, ""},
	} {
		if a := c.Call("POST", tt.path, tt.body); a.Status != tt.status || !strings.Contains(a.Body, tt.want) {
			t.Errorf("%s %s: %d %s, want %d %s", tt.path, tt.body, a.Status, a.Body, tt.status, tt.want)
		}
	}
}

func TestLengthsAreCountedInCharacters(t *testing.T) {
	for _, tt := range []struct {
		text        string
		least, most int
		want        string
	}{
		{"", 0, 3, ""},
		{"äöü", 1, 3, ""},
		{"", 1, 3, "name must be 1 to 3 characters long"},
		{"äöüß", 1, 3, "name must be 1 to 3 characters long"},
		{"abcd", 0, 3, "name must be at most 3 characters long"},
	} {
		got := ""
		if err := route.CheckLength("name", tt.text, tt.least, tt.most); err != nil {
			got = err.Error()
		}
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("CheckLength(%q, %d, %d) = %q, want %q", tt.text, tt.least, tt.most, got, tt.want)
		}
	}
}
