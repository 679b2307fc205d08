package server_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/alert"
	"modelgate/internal/base/secret"
	"modelgate/internal/identity/access"
	"modelgate/internal/server"
	"modelgate/internal/store"
	"modelgate/internal/testing/alerttest"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// alertSecret is the value of the variable ALERT_SECRET in all tests, set by TestMain.
var alertSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte(auditKey))

// hook receives alerts.
type hook struct {
	*httptest.Server
	t  *testing.T
	mu sync.Mutex
	// got counts what was received, by type and object; guarded by mu.
	got map[string]int
	ids map[string]int // deliveries by id; guarded by mu
	// failures is how many deliveries of each alert about a key are answered with 503.
	failures int
}

func newHook(t *testing.T, failures int) *hook {
	h := &hook{t: t, got: map[string]int{}, ids: map[string]int{}, failures: failures}
	h.Server = httptest.NewServer(http.HandlerFunc(h.receive))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	id := r.Header.Get("webhook-id")
	mac := hmac.New(sha256.New, []byte(auditKey))
	io.WriteString(mac, id+"."+r.Header.Get("webhook-timestamp")+"."+string(body))
	var sent struct {
		Type string
		Data struct{ ID, Name, Object string }
	}
	if err != nil || r.Header.Get("webhook-signature") != "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) || json.Unmarshal(body, &sent) != nil {
		h.t.Errorf("a delivery without a valid signature: %s", body)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids[id]++
	if sent.Data.Object == "api_key" && h.ids[id] <= h.failures {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	h.got[sent.Type+" "+sent.Data.Object+" "+sent.Data.Name]++
}

// bodies returns what was received, each with its number.
func (h *hook) bodies() (list []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, n := range h.got {
		list = append(list, fmt.Sprintf("%s: %d", name, n))
	}
	slices.Sort(list)
	return list
}

// mustAlert stores an alert that no gateway makes, whose type is sorted first.
func mustAlert(t *testing.T, db *store.DB, n int) {
	t.Helper()
	err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
		id := fmt.Sprintf("later-%d", n)
		return tx.Note(t.Context(), &store.Audit{
			ID: id, Organisation: store.DefaultOrganisation, Time: time.Now(), QueryParams: "{}", RequestHeaders: "{}", RequestBody: "{}", ResourceType: "test", ResourceID: id,
			Alert: &store.Alert{Type: "a.later", Data: []byte(`{"object":"test","name":"` + id + `"}`)},
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAlertsAreSentOnceForAllGateways(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	db := storetest.Open(t, dsn)
	h, mails := newHook(t, 1), alerttest.NewMailServer(t, alert.NoTLS)
	stop := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stop }))
	defer hanging.Close()
	defer close(stop)
	settings := priced + `alerts:
  webhooks:
    - {url: "` + hanging.URL + `", secret: "${ALERT_SECRET}"}
    - {url: "` + h.URL + `", secret: "${ALERT_SECRET}"}
  email: {server: "` + mails.Addr().String() + `", tls: none, from: gateway@example.com, to: [ops@example.com]}
`
	var gateways []*gatewaytest.Gateway
	for range 4 {
		gateways = append(gateways, gatewaytest.New(t, gatewaytest.Options{Database: dsn, Settings: settings}))
	}
	key, _, err := server.CreateKey(t.Context(), db, store.Key{
		Name: "poor", Scopes: []access.Scope{access.ScopeAll}, UsageLimits: []byte(`{"type":"tokens","credit_limit":200,"alert_threshold":100,"base":0}`), AlertEmails: []byte(`["team@example.com"]`),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"budget.exhausted api_key poor: 1", "budget.threshold_reached api_key poor: 1"}
	for n := 1; n <= 2; n++ {
		waittest.Until(t, fmt.Sprintf("the webhook has %d of two alerts", n), func() bool {
			for _, g := range gateways { // until the budget is used up on all of them
				g.Do(g.Request("POST", "/chat/completions", thrifty, "x-gateway-api-key", key.Reveal()))
			}
			return len(h.bodies()) >= n
		})
	}
	for n := range 8 { // further ones are sent after those that were due
		mustAlert(t, db, n)
	}
	waittest.Until(t, "later alerts are sent", func() bool { return len(h.bodies()) == 10 })
	if got := h.bodies()[8:]; !slices.Equal(got, want) {
		t.Errorf("received %v, want %v", got, want)
	}
	waittest.Until(t, "all e-mails are sent", func() bool { return len(mails.Messages()) == 10 })
	commands := strings.Join(mails.Commands(), "\n")
	for _, to := range []string{"ops@example.com", "team@example.com"} {
		want := 2
		if to == "ops@example.com" {
			want = 10
		}
		if n := strings.Count(commands, "RCPT TO:<"+to+">"); n != want {
			t.Errorf("%s was sent %d e-mails, want %d", to, n, want)
		}
	}
	for _, g := range gateways {
		if text := g.Log.String(); strings.Contains(text, alertSecret) || strings.Contains(text, auditKey) {
			t.Error("the log contains the secret of the webhook")
		}
	}
}

func TestExpiryOfKeysIsReportedOnce(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	db := storetest.Open(t, "file:"+filepath.Join(data, "modelgate.db"))
	h := newHook(t, 0)
	for name, at := range map[string]time.Time{"over": time.Now().Add(-time.Hour), "soon": time.Now().Add(time.Hour), "later": time.Now().AddDate(0, 0, 9), "never": {}} {
		if _, _, err := server.CreateKey(t.Context(), db, store.Key{Name: name, ExpiresAt: at}); err != nil {
			t.Fatal(err)
		}
	}
	settings := "alerts: {webhooks: [{url: \"" + h.URL + "\", secret: \"${ALERT_SECRET}\"}]}\n"
	for n := range 2 { // the second start finds nothing to report
		g := gatewaytest.New(t, gatewaytest.Options{Data: data, Settings: settings})
		waittest.Until(t, "expiries are reported", func() bool { return len(h.bodies()) >= 2 })
		mustAlert(t, db, n)
		waittest.Until(t, "a later alert is sent", func() bool { return len(h.bodies()) == 3+n })
		g.Stop()
	}
	if got, want := h.bodies()[2:], []string{"api_key.expired api_key over: 1", "api_key.expires_soon api_key soon: 1"}; !slices.Equal(got, want) {
		t.Errorf("received %v, want %v", got, want)
	}
}

func TestSettingsOfAlertsAreChecked(t *testing.T) {
	const email = `email: {server: "smtp.example.com:587", from: a@example.com`
	for text, want := range map[string]string{
		`webhooks: [{url: "ftp://a.example", secret: "${ALERT_SECRET}"}]`:                                                          "alerts.webhooks[0].url",
		`webhooks: [{url: "https://u:p@a.example", secret: "${ALERT_SECRET}"}]`:                                                    "alerts.webhooks[0].url",
		`webhooks: [{url: "https://a.example", secret: whsec_plain}]`:                                                              "plaintext credentials are not allowed",
		`webhooks: [{url: "https://a.example", secret: "${AUDIT_KEY}"}]`:                                                           "alerts.webhooks[0].secret: must be whsec_",
		`webhooks: [{url: "https://a.example", secret: "${ALERT_SECRET}"}, {url: "https://a.example", secret: "${ALERT_SECRET}"}]`: "alerts.webhooks[1].url",
		`expiry_notice: 3000h`:                                    "alerts.expiry_notice",
		`email: {from: a@example.com}`:                            "alerts.email.server",
		`email: {server: "smtp.example.com:25"}`:                  "alerts.email.from",
		email + `, tls: ssl}`:                                     "alerts.email.tls",
		email + `, user: u}`:                                      "alerts.email.user",
		email + `, user: u, password: "${AUDIT_KEY}", tls: none}`: "alerts.email.tls",
		email + `, user: u, password: plain}`:                     "plaintext credentials are not allowed",
		email + `, to: ["A <a@example.com>"]}`:                    "alerts.email.to[0]",
	} {
		file := filepath.Join(t.TempDir(), "modelgate.yaml")
		if err := os.WriteFile(file, []byte("alerts: {"+text+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := server.CheckSettings(file, nil, secret.String{}, secret.String{}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "whsec_plain") || strings.Contains(err.Error(), auditKey) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
