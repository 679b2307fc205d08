package signin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"

	"modelgate/internal/controlplane"
	"modelgate/internal/controlplane/signin"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/saml"
	"modelgate/internal/testing/routetest"
	"modelgate/internal/testing/samltest"
)

// samlWorld is a control plane with an identity provider with SAML whose domain is verified.
type samlWorld struct {
	*routetest.Bench
	*samltest.Provider
	t        *testing.T
	root     *routetest.Caller
	id       string // of the identity provider
	records  []string
	metadata string // at metadataURL; empty is away
	reads    int    // of the metadata
	shift    time.Duration
}

const metadataURL = "https://login.example.com/metadata"

// Do implements saml.Doer.
func (w *samlWorld) Do(r *http.Request, guarded bool) (*http.Response, error) {
	w.reads++
	if !guarded {
		return nil, errors.New("the request is not guarded")
	}
	res := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Date": {w.now().UTC().Format(http.TimeFormat)}}, Body: io.NopCloser(strings.NewReader(w.metadata))}
	if r.URL.String() == metadataURL && w.metadata == "" {
		return nil, errors.New("away")
	}
	return res, nil
}

func (w *samlWorld) now() time.Time { return time.Now().Add(w.shift) }

func (w *samlWorld) families() controlplane.Families {
	return controlplane.Families{SignIn: signin.Routes{
		Protocols: signin.Protocols{SAML: saml.NewCache(w, w.now)},
		LookupTXT: func(context.Context, string) ([]string, error) { return w.records, nil },
	}}
}

func (w *samlWorld) prepare(b *routetest.Bench) {
	b.API.Now = w.now
	b.API.PublicURL = func() string { return "https://gateway.example.com" }
}

func newSAMLWorld(t *testing.T) *samlWorld {
	w := &samlWorld{Provider: samltest.New(t, "https://login.example.com"), t: t}
	w.Bench = routetest.New(t, w.families().Add)
	w.prepare(w.Bench)
	w.root = w.Root()
	w.id = w.add(`"domains":["example.com"]`)
	var d struct {
		ID     string
		Record string `json:"record_value"`
	}
	w.root.Must("POST", "/domains", `{"name":"example.com"}`, &d)
	w.records = []string{d.Record}
	w.root.Must("POST", "/domains/"+d.ID+"/verify", "", nil)
	return w
}

// add adds the provider with further fields, and returns its id.
func (w *samlWorld) add(more string) string {
	w.t.Helper()
	text, err := json.Marshal(w.Metadata())
	if err != nil {
		w.t.Fatal(err)
	}
	var out struct{ ID string }
	w.root.Must("POST", "/identity-providers", `{"name":"Company","type":"saml","metadata":`+string(text)+`,`+more+`}`, &out)
	return out.ID
}

// samlBrowser keeps cookies, and sends only those that a browser would from another site.
type samlBrowser struct {
	w       *samlWorld
	node    *routetest.Bench
	cookies map[string]*http.Cookie
}

func (w *samlWorld) browser() *samlBrowser {
	return &samlBrowser{w, w.Bench, make(map[string]*http.Cookie)}
}

func (b *samlBrowser) send(method, path, body string, crossSite bool) routetest.Response {
	b.w.t.Helper()
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(b.cookies)) {
		if k := b.cookies[name]; !crossSite || k.SameSite == http.SameSiteNoneMode || k.SameSite == http.SameSiteLaxMode && method == http.MethodGet {
			pairs = append(pairs, name+"="+k.Value)
		}
	}
	h := http.Header{"Cookie": {strings.Join(pairs, "; ")}, "Content-Type": {"application/x-www-form-urlencoded"}}
	a := b.node.Nobody().CallWith(method, path, body, h)
	b.keep(a)
	return a
}

// keep stores the cookies of a response.
func (b *samlBrowser) keep(a routetest.Response) {
	for _, k := range (&http.Response{Header: a.Header}).Cookies() {
		if k.MaxAge < 0 {
			delete(b.cookies, k.Name)
			continue
		}
		if !k.HttpOnly || k.SameSite == http.SameSiteNoneMode && !k.Secure {
			b.w.t.Errorf("the cookie is %s", k)
		}
		b.cookies[k.Name] = k
	}
}

