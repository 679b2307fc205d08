package dataplane_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// otherHost is a host to which a provider redirects. It serves a file.
type otherHost struct {
	*httptest.Server
	asked atomic.Pointer[http.Request] // last
	calls atomic.Int64
}

func newOtherHost(t *testing.T) *otherHost {
	h := new(otherHost)
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.calls.Add(1)
		h.asked.Store(r)
		switch r.URL.Path {
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/hop":
			http.Redirect(w, r, "/file?sig=a%2Fb", http.StatusFound)
		default:
			w.Header().Set("Set-Cookie", "session=other")
			http.ServeContent(w, r, "file.bin", time.Time{}, strings.NewReader("0123456789"))
		}
	}))
	t.Cleanup(h.Close)
	return h
}

// redirecting is a provider that redirects requests to the address in the query parameter
// "to" with the status in "status".
func redirecting(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("to") == "" {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"path":"`+r.URL.RequestURI()+`"}`)
		return
	}
	w.Header().Set("Location", q.Get("to"))
	status := http.StatusFound
	if s := q.Get("status"); s == "307" {
		status = http.StatusTemporaryRedirect
	}
	w.WriteHeader(status)
}

// resendingClient follows redirects with the headers of the first request, as Go's and
// many other clients do.
func resendingClient(t *testing.T, g *gatewaytest.Gateway, method, path string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, g.URL+path, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Gateway-Api-Key", gatewaytest.Key)
	req.Header.Set("X-Gateway-Provider", "@simulator")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := new(http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// TestRedirectsAreFollowedWithoutCredentials gets a file from the host to which the provider
// redirects, with a client that would send its key there.
func TestRedirectsAreFollowedWithoutCredentials(t *testing.T) {
	t.Parallel()
	other := newOtherHost(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(redirecting)})
	for name, tt := range map[string]struct {
		to, rng, body string
		status        int
	}{
		"once":               {"/file?sig=a%2Fb", "", "0123456789", 200},
		"twice":              {"/hop", "", "0123456789", 200},
		"a part":             {"/file?sig=a%2Fb", "bytes=2-4", "234", 206},
		"a part that is not": {"/file?sig=a%2Fb", "bytes=90-", "invalid range: failed to overlap\n", 416},
	} {
		t.Run(name, func(t *testing.T) {
			path := "/things/f/content?to=" + url.QueryEscape(other.URL+tt.to)
			res, body := resendingClient(t, g, http.MethodGet, path, "Range", tt.rng, "X-Secret-Of-Client", "s3cret", "Authorization", "Bearer sk-of-client", "Cookie", "a=b")
			if res.StatusCode != tt.status || body != tt.body || res.Request.URL.Host != strings.TrimPrefix(g.Root, "http://") {
				t.Errorf("status %d from %s: %q, want %d from the gateway: %q", res.StatusCode, res.Request.URL.Host, body, tt.status, tt.body)
			}
			if res.Header.Get("Set-Cookie") != "" {
				t.Errorf("the client got the cookie of another host: %q", res.Header["Set-Cookie"])
			}
			asked := other.asked.Load()
			if asked == nil {
				t.Fatal("the other host was not asked")
			}
			if asked.RequestURI != "/file?sig=a%2Fb" || asked.Header.Get("Range") != tt.rng {
				t.Errorf("the other host was asked for %s with %v", asked.RequestURI, asked.Header)
			}
			for _, name := range slices.Sorted(maps.Keys(asked.Header)) {
				switch name {
				case "Accept-Encoding", "Range", "User-Agent", "Cdn-Loop":
				default:
					t.Errorf("the other host got %s: %q", name, asked.Header[name])
				}
			}
		})
	}
}

// TestRedirectsThatAreNotFollowedNameTheHost gets errors instead of addresses, so that no
// client sends its key there.
func TestRedirectsThatAreNotFollowedNameTheHost(t *testing.T) {
	t.Parallel()
	other := newOtherHost(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(redirecting)})
	for name, tt := range map[string]struct {
		method, to, status, host, reason string
		calls                            int64
	}{
		"POST with 307":     {"POST", other.URL + "/file", "307", other.URL, "POST", 0},
		"POST with 302":     {"POST", other.URL + "/file", "302", other.URL, "POST", 0},
		"DELETE with 307":   {"DELETE", other.URL + "/file", "307", other.URL, "DELETE", 0},
		"a private address": {"GET", "http://10.0.0.1/x", "302", "http://10.0.0.1", "private", 0},
		"metadata":          {"GET", "http://169.254.169.254/latest", "302", "http://169.254.169.254", "metadata", 0},
		"a loop":            {"GET", other.URL + "/loop", "302", other.URL, "more than 5", 5},
		"another scheme":    {"GET", "ftp://files.example.com/x", "302", "ftp://files.example.com", "http", 0},
		"a user name":       {"GET", "https://key@files.example.com/x", "302", "https://files.example.com", "user name", 0},
		"no address":        {"GET", `https://files.example.com\@thief.example.com/`, "302", "", "address", 0},
		"nobody there":      {"GET", "http://127.0.0.1:1/x", "302", "http://127.0.0.1:1", "connection", 0},
	} {
		t.Run(name, func(t *testing.T) {
			other.calls.Store(0)
			for _, headers := range [][]string{nil, {"Anthropic-Version", "2023-06-01"}} {
				path := "/things/f/content?to=" + url.QueryEscape(tt.to) + "&status=" + tt.status
				res, body := resendingClient(t, g, tt.method, path, headers...)
				e := errorOf(t, body)
				message, _ := e["message"].(string)
				if res.StatusCode != 502 || res.Header.Get("Location") != "" || !strings.Contains(message, tt.host) || !strings.Contains(message, tt.reason) {
					t.Errorf("%d, Location %q: %s, want 502 that names %s and %s", res.StatusCode, res.Header.Get("Location"), body, tt.host, tt.reason)
				}
				if anthropic := strings.HasPrefix(body, `{"type":"error"`); anthropic != (headers != nil) {
					t.Errorf("%s is not in the client's dialect", body)
				}
			}
			if n := other.calls.Load(); n != 2*tt.calls {
				t.Errorf("the other host was asked %d times, want %d", n, 2*tt.calls)
			}
		})
	}
}

