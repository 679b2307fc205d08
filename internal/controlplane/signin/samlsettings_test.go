package signin_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/egress"
	"modelgate/internal/testing/routetest"
	"modelgate/internal/testing/samltest"
)

func quote(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(out)
}

func TestSettingsOfSAMLAreRefusedByName(t *testing.T) {
	w := newSAMLWorld(t)
	other := samltest.New(t, "https://login.example.net").Metadata()
	for _, tt := range []struct{ method, body, param string }{
		{"POST", `{"name":"x","type":"saml"}`, "metadata"},
		{"POST", `{"name":"x","type":"saml","metadata":"<x/>"}`, "metadata"},
		{"POST", `{"name":"x","type":"saml","metadata":` + quote("<!DOCTYPE x>"+w.Metadata()) + `}`, "metadata"},
		{"POST", `{"name":"x","type":"saml","metadata":` + quote(w.Metadata()) + `,"metadata_url":"` + metadataURL + `"}`, "metadata"},
		{"POST", `{"name":"x","type":"saml","metadata":` + quote(w.Metadata()) + `,"issuer":"https://login.example.net"}`, "metadata"},
		{"POST", `{"name":"x","type":"saml","metadata":` + quote(w.Metadata()) + `,"client_id":"c"}`, "client_id"},
		{"POST", `{"name":"x","type":"saml","metadata":` + quote(w.Metadata()) + `,"client_secret":"c"}`, "client_secret"},
		{"POST", `{"name":"x","type":"saml","metadata":` + quote(w.Metadata()) + `,"scopes":["c"]}`, "scopes"},
		{"POST", `{"name":"x","type":"saml","metadata":` + quote(w.Metadata()) + `,"groups_claim":"c"}`, "groups_claim"},
		{"POST", `{"name":"x","type":"saml","metadata":` + quote(w.Metadata()) + `,"token_endpoint_auth_method":"none"}`, "token_endpoint_auth_method"},
		{"POST", `{"name":"x","type":"saml","metadata":` + quote(w.Metadata()) + `,"domains":["-"]}`, "domains"},
		{"POST", `{"name":"x","type":"saml","metadata_url":"` + metadataURL + `"}`, "metadata_url"}, // which is away
		{"POST", `{"name":"x","type":"saml","metadata_url":"http://169.254.169.254/metadata"}`, "metadata_url"},
		{"POST", `{"name":"x","type":"oidc","metadata":` + quote(w.Metadata()) + `}`, "metadata"},
		{"POST", `{"name":"x","metadata_url":"` + metadataURL + `"}`, "metadata_url"},
		{"POST", `{"name":"x","attributes":{"email":"e"}}`, "attributes"},
		{"POST", `{"name":"x","allow_signed_response":true}`, "allow_signed_response"},
		{"POST", `{"name":"x","allow_idp_initiated":true}`, "allow_idp_initiated"},
		{"PUT", `{"metadata":` + quote(other) + `}`, "metadata"},
		{"PUT", `{"issuer":"https://login.example.net"}`, "metadata"},
		{"PUT", `{"metadata_url":"` + metadataURL + `"}`, "metadata_url"},
	} {
		path := "/identity-providers"
		if tt.method == "PUT" {
			path += "/" + w.id
		}
		a := w.root.Call(tt.method, path, tt.body)
		var out struct{ Error struct{ Param string } }
		if err := json.Unmarshal([]byte(a.Body), &out); err != nil || a.Status != http.StatusBadRequest || out.Error.Param != tt.param {
			t.Errorf("%.120s: %d %s, want an error of %s", tt.body, a.Status, a.Body, tt.param)
		}
	}
	if w.metadata = other; w.root.Call("PUT", "/identity-providers/"+w.id, `{"metadata_url":"`+metadataURL+`"}`).Status != http.StatusBadRequest {
		t.Error("metadata of another provider was accepted by its address")
	}
}

func TestAttributesAndSignedResponsesAreSettings(t *testing.T) {
	w := newSAMLWorld(t)
	w.root.Must("PUT", "/identity-providers/"+w.id,
		`{"attributes":{"email":"E","first_name":"F","last_name":"L","groups":"G"},"allow_signed_response":true,"role":"admin"}`, nil)
	b := w.browser()
	a := b.end(samltest.Response{
		Request: b.begin(""), SignResponse: true, Assertion: samltest.Signing{Omit: true},
		Attributes: map[string][]string{"E": {"grace@example.com"}, "F": {"Grace"}, "L": {"Hopper"}, "email": {"eve@example.com"}},
	})
	if a.Status != http.StatusSeeOther || w.users() != "grace@example.com admin" {
		t.Fatalf("%d %s: %s", a.Status, w.reason(), w.users())
	}
	if got := w.Query(`SELECT first_name || ' ' || last_name FROM users`); !slices.Equal(got, []string{"Grace Hopper"}) {
		t.Errorf("the user is %q", got)
	}
	w.root.Must("PUT", "/identity-providers/"+w.id, `{"allow_signed_response":false}`, nil)
	if a = b.end(samltest.Response{Request: b.begin(""), SignResponse: true, Assertion: samltest.Signing{Omit: true}, Attributes: ada}); w.reason() != "unsigned_assertion" {
		t.Errorf("%d %s", a.Status, w.reason())
	}
}