// begin opens the start of a sign-in, and returns what the provider is asked for.
func (b *samlBrowser) begin(query string) samltest.Request {
	b.w.t.Helper()
	a := b.send("GET", "/auth/sso/"+b.w.id+query, "", false)
	if a.Status != http.StatusFound {
		b.w.t.Fatalf("the start: %d %s", a.Status, a.Body)
	}
	return samltest.Read(b.w.t, a.Header.Get("Location"))
}

// end sends a response as the provider's page does.
func (b *samlBrowser) end(r samltest.Response) routetest.Response {
	b.w.t.Helper()
	if r.Now.IsZero() {
		r.Now = b.w.now()
	}
	return b.post(url.Values{"SAMLResponse": {b.w.Respond(r)}, "RelayState": {r.Request.State}})
}

func (b *samlBrowser) post(form url.Values) routetest.Response {
	b.w.t.Helper()
	return b.send("POST", "/auth/sso/"+b.w.id+"/acs", form.Encode(), true)
}

var ada = map[string][]string{"email": {"ada@example.com"}, "firstName": {"Ada"}, "lastName": {"Lovelace"}}

func (b *samlBrowser) signIn() routetest.Response {
	b.w.t.Helper()
	return b.end(samltest.Response{Request: b.begin(""), NameID: "ada-1", Session: "session-1", Attributes: ada})
}

func (w *samlWorld) reason() string { w.t.Helper(); return (&world{Bench: w.Bench, t: w.t}).reason() }

func (w *samlWorld) users() string { return (&world{Bench: w.Bench, t: w.t}).users() }

func TestASAMLSignInMakesAMember(t *testing.T) {
	w := newSAMLWorld(t)
	b := w.browser()
	if a := b.signIn(); a.Status != http.StatusSeeOther || a.Header.Get("Location") != "https://gateway.example.com/login" {
		t.Fatalf("the end: %d %s %s", a.Status, a.Header.Get("Location"), w.reason())
	}
	if got := w.users(); got != "ada@example.com member" || b.cookies[login] == nil || len(b.cookies) != 1 {
		t.Errorf("the users are %q, the cookies %v", got, b.cookies)
	}
	if rows := w.Query(`SELECT method || ' ' || subject || ' ' || provider_session FROM sessions`); len(rows) != 1 || rows[0] != "sso ada-1 session-1" {
		t.Errorf("the sessions are %q", rows)
	}
	if rows := w.Query(`SELECT issuer || ' ' || subject FROM identities`); len(rows) != 1 || rows[0] != "https://login.example.com ada-1" {
		t.Errorf("the identities are %q", rows)
	}
	if rows := w.Query(`SELECT request_body FROM audit_logs WHERE action = 'sign_in'`); len(rows) != 1 || !strings.Contains(rows[0], `"method":"saml"`) {
		t.Errorf("the audit log has %q", rows)
	}
	if a := b.signIn(); a.Status != http.StatusSeeOther || w.users() != "ada@example.com member" {
		t.Errorf("the second sign-in: %d, users %q", a.Status, w.users())
	}
	var item struct {
		Last struct {
			Names []string `json:"attribute_names"`
		} `json:"last_assertion"`
	}
	w.root.Must("GET", "/identity-providers/"+w.id, "", &item)
	if !slices.Equal(item.Last.Names, []string{"email", "firstName", "lastName"}) {
		t.Errorf("the last assertion had %q", item.Last.Names)
	}
}

func TestSAMLFlowsAreOfTheirBrowser(t *testing.T) {
	w := newSAMLWorld(t)
	first, other := w.browser(), w.browser()
	r := samltest.Response{Request: first.begin(""), Attributes: ada}
	foreign := other.begin("")
	refused := func(name string, b *samlBrowser, a routetest.Response, reason string) {
		t.Helper()
		if formOf(a.Body) != nil { // the gateway's page sends it again
			a = b.send("POST", "/auth/sso/"+w.id+"/acs", formOf(a.Body).Encode(), false)
		}
		if a.Status != http.StatusForbidden || w.reason() != reason || b.cookies[login] != nil {
			t.Errorf("%s: %d %q, want %q", name, a.Status, w.reason(), reason)
		}
	}
	victim := w.browser()
	refused("a browser that began nothing", victim, victim.end(r), "state")
	mixed := r
	mixed.Request.State = foreign.State
	refused("the response of another flow", other, other.end(mixed), "in_response_to")
	w.shift = 11 * time.Minute
	refused("late", first, first.end(r), "expired_flow")
	w.shift = 0
}

