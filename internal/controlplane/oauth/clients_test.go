package oauth_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const registered = `{"client_name":"Terminal","redirect_uris":["http://localhost:1/cb"]}`

func (w *codeWorld) register(body string) (int, string) {
	a := w.Nobody().CallWith("POST", "/oauth/register", body, http.Header{"Content-Type": {"application/json"}})
	var out struct {
		ID     string `json:"client_id"`
		Error  string
		Method string `json:"token_endpoint_auth_method"`
	}
	json.Unmarshal([]byte(a.Body), &out)
	if a.Status == http.StatusCreated && out.Method != "none" {
		w.t.Errorf("the client has %s", a.Body)
	}
	return a.Status, out.ID + out.Error
}

func TestClientsRegisterThemselvesIfTheyMay(t *testing.T) {
	w := newCodeWorld(t)
	if status, code := w.register(registered); status != http.StatusForbidden || code != "access_denied" {
		t.Errorf("switched off: %d %s", status, code)
	}
	w.settings.Registration = true
	for body, code := range map[string]string{
		`x`:                               "invalid_client_metadata",
		`{}`:                              "invalid_redirect_uri",
		`{"redirect_uris":["http://x/"]}`: "invalid_redirect_uri",
		`{"redirect_uris":["javascript:alert(1)"]}`:                                   "invalid_redirect_uri",
		`{"redirect_uris":["data:text/html,x"]}`:                                      "invalid_redirect_uri",
		`{"redirect_uris":["JavaScript:alert(1)"]}`:                                   "invalid_redirect_uri",
		`{"redirect_uris":["https://x/#y"]}`:                                          "invalid_redirect_uri",
		`{"redirect_uris":["https://x/\u003cb"]}`:                                     "invalid_redirect_uri",
		`{"redirect_uris":["https://x/"],"grant_types":["client_credentials"]}`:       "invalid_client_metadata",
		`{"redirect_uris":[` + strings.Repeat(`"https://x/",`, 20) + `"https://x/"]}`: "invalid_redirect_uri",
	} {
		if status, got := w.register(body); status != http.StatusBadRequest || got != code {
			t.Errorf("%s: %d %s", body, status, got)
		}
	}
	status, id := w.register(registered)
	if status != http.StatusCreated {
		t.Fatalf("registering: %d %s", status, id)
	}
	query := request("client_id", id, "redirect_uri", "http://localhost:4711/cb")
	a, asked := w.ask(w.owner, query)
	if a.Status != http.StatusOK || asked.Client.Source != "registration" || !asked.Client.Loopback || asked.Client.Host != "" || asked.Client.Name != "Terminal" {
		t.Errorf("the person is asked %s", a.Body)
	}
	code := w.mustAllow(w.owner, query).Get("code")
	if out := w.exchange(code, "client_id", id, "redirect_uri", "http://localhost:4711/cb"); out.Access == "" {
		t.Errorf("the client has %+v", out)
	}
	_, unused := w.register(registered)
	w.Clock = w.Clock.Add(29 * 24 * time.Hour)
	w.Exec(`UPDATE oauth_clients SET used_at = $1 WHERE used_at IS NOT NULL`, w.Clock.UnixMilli())
	w.Clock = w.Clock.Add(2 * 24 * time.Hour)
	w.register(registered)
	left := strings.Join(w.Query(`SELECT id FROM oauth_clients`), " ")
	if strings.Contains(left, unused) || !strings.Contains(left, id) {
		t.Errorf("after a month there are %s; %s was used, %s was not", left, id, unused)
	}
	limited := false
	for range 20 {
		status, _ := w.register(registered)
		limited = limited || status == http.StatusTooManyRequests
	}
	if !limited {
		t.Error("an address registers as many clients as it likes")
	}
}