// TestKeysOfAProviderChangeWithoutAnInterruption has the address of the metadata: it is read
// again every day, and when a response is by a key that nobody knows.
func TestKeysOfAProviderChangeWithoutAnInterruption(t *testing.T) {
	w := newSAMLWorld(t)
	w.metadata = w.Metadata()
	w.root.Must("PUT", "/identity-providers/"+w.id, `{"metadata_url":"`+metadataURL+`"}`, nil)
	signIn := func(want int) {
		t.Helper()
		if a := w.browser().signIn(); a.Status != want {
			t.Errorf("%d %s, want %d", a.Status, w.reason(), want)
		}
	}
	signIn(http.StatusSeeOther)
	before := w.reads
	signIn(http.StatusSeeOther)
	if w.reads != before {
		t.Error("the metadata was read again within a day")
	}
	w.metadata = "" // away
	w.shift = 25 * time.Hour
	signIn(http.StatusSeeOther)
	if w.reads == before {
		t.Error("the metadata was not read again after a day")
	}
	w.shift += 2 * time.Minute
	w.Rotate(t, time.Now().Add(1000*time.Hour))
	signIn(http.StatusForbidden)
	w.metadata = w.Metadata()
	w.shift += 2 * time.Minute
	signIn(http.StatusSeeOther)

	// What was read last is stored, so that it is known after a restart.
	restarted := w.OpenNode(w.families().Add)
	w.prepare(restarted)
	w.metadata = ""
	b := w.browser()
	b.node = restarted
	if a := b.signIn(); a.Status != http.StatusSeeOther {
		t.Errorf("after a restart: %d %s", a.Status, w.reason())
	}

	// Metadata that names another provider is not used.
	other := samltest.New(t, "https://login.example.net")
	w.metadata = other.Metadata()
	w.shift += 25 * time.Hour
	signIn(http.StatusSeeOther)
	w.Key, w.Certificate = other.Key, other.Certificate
	w.shift += 2 * time.Minute
	signIn(http.StatusForbidden)
}

func TestKeyOfTheGatewayIsReplacedInTwoSteps(t *testing.T) {
	w := newSAMLWorld(t)
	keys := func() []string {
		t.Helper()
		a := w.browser().send("GET", "/auth/sso/"+w.id+"/metadata", "", false)
		if a.Status != http.StatusOK || a.Header.Get("Content-Type") != "application/samlmetadata+xml" {
			t.Fatalf("the metadata: %d %s", a.Status, a.Body)
		}
		var list []string
		for _, m := range regexp.MustCompile(`>(MII[^<]+)<`).FindAllStringSubmatch(a.Body, -1) {
			list = append(list, m[1])
		}
		return list
	}
	rotate := func(body string, want int) {
		t.Helper()
		if a := w.root.Call("POST", "/identity-providers/"+w.id+"/rotate-key", body); a.Status != want || strings.Contains(a.Body, "PRIVATE") {
			t.Fatalf("%d %s, want %d", a.Status, a.Body, want)
		}
	}
	first := keys()
	rotate(`{"finish":true}`, http.StatusBadRequest)
	rotate(`{}`, http.StatusOK)
	both := keys()
	rotate(`{}`, http.StatusBadRequest)
	rotate(`{"finish":true}`, http.StatusOK)
	last := keys()
	if len(first) != 1 || len(both) != 2 || len(last) != 1 || both[0] != first[0] || both[1] != last[0] || first[0] == last[0] {
		t.Errorf("there were %d, %d and %d keys", len(first), len(both), len(last))
	}
	if a := w.browser().signIn(); a.Status != http.StatusSeeOther {
		t.Errorf("%d %s", a.Status, w.reason())
	}
	if rows := w.Query(`SELECT sealed FROM identity_providers`); strings.Contains(rows[0], "PRIVATE") {
		t.Error("the key is stored as text")
	}
}