// TestFormsWithoutCookiesAreSentAgain: over plain HTTP, a browser sends the flow's cookie only
// with what the gateway's own page sends.
func TestFormsWithoutCookiesAreSentAgain(t *testing.T) {
	w := newSAMLWorld(t)
	w.API.PublicURL = func() string { return "http://gateway.example.com" }
	b := w.browser()
	a := b.signIn()
	form := formOf(a.Body)
	if a.Status != http.StatusOK || form.Get("SAMLResponse") == "" || b.cookies[login] != nil {
		t.Fatalf("the first form: %d %s", a.Status, a.Body)
	}
	if p := a.Header.Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") || !strings.Contains(p, "form-action http: https:") {
		t.Errorf("the policy is %q", p)
	}
	if a = b.send("POST", "/auth/sso/"+w.id+"/acs", form.Encode(), false); a.Status != http.StatusSeeOther || b.cookies[login] == nil {
		t.Errorf("the second form: %d %s", a.Status, w.reason())
	}
	form.Set("RelayState", `"><script>x`)
	form.Del("again")
	if a := w.browser().post(form); formOf(a.Body).Get("RelayState") != form.Get("RelayState") || strings.Contains(a.Body, "<script>x") {
		t.Errorf("the page is %s", a.Body)
	}
}

func TestSAMLMessagesAreAcceptedOnceOnAllNodes(t *testing.T) {
	w := newSAMLWorld(t)
	other := w.OpenNode(w.families().Add)
	w.prepare(other)
	b := w.browser()
	request := b.begin("")
	form := url.Values{"SAMLResponse": {w.Respond(samltest.Response{Request: request, Attributes: ada})}, "RelayState": {request.State}}
	copies := maps.Clone(b.cookies)
	if a := b.post(form); a.Status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.Status, w.reason())
	}
	for name, node := range map[string]*routetest.Bench{"the same node": w.Bench, "another node": other} {
		thief := &samlBrowser{w, node, maps.Clone(copies)}
		if a := thief.post(form); a.Status != http.StatusForbidden || w.reason() != "replayed" {
			t.Errorf("%s: %d %s", name, a.Status, w.reason())
		}
	}
	restarted := w.OpenNode(w.families().Add)
	w.prepare(restarted)
	thief := &samlBrowser{w, restarted, copies}
	if a := thief.post(form); a.Status != http.StatusForbidden || w.reason() != "replayed" {
		t.Errorf("after a restart: %d %s", a.Status, w.reason())
	}
}

// TestAConfirmationWithSAMLNeedsANewSignIn: as with OpenID Connect, a session at the provider
// proves nothing about who sits there.
func TestAConfirmationWithSAMLNeedsANewSignIn(t *testing.T) {
	for _, tt := range []struct {
		age time.Duration
		ok  bool
	}{{0, true}, {2 * time.Minute, false}, {time.Hour, false}} {
		w := newSAMLWorld(t)
		b := w.browser()
		at := w.now().Add(-tt.age).UTC().Format(time.RFC3339)
		a := b.end(samltest.Response{Request: b.begin("?confirm=true"), NameID: "ada-1", Attributes: ada, BeforeSign: func(el *etree.Element) {
			el.FindElement("//AuthnStatement").CreateAttr("AuthnInstant", at)
		}})
		if (a.Status == http.StatusSeeOther) != tt.ok || !tt.ok && w.reason() != "auth_time" {
			t.Errorf("%s ago: %d %s", tt.age, a.Status, w.reason())
		}
	}
}

