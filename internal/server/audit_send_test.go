package server_test

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/server"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// auditKey is the value of the variable AUDIT_KEY in all tests, set by TestMain:
// parallel tests can't set variables.
const auditKey = "the secret of a webhook in a test"

// runFor runs a gateway with settings until the returned function is called.
func runFor(t *testing.T, data, dsn, text string) (stop func()) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "modelgate.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := server.New(t.Context(), server.Options{Data: data, Database: secret.New(dsn), Listen: "127.0.0.1:0", Config: config, BootstrapKey: secret.New("a bootstrap key of a test")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, nil) }()
	return func() {
		cancel()
		if err := waittest.Receive(t, done, "the end of the server"); err != nil {
			t.Error(err)
		}
	}
}

func mustNote(t *testing.T, db *store.DB, organisation string, numbers ...int) {
	t.Helper()
	for _, n := range numbers {
		a := &store.Audit{ID: fmt.Sprintf("%s-%d", organisation, n), Organisation: organisation, Time: time.Now(), Method: "PUT", URI: "/v1/x", QueryParams: "{}", RequestHeaders: "{}", RequestBody: "{}", Status: 200}
		if err := db.AddAudit(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
}

// mustGet waits for rows up to a minute each. Those that came before may come
// again.
func mustGet(t *testing.T, seen map[string]bool, rows <-chan string, want ...string) {
	t.Helper()
	for _, w := range want {
		for !seen[w] {
			select {
			case got := <-rows:
				if got != w && !seen[got] {
					t.Fatalf("received %s, want %s", got, w)
				}
				seen[got] = true
			case <-time.After(time.Minute):
				t.Fatalf("%s was not received", w)
			}
		}
	}
}

func TestWebhookReceivesTheAuditLogInOrderAndOverRestarts(t *testing.T) {
	t.Parallel()
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		rows := make(chan string, 100)
		broken, seen := true, map[string]bool{}
		hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			at, signature, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("X-Modelgate-Signature"), "t="), ",v1=")
			mac := hmac.New(sha256.New, []byte(auditKey))
			mac.Write([]byte(at + "." + string(body)))
			var sent struct {
				Events []struct {
					ID, Hash string
					Sequence int64
					Name     string `json:"organisation_name"`
				}
			}
			if err != nil || signature != hex.EncodeToString(mac.Sum(nil)) || json.Unmarshal(body, &sent) != nil {
				t.Errorf("a delivery without a valid signature: %s", body)
			}
			if broken { // the first delivery is sent again
				broken = false
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			for _, e := range sent.Events {
				rows <- fmt.Sprintf("%s %d %t %s", e.ID, e.Sequence, e.Hash != "", e.Name)
			}
		}))
		defer hook.Close()
		db := storetest.Open(t, dsn)
		now := time.Now()
		err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
			return tx.CreateOrganisation(t.Context(), store.Organisation{ID: "a", Slug: "a", Name: "Acme", Status: store.Active, CreatedAt: now, UpdatedAt: now},
				store.Workspace{ID: "w", Organisation: "a", Slug: "w", Status: store.Active, CreatedAt: now, UpdatedAt: now},
				store.PromptCollection{ID: "c", Organisation: "a", Workspace: "w", Slug: "c", Status: store.Active, CreatedAt: now, UpdatedAt: now})
		})
		if err != nil {
			t.Fatal(err)
		}
		mustNote(t, db, "a", 1, 2)
		data, given := t.TempDir(), dsn
		if path, ok := strings.CutPrefix(dsn, "file:"); ok {
			data, given = filepath.Dir(path), ""
		}
		text := "audit: {webhook: {url: \"" + hook.URL + "\", secret: \"${AUDIT_KEY}\"}}\n"
		stop := runFor(t, data, given, text)
		mustGet(t, seen, rows, "a-1 1 true Acme", "a-2 2 true Acme")
		mustNote(t, db, "a", 3)
		mustGet(t, seen, rows, "a-3 3 true Acme")
		stop()
		mustNote(t, db, "a", 4)
		mustNote(t, db, "b", 1)
		defer runFor(t, data, given, text)()
		mustGet(t, seen, rows, "a-4 4 true Acme", "b-1 1 true ")
	})
}

func TestSyslogReceivesTheAuditLog(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	rows := make(chan string, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r := bufio.NewReader(c)
			for {
				var n int
				if _, err := fmt.Fscanf(r, "%d ", &n); err != nil || n > 1<<20 {
					break
				}
				message := make([]byte, n)
				if _, err := io.ReadFull(r, message); err != nil {
					break
				}
				header, text, _ := strings.Cut(string(message), " audit - ")
				var e struct{ ID string }
				if json.Unmarshal([]byte(text), &e) != nil {
					e.ID = string(message)
				}
				rows <- header[:6] + " " + e.ID
			}
			c.Close()
		}
	}()
	data := t.TempDir()
	db := storetest.Open(t, "file:"+data+"/modelgate.db")
	mustNote(t, db, "a", 1, 2)
	defer runFor(t, data, "", "audit: {syslog: {address: \""+l.Addr().String()+"\", protocol: tcp}}\n")()
	mustGet(t, map[string]bool{}, rows, "<110>1 a-1", "<110>1 a-2")
}

func TestDestinationsOfTheAuditLogAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		`webhook: {url: "https://a.example"}`:                              "audit.webhook.secret: is required",
		`webhook: {url: "https://a.example", secret: plain-secret}`:        "plaintext credentials are not allowed",
		`webhook: {url: "ftp://a.example", secret: "${AUDIT_KEY}"}`:        "audit.webhook.url",
		`webhook: {url: "https://u:p@a.example", secret: "${AUDIT_KEY}"}`:  "audit.webhook.url",
		`syslog: {protocol: tcp}`:                                          "audit.syslog.address",
		`syslog: {address: "a.example:514", protocol: tcp, ca: /some.pem}`: "audit.syslog.ca",
		`syslog: {address: "a.example:514", protocol: quic}`:               "audit.syslog",
	} {
		file := filepath.Join(t.TempDir(), "modelgate.yaml")
		if err := os.WriteFile(file, []byte("audit: {"+text+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := server.CheckSettings(file, nil, secret.String{}, secret.String{}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "plain-secret") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