// TestRedirectsAreBoundByTheEgressPolicies redirects the requests of a key to a host that
// its policy does not allow, and to one that it allows.
func TestRedirectsAreBoundByTheEgressPolicies(t *testing.T) {
	t.Parallel()
	other := newOtherHost(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(redirecting)})
	provider := strings.TrimSuffix(g.Upstream, "/v1")
	for policy, status := range map[string]int{
		`{"custom_hosts":["` + provider + `"]}`:                     502,
		`{"custom_hosts":["` + provider + `","` + other.URL + `"]}`: 200,
	} {
		var made struct{ Key string }
		res := g.Post("/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["completions.write"],"egress_policy":`+policy+`}`)
		if err := json.Unmarshal(res.Body, &made); err != nil || made.Key == "" {
			t.Fatalf("%d %s", res.Status, res.Body)
		}
		waittest.Until(t, "the key is known", func() bool { return g.Get("/models", "x-gateway-api-key", made.Key).Status != 401 })
		got, body := resendingClient(t, g, http.MethodGet, "/things/f/content?to="+url.QueryEscape(other.URL+"/file"), "X-Gateway-Api-Key", made.Key)
		if got.StatusCode != status || status != 200 && (!strings.Contains(body, other.URL) || !strings.Contains(body, "egress_policy.custom_hosts")) {
			t.Errorf("%s: %d %s, want %d", policy, got.StatusCode, body, status)
		}
	}
}

// TestAddressesOfTheProviderAreTheGateways follows addresses at the provider's own host,
// whatever the header and the method.
func TestAddressesOfTheProviderAreTheGateways(t *testing.T) {
	t.Parallel()
	var own string
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := r.URL.Query().Get("field"); name != "" {
			w.Header().Set(name, strings.ReplaceAll(r.URL.Query().Get("to"), "OWN", own))
			w.WriteHeader(http.StatusAccepted)
			return
		}
		r.URL.RawQuery = strings.ReplaceAll(r.URL.RawQuery, "OWN", url.QueryEscape(own))
		redirecting(w, r)
	})})
	own = strings.TrimSuffix(g.Upstream, "/v1")
	for _, tt := range []struct{ query, field, want string }{
		{"to=OWN/v1/jobs/1?a=b%2526c", "Location", g.URL + "/jobs/1?a=b%26c"},
		{"to=/v1/jobs/1&status=307", "Location", g.URL + "/jobs/1"},
		{"to=2", "Location", g.URL + "/things/2"},
		{"to=%3Fpage=2", "Location", g.URL + "/things/1?page=2"},
		{"field=Operation-Location&to=OWN/v1/jobs/1", "Operation-Location", g.URL + "/jobs/1"},
		{"field=Location&to=OWN/v1/jobs/1", "Location", g.URL + "/jobs/1"},
		{"field=Azure-AsyncOperation&to=OWN/v1/jobs/1", "Azure-AsyncOperation", g.URL + "/jobs/1"},
		{"field=Operation-Location&to=https://thief.example.com/v1/jobs/1", "Operation-Location", ""},
		{"field=Location&to=//thief.example.com/v1/jobs/1", "Location", ""},
		{"field=Location&to=OWN/v1/api-keys", "Location", ""}, // the gateway's own route
		{"field=Location&to=/jobs/1", "Location", "/jobs/1"},  // names no host
		{"field=Link&to=<OWN/v1/jobs?page=2>%3B+rel=\"next\",+</v1/jobs>%3Btitle=\"a,b<\"", "Link", "<" + g.URL + `/jobs?page=2>; rel="next", <` + g.URL + `/jobs>;title="a,b<"`},
		{"field=Link&to=<https://thief.example.com/v1/jobs?page=2>%3B+rel=\"next\"", "Link", ""},
	} {
		res := g.Post("/things/1?"+tt.query, `{}`)
		if got := res.Header.Get(tt.field); got != tt.want || tt.want != "" && res.Status >= 400 {
			t.Errorf("%s: %d, %s: %q, want %q", tt.query, res.Status, tt.field, got, tt.want)
		}
		if dropped := strings.Contains(res.Header.Get("X-Gateway-Params"), strings.ToLower(tt.field)); dropped != (tt.want == "") {
			t.Errorf("%s: x-gateway-params %q", tt.query, res.Header.Get("X-Gateway-Params"))
		}
	}
	res, body := resendingClient(t, g, http.MethodGet, "/things/1?to=OWN/v1/jobs/7")
	if res.StatusCode != 200 || body != `{"path":"/v1/jobs/7"}` || !strings.HasPrefix(res.Request.URL.String(), g.URL) {
		t.Errorf("followed to %s: %d %s", res.Request.URL, res.StatusCode, body)
	}
	if res := g.Post("/things/1?to=OWN/v1/api-keys&status=307", `{}`); res.Status != 502 || res.Header.Get("Location") != "" {
		t.Errorf("a redirect to the gateway's administration: %d, Location %q", res.Status, res.Header.Get("Location"))
	}
}