// TestNoConnectionSpeaksForAnother: two organisations may have the same provider.
func TestNoConnectionSpeaksForAnother(t *testing.T) {
	w := newSAMLWorld(t)
	w.Exec(`INSERT INTO organisations (id, slug, name, owner_id, settings, data_key, status, created_at, updated_at)
		VALUES ('other', 'other', '', '', '{}', '', 'active', 0, 0)`)
	other := w.As(access.Identity{Organisation: "other", Workspace: "-", KeyID: "other", Scopes: []access.Scope{access.ScopeAll}, Type: access.OrganisationService})
	text, err := json.Marshal(w.Metadata())
	if err != nil {
		t.Fatal(err)
	}
	var second struct{ ID string }
	other.Must("POST", "/identity-providers", `{"name":"Other","type":"saml","metadata":`+string(text)+`}`, &second)
	first := w.id
	w.id = second.ID
	b := w.browser()
	request := b.begin("")
	response := w.Respond(samltest.Response{Request: request, Attributes: ada})
	w.id = first
	if a := b.post(url.Values{"SAMLResponse": {response}, "RelayState": {request.State}}); a.Status != http.StatusForbidden {
		t.Errorf("a response for another connection: %d", a.Status)
	}
	own := b.begin("")
	for name, r := range map[string]samltest.Response{
		"audience":    {Request: own, Audience: request.Issuer, Attributes: ada},
		"recipient":   {Request: own, Recipient: &request.ACS, Attributes: ada},
		"destination": {Request: own, Destination: &request.ACS, Attributes: ada},
		"issuer":      {Request: own, Issuer: new("https://login.example.net"), Attributes: ada},
	} {
		kept := maps.Clone(b.cookies)
		if a := b.end(r); a.Status != http.StatusForbidden || w.reason() != name {
			t.Errorf("%s: %d %s", name, a.Status, w.reason())
		}
		b.cookies = kept
	}
}

func TestSignInsThatBeginAtTheProvider(t *testing.T) {
	w := newSAMLWorld(t)
	asked := w.browser().begin("")
	send := func(b *samlBrowser, state string) (routetest.Response, url.Values) {
		form := url.Values{"SAMLResponse": {w.Respond(samltest.Response{Request: asked, InResponseTo: new(""), Attributes: ada})}, "RelayState": {state}}
		return b.post(form), form
	}
	a, _ := send(w.browser(), "")
	if a.Status != http.StatusForbidden || w.reason() != "unasked" || !strings.Contains(a.Body, `href="https://gateway.example.com/v1/auth/sso/`+w.id) {
		t.Errorf("switched off: %d %s %s", a.Status, w.reason(), a.Body)
	}
	w.root.Must("PUT", "/identity-providers/"+w.id, `{"allow_idp_initiated":true}`, nil)
	for state, want := range map[string]string{
		"/console": "/console", "": "https://gateway.example.com/login", "https://evil.example": "https://gateway.example.com/login", "//evil.example": "https://gateway.example.com/login",
	} {
		b := w.browser()
		a, form := send(b, state)
		if a.Status != http.StatusSeeOther || a.Header.Get("Location") != want {
			t.Errorf("%q: %d %s %s", state, a.Status, a.Header.Get("Location"), w.reason())
		}
		if a = b.post(form); a.Status != http.StatusForbidden || w.reason() != "replayed" {
			t.Errorf("again: %d %s", a.Status, w.reason())
		}
	}
}

func TestSAMLAdmissionNeedsAProvedAddress(t *testing.T) {
	w := newSAMLWorld(t)
	for reason, attributes := range map[string]map[string][]string{
		"unproved_email": {"email": {"ada@example.org"}}, "no_email": nil,
	} {
		b := w.browser()
		if a := b.end(samltest.Response{Request: b.begin(""), Attributes: attributes}); a.Status != http.StatusForbidden || w.reason() != reason || w.users() != "" {
			t.Errorf("%d %s, want %s", a.Status, w.reason(), reason)
		}
	}
	b := w.browser()
	transient := samltest.Response{Request: b.begin(""), Attributes: ada, Format: "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"}
	if a := b.end(transient); a.Status != http.StatusForbidden || w.reason() != "transient" {
		t.Errorf("%d %s", a.Status, w.reason())
	}
}

