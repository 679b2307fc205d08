package egress_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"net/url"
	"testing"

	"modelgate/internal/base/egress"
)

func mustParse(t *testing.T, text string) *egress.Policy {
	t.Helper()
	var p egress.Policy
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	out, field, err := p.Parse()
	if err != nil {
		t.Fatalf("%s: %s %v", text, field, err)
	}
	return out
}

func TestPathPatternsAllowWhatTheyList(t *testing.T) {
	p := mustParse(t, `{"pass_through":["GET /files","get /files/*","/batches/*/cancel","DELETE /fine_tuning/**"]}`)
	for request, want := range map[string]bool{
		"GET /files": true, "GET /files/f1": true, "POST /batches/b1/cancel": true, "PUT /batches/b1/cancel": true, "DELETE /fine_tuning/jobs/j1/x": true,
		"POST /files": false, "GET /files/": false, "GET /files/f1/content": false, "GET /filesystem": false, "GET /batches/b1": false, "GET /FILES": false,
		"DELETE /fine_tuning": false, "GET /fine_tuning/jobs": false, "GET /": false, "GET /organization/admin_api_keys": false,
		"DELETE /fine_tuning/../files/f1": false, "DELETE /fine_tuning/%2e%2e/files/f1": false, "DELETE /fine_tuning/%2E%2E%2Ffiles": false,
		"DELETE /fine_tuning/..%5cfiles": false, `DELETE /fine_tuning/..\files`: false, "DELETE /fine_tuning//files": false, "GET //files": false, "GET /./files": false,
	} {
		method, path, _ := bytes.Cut([]byte(request), []byte(" "))
		field := p.Refuses(egress.Request{Managed: true, Method: string(method), Path: string(path)})
		if (field == "") != want {
			t.Errorf("%s: refused by %q, want it allowed: %t", request, field, want)
		}
	}
}

func TestPolicyRefusesByItsField(t *testing.T) {
	host := &url.URL{Scheme: "https", Host: "models.example.com"}
	for _, tt := range []struct {
		policy string
		r      egress.Request
		want   string
	}{
		{`{}`, egress.Request{Host: host, Method: "GET", Path: "/x"}, ""},
		{`{"custom_hosts":null,"pass_through":null}`, egress.Request{Host: host, Method: "GET", Path: "/x"}, ""},
		{`{"custom_hosts":[]}`, egress.Request{Host: host}, "custom_hosts"},
		{`{"custom_hosts":[]}`, egress.Request{}, ""},
		{`{"custom_hosts":["*"]}`, egress.Request{Host: host}, ""},
		{`{"custom_hosts":["models.example.com"]}`, egress.Request{Host: host}, ""},
		{`{"custom_hosts":["other.example.com"]}`, egress.Request{Host: host, Managed: true}, "custom_hosts"},
		{`{"pass_through":[]}`, egress.Request{Method: "GET", Path: "/x"}, "pass_through"},
		{`{"pass_through":[]}`, egress.Request{}, ""},
		{`{"pass_through":["*"]}`, egress.Request{Method: "GET", Path: "/a/../x"}, ""},
		{`{"managed_providers_only":true}`, egress.Request{}, "managed_providers_only"},
		{`{"managed_providers_only":true}`, egress.Request{Managed: true, Host: host}, ""},
	} {
		if got := mustParse(t, tt.policy).Refuses(tt.r); got != tt.want {
			t.Errorf("%s of %+v: %q, want %q", tt.policy, tt.r, got, tt.want)
		}
	}
}

func TestPolicyThatAllowsNothingStaysSo(t *testing.T) {
	for _, text := range []string{`{"custom_hosts":[],"pass_through":[]}`, `{"pass_through":[]}`, `{"custom_hosts":["https://a.example.com"],"managed_providers_only":true}`} {
		p := mustParse(t, text)
		var b bytes.Buffer
		var decoded struct{ P *egress.Policy }
		if err := gob.NewEncoder(&b).Encode(struct{ P *egress.Policy }{p}); err != nil {
			t.Fatal(err)
		}
		if err := gob.NewDecoder(&b).Decode(&decoded); err != nil {
			t.Fatal(err)
		}
		if decoded.P.String() != text || p.String() != text {
			t.Errorf("%s is %s, and %s from gob", text, p, decoded.P)
		}
	}
}

func TestPolicyNamesTheEntryAtFault(t *testing.T) {
	for text, want := range map[string]string{
		`{"custom_hosts":["a.example.com","b/c"]}`: "custom_hosts[1]",
		`{"pass_through":["files"]}`:               "pass_through[0]",
		`{"pass_through":["PATCH /files"]}`:        "pass_through[0]",
		`{"pass_through":["/v1/files"]}`:           "pass_through[0]",
		`{"pass_through":["/files/../x"]}`:         "pass_through[0]",
		`{"pass_through":["/files/**/x"]}`:         "pass_through[0]",
		`{"pass_through":["/fi*"]}`:                "pass_through[0]",
		`{"pass_through":[""]}`:                    "pass_through[0]",
		`{"pass_through":["GET  /files"]}`:         "pass_through[0]",
	} {
		var p egress.Policy
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		if out, field, err := p.Parse(); err == nil || field != want {
			t.Errorf("%s: %v, %q, %v, want an error at %s", text, out, field, err, want)
		}
	}
}