func TestATestOfSAMLWalksTheSteps(t *testing.T) {
	w := newSAMLWorld(t)
	root := w.session()
	test := func() (ok bool, steps map[string]string, start string) {
		t.Helper()
		a := root.Call("POST", "/identity-providers/"+w.id+"/test", "")
		var out struct {
			OK    bool
			Start string
			Steps []struct{ Name, Outcome string }
		}
		if err := json.Unmarshal([]byte(a.Body), &out); err != nil || a.Status != http.StatusOK {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		steps = map[string]string{}
		for _, s := range out.Steps {
			steps[s.Name] = s.Outcome
		}
		return out.OK, steps, out.Start
	}
	check := func(name string, got, want map[string]string) {
		t.Helper()
		for step, outcome := range want {
			if got[step] != outcome {
				t.Errorf("%s: the step %s is %q, want %q", name, step, got[step], outcome)
			}
		}
	}
	ok, steps, _ := test()
	check("as entered", steps, map[string]string{"redirect_uri": "ok", "entity_id": "ok", "metadata": "ok", "certificate": "ok", "authorization": "ok", "domains": "ok", "clock": "skipped"})
	if !ok {
		t.Errorf("the test failed: %v", steps)
	}
	w.metadata = w.Metadata()
	w.root.Must("PUT", "/identity-providers/"+w.id, `{"metadata_url":"`+metadataURL+`"}`, nil)
	_, steps, _ = test()
	check("with an address", steps, map[string]string{"metadata": "ok", "clock": "ok"})
	w.Rotate(t, time.Now().Add(10*24*time.Hour))
	w.metadata, w.shift = w.Metadata(), 2*time.Minute
	_, steps, _ = test()
	check("a certificate that expires soon", steps, map[string]string{"certificate": "warning"})
	w.metadata, w.shift = "", 4*time.Minute
	ok, steps, _ = test()
	check("away", steps, map[string]string{"metadata": "failed"})
	if ok {
		t.Error("the test succeeded although the metadata is away")
	}
}

// session returns a caller with a session.
func (w *samlWorld) session() *routetest.Caller {
	return (&world{Bench: w.Bench, t: w.t}).as("boss")
}

func TestATestOfSAMLSignsNobodyIn(t *testing.T) {
	w := newSAMLWorld(t)
	for _, postOnly := range []bool{false, true} {
		w.PostOnly = postOnly
		w.root.Must("PUT", "/identity-providers/"+w.id, `{"metadata":`+quote(w.Metadata())+`}`, nil)
		b := w.browser()
		a := w.session().Call("POST", "/identity-providers/"+w.id+"/test", "")
		b.keep(a)
		var out struct{ Start string }
		if err := json.Unmarshal([]byte(a.Body), &out); err != nil || out.Start == "" {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		var request samltest.Request
		if postOnly {
			path := strings.TrimPrefix(out.Start, "https://gateway.example.com/v1")
			form := formOf(b.send("GET", path, "", false).Body)
			request = samltest.ReadForm(t, form)
		} else {
			request = samltest.Read(t, out.Start)
		}
		a = b.end(samltest.Response{Request: request, Attributes: ada})
		if a.Status != http.StatusOK || !strings.Contains(a.Body, "a sign-in would succeed as ada@example.com") || b.cookies[login] != nil || w.users() != "" {
			t.Errorf("%d %s; users %q", a.Status, a.Body, w.users())
		}
	}
}

func TestSingleLogoutOfTheProvider(t *testing.T) {
	w := newSAMLWorld(t)
	slo := "https://gateway.example.com/v1/auth/sso/" + w.id + "/slo"
	signIn := func(name, session string) {
		t.Helper()
		b := w.browser()
		if a := b.end(samltest.Response{Request: b.begin(""), NameID: name, Session: session, Attributes: ada}); a.Status != http.StatusSeeOther {
			t.Fatalf("%d %s", a.Status, w.reason())
		}
	}
	signIn("ada-1", "one")
	signIn("ada-1", "two")
	signIn("ada-1", "three")
	l := samltest.Logout{To: slo, NameID: "ada-1", Sessions: []string{"one"}}
	unsigned := l
	unsigned.Signing.Omit = true
	send := func(form url.Values) (status int, location, body string) {
		a := w.browser().send("POST", "/auth/sso/"+w.id+"/slo", form.Encode(), true)
		return a.Status, a.Header.Get("Location"), a.Body
	}
	for name, form := range map[string]url.Values{"unsigned": w.LogoutForm(unsigned), "request": {}} {
		if status, _, _ := send(form); status != http.StatusBadRequest || w.reason() != name || w.sessions() != 3 {
			t.Errorf("%s: %d %s, %d sessions", name, status, w.reason(), w.sessions())
		}
	}
	form := w.LogoutForm(l)
	status, location, _ := send(form)
	if status != http.StatusFound || w.sessions() != 2 || samltest.Read(t, location).Issuer != strings.Replace(slo, "/slo", "/metadata", 1) {
		t.Errorf("a form: %d %s, %d sessions", status, location, w.sessions())
	}
	if status, _, _ = send(form); status != http.StatusBadRequest || w.reason() != "replayed" {
		t.Errorf("again: %d %s", status, w.reason())
	}
	unsigned.Sessions = nil
	a := w.browser().send("GET", "/auth/sso/"+w.id+"/slo?"+w.RedirectForm(w.LogoutForm(unsigned), false), "", true)
	if a.Status != http.StatusBadRequest || w.reason() != "unsigned" || w.sessions() != 2 {
		t.Errorf("an unsigned redirect: %d %s, %d sessions", a.Status, w.reason(), w.sessions())
	}
	a = w.browser().send("GET", "/auth/sso/"+w.id+"/slo?"+w.RedirectForm(w.LogoutForm(unsigned), true), "", true)
	if a.Status != http.StatusFound || w.sessions() != 0 || samltest.Read(t, a.Header.Get("Location")).State != "state" {
		t.Errorf("a redirect: %d %s, %d sessions", a.Status, w.reason(), w.sessions())
	}
}

func TestSingleLogoutByAForm(t *testing.T) {
	w := newSAMLWorld(t)
	w.PostOnly = true
	w.root.Must("PUT", "/identity-providers/"+w.id, `{"metadata":`+quote(w.Metadata())+`}`, nil)
	b := w.browser()
	form := formOf(b.send("GET", "/auth/sso/"+w.id, "", false).Body)
	if a := b.end(samltest.Response{Request: samltest.ReadForm(t, form), NameID: "ada-1", Session: "one", Attributes: ada}); a.Status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.Status, w.reason())
	}
	l := samltest.Logout{To: "https://gateway.example.com/v1/auth/sso/" + w.id + "/slo", NameID: "ada-1"}
	a := w.browser().send("POST", "/auth/sso/"+w.id+"/slo", w.LogoutForm(l).Encode(), true)
	text, err := base64.StdEncoding.DecodeString(formOf(a.Body).Get("SAMLResponse"))
	if err != nil || a.Status != http.StatusOK || !strings.Contains(string(text), "status:Success") || w.sessions() != 0 {
		t.Errorf("%d %s, %d sessions", a.Status, a.Body, w.sessions())
	}
}