func TestSAMLSessionsEndWithTheProviders(t *testing.T) {
	w := newSAMLWorld(t)
	b := w.browser()
	end := time.Now().Add(time.Hour).Truncate(time.Second)
	if a := b.end(samltest.Response{Request: b.begin(""), Attributes: ada, SessionEnd: end}); a.Status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.Status, w.reason())
	}
	if got := w.Query(`SELECT expires_at FROM sessions`); len(got) != 1 || got[0] != fmt.Sprint(end.UnixMilli()) {
		t.Errorf("the session ends at %q, want %d", got, end.UnixMilli())
	}
}

var inputs = regexp.MustCompile(`name="([^"]+)" value="([^"]*)"`)

// formOf returns the form of a page that sends itself, nil for another page.
func formOf(body string) url.Values {
	var form url.Values
	for _, m := range inputs.FindAllStringSubmatch(body, -1) {
		if form == nil {
			form = url.Values{}
		}
		form.Set(m[1], html.UnescapeString(m[2]))
	}
	return form
}

func (w *samlWorld) sessions() int { return len(w.Query(`SELECT id FROM sessions`)) }

func TestGroupsOfSAMLGiveRoles(t *testing.T) {
	w := newSAMLWorld(t)
	w.root.Must("POST", "/scim/workspaces", `{"workspace_id":"default","role":"manager","scim_group_name":"Engineers"}`, nil)
	for _, step := range []struct {
		name   string
		more   map[string][]string
		want   string
		change string
	}{
		{"a mapped group", map[string][]string{"groups": {"Others", "Engineers"}}, "manager", ""},
		{"no attribute with groups", nil, "manager", ""},
		{"too many groups at Entra", map[string][]string{"groups": {"Others"}, "http://schemas.microsoft.com/claims/groups.link": {"https://graph.example.com"}}, "manager", ""},
		{"another group", map[string][]string{"groups": {"Others"}}, "", ""},
		{"an attribute by name", map[string][]string{"groups": {"Others"}, "teams": {"Engineers"}}, "manager", `{"attributes":{"groups":"teams"}}`},
	} {
		if step.change != "" {
			w.root.Must("PUT", "/identity-providers/"+w.id, step.change, nil)
		}
		attributes := maps.Clone(ada)
		maps.Copy(attributes, step.more)
		b := w.browser()
		a := b.end(samltest.Response{Request: b.begin(""), Attributes: attributes})
		if got := strings.Join(w.Query(`SELECT role FROM workspace_members`), ","); a.Status != http.StatusSeeOther || got != step.want {
			t.Errorf("%s: %d, the role is %q, want %q", step.name, a.Status, got, step.want)
		}
	}
}

// TestNothingOfASAMLSignInIsKept searches the database for what must not be there.
func TestNothingOfASAMLSignInIsKept(t *testing.T) {
	w := newSAMLWorld(t)
	b := w.browser()
	request := b.begin("")
	text := w.Document(samltest.Response{Request: request, NameID: "ada-1", Attributes: map[string][]string{"email": {"ada@example.com"}, "secret": {"a-private-value"}}})
	if a := b.post(url.Values{"SAMLResponse": {samltest.Encode(text)}, "RelayState": {request.State}}); a.Status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.Status, w.reason())
	}
	if a := b.post(url.Values{"SAMLResponse": {samltest.Encode(text)}, "RelayState": {request.State}}); a.Status != http.StatusOK && a.Status != http.StatusForbidden {
		t.Fatalf("again: %d", a.Status)
	}
	value, _, _ := strings.Cut(text[strings.Index(text, "SignatureValue>")+len("SignatureValue>"):], "<")
	for _, table := range []string{"audit_logs", "sessions", "identities", "identity_providers", "spent_tokens"} {
		for _, column := range w.Query(`SELECT name FROM pragma_table_info('` + table + `')`) {
			for _, row := range w.Query(`SELECT COALESCE(CAST(` + column + ` AS TEXT), '') FROM ` + table) {
				for _, s := range []string{samltest.Encode(text)[:60], value[:60], "a-private-value", request.State, b.cookies[login].Value} {
					if strings.Contains(row, s) {
						t.Errorf("%s.%s has %q", table, column, s)
					}
				}
			}
		}
	}
}