func TestAdminsRegisterClients(t *testing.T) {
	w := newCodeWorld(t)
	root := w.Root()
	for _, body := range []string{`{"name":"x","redirect_uris":["http://x/"]}`, `{"name":"x","redirect_uris":[]}`, `{"name":"\u202e","redirect_uris":["https://x/"]}`} {
		if a := root.Call("POST", "/oauth/clients", body); a.Status != http.StatusBadRequest && a.Status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	var c struct{ ID string }
	root.Must("POST", "/oauth/clients", `{"name":"Portal","redirect_uris":["https://portal.example/cb"]}`, &c)
	query := request("client_id", c.ID, "redirect_uri", "https://portal.example/cb")
	_, asked := w.ask(w.owner, query)
	if asked.Client == nil || asked.Client.Source != "organisation" || asked.Client.Name != "Portal" {
		t.Errorf("the person is asked %+v", asked)
	}
	code := w.mustAllow(w.owner, query).Get("code")
	out := w.exchange(code, "client_id", c.ID, "redirect_uri", "https://portal.example/cb")
	if _, err := w.ownerAt(out.Access, "github"); err != nil {
		t.Fatal(err)
	}
	w.Exec(`UPDATE oauth_clients SET organisation_id = 'other'`)
	if a, _ := w.ask(w.owner, query); a.Status != http.StatusNotFound {
		t.Errorf("a client of another organisation: %d %s", a.Status, a.Body)
	}
	if a := root.Call("DELETE", "/oauth/clients/"+c.ID, ""); a.Status != http.StatusNotFound {
		t.Errorf("deleting it: %d %s", a.Status, a.Body)
	}
	w.Exec(`UPDATE oauth_clients SET organisation_id = (SELECT organisation_id FROM sessions LIMIT 1)`)
	root.Must("DELETE", "/oauth/clients/"+c.ID, "", nil)
	if _, err := w.ownerAt(out.Access, "github"); err == nil {
		t.Error("a token of a client that was deleted is valid")
	}
}

func TestDocumentsOfClientsAreChecked(t *testing.T) {
	w := newCodeWorld(t)
	for name, body := range map[string]string{
		"another id":     `{"client_id":"https://client.example/mcp","redirect_uris":["` + callback + `"]}`,
		"no id":          `{"redirect_uris":["` + callback + `"]}`,
		"a secret":       `{"client_id":"https://client.example/x.json","redirect_uris":["` + callback + `"],"client_secret":"x"}`,
		"a key":          `{"client_id":"https://client.example/x.json","redirect_uris":["` + callback + `"],"token_endpoint_auth_method":"private_key_jwt"}`,
		"no redirects":   `{"client_id":"https://client.example/x.json"}`,
		"a script":       `{"client_id":"https://client.example/x.json","redirect_uris":["` + callback + `","javascript:alert(1)"]}`,
		"no JSON":        `<html>`,
		"another shape":  `{"client_id":"https://client.example/x.json","redirect_uris":"` + callback + `"}`,
		"a large one":    `{"client_id":"https://client.example/x.json","redirect_uris":["` + callback + `"],"x":"` + strings.Repeat("x", 64<<10) + `"}`,
		"several values": `{"client_id":"https://client.example/x.json","redirect_uris":["` + callback + `"]}{}`,
	} {
		w := newCodeWorld(t)
		w.bodies["https://client.example/x.json"] = body
		if a, _ := w.ask(w.owner, request("client_id", "https://client.example/x.json")); a.Status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	for _, id := range []string{"https://client.example", "https://client.example/", "https://u@client.example/x", "https://client.example/a/../x",
		"https://client.example/x#y", "https:///x", "https://client.example/./x", "https://client.example/" + strings.Repeat("x", 2000)} {
		if a, _ := w.ask(w.owner, request("client_id", id)); a.Status != http.StatusBadRequest || w.asked != 0 {
			t.Errorf("%.60s: %d %s, %d fetches", id, a.Status, a.Body, w.asked)
		}
	}
	// Names are words of the client: nothing in them is markup, or changes the direction of text.
	w.bodies[document] = strings.Replace(w.bodies[document], "Editor", `<img src=x onerror=alert(1)>\u202e`+strings.Repeat("x", 200), 1)
	if _, asked := w.ask(w.owner, request()); asked.Client == nil || strings.Contains(asked.Client.Name, "\u202e") || len(asked.Client.Name) != 100 {
		t.Errorf("the name is %+v", asked.Client)
	}
}

func TestDocumentsAreCachedAsTheirServerSays(t *testing.T) {
	for header, life := range map[string]time.Duration{
		"": time.Minute, "no-store": time.Minute, "max-age=1": time.Minute, "public, max-age=600": 10 * time.Minute,
		"max-age=99999999": 24 * time.Hour, "max-age=x": time.Minute,
	} {
		w := newCodeWorld(t)
		w.header.Set("Cache-Control", header)
		for _, after := range []time.Duration{0, life - time.Second} {
			w.Clock = w.Clock.Add(after)
			if w.ask(w.secondSession(), request()); w.asked != 1 {
				t.Errorf("%q: %d fetches after %s", header, w.asked, after)
			}
		}
		w.Clock = w.Clock.Add(time.Second)
		if w.ask(w.secondSession(), request()); w.asked != 2 {
			t.Errorf("%q: %d fetches after %s", header, w.asked, life)
		}
	}
	w := newCodeWorld(t)
	for range 5 {
		w.ask(w.owner, request("client_id", "https://client.example/none.json"))
	}
	if w.asked != 1 {
		t.Errorf("a document that is not there was fetched %d times at once", w.asked)
	}
	limited := 0
	for i := range 130 {
		if a, _ := w.ask(w.owner, request("client_id", fmt.Sprintf("https://client.example/%d.json", i))); a.Status == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited < 5 || w.asked > 121 {
		t.Errorf("a person made the gateway fetch %d documents; %d were refused", w.asked, limited)
	}
}

// TestGrantsOfAUserAreBounded: nobody fills the memory of all nodes.
func TestGrantsOfAUserAreBounded(t *testing.T) {
	w := newCodeWorld(t)
	first := w.mustSignIn()
	for i := range 50 {
		w.Clock = w.Clock.Add(time.Second)
		code := w.mustAllow(w.owner, request("state", fmt.Sprint(i))).Get("code")
		w.exchange(code)
	}
	if rows := w.Query(`SELECT id FROM oauth_grants`); len(rows) != 50 {
		t.Errorf("%d grants", len(rows))
	}
	if _, err := w.ownerAt(first.Access, "github"); err == nil {
		t.Error("the grant that was not used for longest is there")
	}
	w.Clock = w.Clock.Add(time.Minute)
	w.mustAllow(w.owner, request())
	w.Clock = w.Clock.Add(time.Minute)
	w.mustAllow(w.owner, request())
	if rows := w.Query(`SELECT grant_id FROM oauth_proofs WHERE code_used_at IS NULL`); len(rows) != 1 {
		t.Errorf("%d codes that nobody used", len(rows))
	}
}