func TestEgressPolicyCoversMetadata(t *testing.T) {
	w := newSAMLWorld(t)
	w.metadata = w.Metadata()
	w.root.Must("PUT", "/identity-providers/"+w.id, `{"metadata_url":"`+metadataURL+`"}`, nil)
	w.API.Egress = func(string, string) *egress.Policies {
		return &egress.Policies{Organisation: &egress.Policy{CustomHosts: egress.Hosts{"https://*.example.org"}}}
	}
	before := w.reads
	if a := w.browser().send("GET", "/auth/sso/"+w.id, "", false); a.Status != http.StatusBadGateway {
		t.Errorf("a sign-in began: %d %s", a.Status, a.Body)
	}
	if a := w.root.Call("PUT", "/identity-providers/"+w.id, `{"metadata_url":"https://login.example.com/other"}`); a.Status != http.StatusBadRequest {
		t.Errorf("an address that is not allowed was stored: %d %s", a.Status, a.Body)
	}
	if w.reads != before {
		t.Errorf("%d requests were sent", w.reads-before)
	}
}

// TestMetadataOfAFileIsReadAtItsFirstUse has what a file stores, which sends no requests.
func TestMetadataOfAFileIsReadAtItsFirstUse(t *testing.T) {
	w := newSAMLWorld(t)
	w.Exec(`UPDATE identity_providers SET settings = json_set(settings, '$.metadata', '', '$.metadata_url', $1)`, metadataURL)
	if a := w.browser().send("GET", "/auth/sso/"+w.id, "", false); a.Status != http.StatusBadGateway {
		t.Errorf("without metadata: %d", a.Status)
	}
	w.metadata, w.shift = w.Metadata(), 2*time.Minute
	if a := w.browser().signIn(); a.Status != http.StatusSeeOther {
		t.Errorf("%d %s", a.Status, w.reason())
	}
	if rows := w.Query(`SELECT settings FROM identity_providers`); !strings.Contains(rows[0], "IDPSSODescriptor") {
		t.Error("the metadata was not stored")
	}
}
