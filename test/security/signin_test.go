package security

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// behindProxy are settings in which the suite says the client's address.
const behindProxy = "version: 1\nlistener: {trusted_proxies: [127.0.0.1]}\n"

// auditLog is where all of the audit log is read.
const auditLog = "/v1/audit-logs?start_time=2020-01-01T00:00:00Z&end_time=2100-01-01T00:00:00Z"

// from is the header by which a request comes from an address.
func from(address string) []string { return []string{"X-Forwarded-For", address} }

func (g *gateway) signIn(t *testing.T, address, email, secret string) response {
	t.Helper()
	return g.do(t, "POST", "/v1/auth/login", fmt.Sprintf(`{"email":%q,"password":%q}`, email, secret), from(address)...)
}

// nodes starts a gateway, and on PostgreSQL a second one on the same database.
func nodes(t *testing.T, o options) []*gateway {
	t.Helper()
	o.settings = behindProxy
	all := []*gateway{launch(t, o)}
	if o.database != "" {
		all = append(all, launch(t, o))
	}
	return all
}

// parallel runs f so many times at once and returns how often each status came.
func parallel(n int, f func(i int) response) map[int]int {
	var mu sync.Mutex
	var all sync.WaitGroup
	statuses := map[int]int{}
	for i := range n {
		all.Go(func() {
			r := f(i)
			mu.Lock()
			defer mu.Unlock()
			statuses[r.status]++
		})
	}
	all.Wait()
	return statuses
}

// guess makes guesses at the nodes in turn until one refuses to check another,
// and returns how many were checked.
func guess(t *testing.T, all []*gateway, address, email func(i int) string) int {
	t.Helper()
	for i := range 200 {
		switch r := all[i%len(all)].signIn(t, address(i), email(i), "a guess"); r.status {
		case http.StatusUnauthorized:
		case http.StatusTooManyRequests:
			if wait, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || wait < 1 {
				t.Errorf("Retry-After: %q", r.header.Get("Retry-After"))
			}
			return i
		default:
			t.Fatalf("guess %d: status %d: %.300s", i, r.status, r.body)
		}
	}
	return 200
}

func same(s string) func(int) string { return func(int) string { return s } }

func numbered(format string) func(int) string {
	return func(i int) string { return fmt.Sprintf(format, i+1) }
}

func TestGuessingPasswordsIsBounded(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		all := nodes(t, o)
		g := all[0]
		for _, name := range []string{"ann", "bob", "cid", "dan", "eve", "fay"} {
			g.member(t, name, "member", "[]")
		}
		attack(t, "sessions", "120 parallel guesses on all nodes", func(t *testing.T) {
			statuses := parallel(120, func(i int) response { return all[i%len(all)].signIn(t, "198.51.100.1", "ann@example.com", "a guess") })
			for range 12 { // the queue may have refused some unchecked
				statuses[g.signIn(t, "198.51.100.1", "ann@example.com", "a guess").status]++
			}
			if statuses[401] != 10 || statuses[200] != 0 || statuses[401]+statuses[429]+statuses[503] != 132 {
				t.Errorf("132 guesses were answered %v; want 10 of them checked", statuses)
			}
		})
		attack(t, "sessions", "the account's owner elsewhere is not shut out", func(t *testing.T) {
			g.signIn(t, "203.0.113.1", "ann@example.com", password).ok(t)
		})
		for _, tt := range []struct {
			name           string
			address, email func(int) string
			want           int
		}{
			{"one account from one address", same("198.51.100.2"), same("bob@example.com"), 10},
			{"an account by spellings of its address", same("198.51.100.3"), func(i int) string { return []string{"CID@example.com", "cid@EXAMPLE.com", "Cid@example.com"}[i%3] }, 10},
			{"one account from many addresses", numbered("192.0.2.%d"), same("dan@example.com"), 30},
			{"many accounts from one address", same("198.51.100.4"), numbered("user%d@example.com"), 50},
			{"many accounts from one /64", numbered("2001:db8:a:b::%x"), numbered("other%d@example.com"), 50},
			{"many accounts from one address as IPv6", same("::ffff:198.51.100.5"), numbered("third%d@example.com"), 50},
			{"an account that does not exist", same("198.51.100.6"), same("nobody@example.com"), 10},
			{"an account that does not exist from many addresses", numbered("203.0.113.%d"), same("no-one@example.com"), 30},
		} {
			attack(t, "sessions", tt.name, func(t *testing.T) {
				if got := guess(t, all, tt.address, tt.email); got != tt.want {
					t.Errorf("%d guesses were checked, want %d", got, tt.want)
				}
			})
		}
		attack(t, "sessions", "the usual address works while many others guess", func(t *testing.T) {
			g.signIn(t, "203.0.113.200", "eve@example.com", password).ok(t)
			if got := guess(t, all, numbered("192.0.2.%d"), same("eve@example.com")); got != 30 {
				t.Errorf("%d guesses were checked, want 30", got)
			}
			for _, node := range all {
				node.signIn(t, "203.0.113.200", "eve@example.com", password).ok(t)
			}
		})
		attack(t, "sessions", "a restart forgets no guess", func(t *testing.T) {
			if got := guess(t, all, same("198.51.100.7"), same("fay@example.com")); got != 10 {
				t.Errorf("%d guesses were checked, want 10", got)
			}
			g.restart(t)
			g.signIn(t, "198.51.100.7", "fay@example.com", password).refused(t, http.StatusTooManyRequests, "too many")
		})
	})
}

func TestClientAddressIsNotChosenByTheGuesser(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	g.member(t, "ann", "member", "[]")
	for _, header := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "True-Client-Ip", "Cf-Connecting-Ip"} {
		attack(t, "sessions", "fresh attempts by "+header, func(t *testing.T) {
			checked := 0
			for i := range 12 {
				value := fmt.Sprintf("192.0.2.%d", i+1)
				if header == "Forwarded" {
					value = "for=" + value
				}
				r := g.do(t, "POST", "/v1/auth/login", `{"email":"`+strings.ToLower(header)+`@example.com","password":"a guess"}`, header, value)
				if r.status == http.StatusUnauthorized {
					checked++
				}
			}
			if checked > 10 {
				t.Errorf("%d guesses were checked, want at most 10", checked)
			}
		})
	}
}

func TestAccountsAreNotEnumerated(t *testing.T) {
	g := launch(t, options{settings: behindProxy})
	g.member(t, "known", "member", "[]")
	g.member(t, "removed", "member", "[]")
	g.as(t, rootKey, "DELETE", "/v1/admin/users/removed@example.com", "").ok(t)
	g.addCodes(t, g.member(t, "guarded", "member", "[]"))
	type tried struct {
		texts string
		best  time.Duration
	}
	try := func(email, address, secret string) (all tried) {
		all.best = time.Hour
		for range 11 {
			began := time.Now()
			r := g.signIn(t, address, email, secret)
			if took := time.Since(began); r.status == 401 {
				all.best = min(all.best, took)
			}
			all.texts += fmt.Sprintln(r.status, r.header.Get("Retry-After"), string(r.body))
		}
		return all
	}
	want := try("known@example.com", "198.51.100.1", "a guess")
	for i, tt := range []struct{ name, email, secret string }{
		{"unknown address", "unknown@example.com", "a guess"},
		{"an account with a second factor", "guarded@example.com", "a guess"},
		{"a removed person with the old password", "removed@example.com", password},
		{"no e-mail address at all", "%%%", "a guess"},
		{"SQL in the address", "' OR 1=1 --", "a guess"},
	} {
		attack(t, "tokens", "enumeration: "+tt.name, func(t *testing.T) {
			got := try(tt.email, fmt.Sprint("198.51.100.", i+2), tt.secret)
			if got.texts != want.texts {
				t.Errorf("answered\n%s\nwant, as for a known account,\n%s", got.texts, want.texts)
			}
			if got.best*3 < want.best || want.best*3 < got.best {
				t.Errorf("took %s at best, for a known account %s", got.best, want.best)
			}
		})
	}
}

// links makes a link of each kind and returns its token by the path that takes it.
func links(t *testing.T, g *gateway) map[string]string {
	t.Helper()
	token := func(link string) string {
		u, err := url.Parse(link)
		if err != nil {
			t.Fatal(err)
		}
		return u.Query().Get("token")
	}
	out, errText, code := command(t, "organisations", "create", "--name", "links", "--slug", "links", "--data", g.data)
	if code != 0 {
		t.Fatalf("organisations create: %s%s", out, errText)
	}
	g.member(t, "linked", "member", "[]")
	return map[string]string{
		"/v1/auth/claim":          token(strings.TrimSpace(out)),
		"/v1/auth/invites/accept": token(g.create(t, rootKey, "/v1/admin/users/invites", `{"email":"fresh@example.com","role":"member","workspaces":[]}`, "invite_link")),
		"/v1/auth/password":       token(g.create(t, rootKey, "/v1/admin/users/linked@example.com/password-reset", "", "link")),
	}
}

func linkBody(path, token string) string {
	fields := map[string]string{"token": token, "password": password + " again"}
	if path == "/v1/auth/claim" {
		fields["email"] = "claimer@example.com"
	}
	b, _ := json.Marshal(fields)
	return string(b)
}

func TestLinksWorkOnceForWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	g := launch(t, options{settings: behindProxy})
	fresh := links(t, g)
	session := g.member(t, "insider", "member", "[]")
	for path, own := range fresh {
		bad := map[string]string{
			"no link": "mgl-" + strings.Repeat("A", 43), "a key": rootKey, "a session": session, "SQL": "' OR '1'='1",
			"part of the link": own[:len(own)-1], "the link in other letters": strings.ToUpper(own), "its hash": strings.Repeat("0", 64),
		}
		for other, token := range fresh {
			if other != path {
				bad["the link for "+strings.TrimPrefix(other, "/v1/auth/")] = token
			}
		}
		for name, token := range bad {
			attack(t, "tokens", strings.TrimPrefix(path, "/v1/auth/")+" by "+name, func(t *testing.T) {
				g.do(t, "POST", path, linkBody(path, token)).refused(t, http.StatusNotFound, "unknown, used", "expired; ")
			})
		}
	}
	for path, own := range fresh {
		attack(t, "tokens", strings.TrimPrefix(path, "/v1/auth/")+" twenty times at once", func(t *testing.T) {
			statuses := parallel(20, func(i int) response {
				return g.do(t, "POST", path, linkBody(path, own), from(fmt.Sprint("192.0.2.", i+1))...)
			})
			if statuses[200] != 1 || statuses[500] != 0 {
				t.Errorf("the link was answered %v; want one 200", statuses)
			}
			g.do(t, "POST", path, linkBody(path, own)).refused(t, http.StatusNotFound)
		})
	}
}

// cpu returns the processor time that the process has used.
func (g *gateway) cpu(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", g.process.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	var ticks int64
	for _, f := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func TestSignInsDoNotUseTheGatewayUp(t *testing.T) {
	g := launch(t, options{settings: behindProxy})
	g.member(t, "ann", "member", "[]")
	attack(t, "exhaustion", "200 parallel sign-ins from 200 addresses", func(t *testing.T) {
		var statuses map[int]int
		var slowest time.Duration
		risen := g.peakMemory(t, func() {
			done := make(chan struct{})
			go func() {
				defer close(done)
				statuses = parallel(200, func(i int) response {
					r := g.signIn(t, fmt.Sprint("192.0.2.", i+1), fmt.Sprintf("p%d@example.com", i), "a guess")
					if r.status != 401 && r.header.Get("Retry-After") == "" {
						t.Errorf("status %d without Retry-After", r.status)
					}
					return r
				})
			}()
			for finished := false; !finished; {
				began := time.Now()
				g.as(t, rootKey, "GET", "/v1/auth/me", "").ok(t)
				slowest = max(slowest, time.Since(began))
				select {
				case <-done:
					finished = true
				default:
				}
			}
		})
		t.Logf("200 parallel sign-ins: %v, memory rose by %d MB, slowest other request %s", statuses, risen>>20, slowest)
		if risen > 250<<20 {
			t.Errorf("memory rose by %d MB, want at most 250 MB", risen>>20)
		}
		if statuses[401] == 0 || statuses[401]+statuses[429]+statuses[503] != 200 {
			t.Errorf("answered %v", statuses)
		}
		if slowest > 10*time.Second {
			t.Errorf("another request took %s in the meantime", slowest)
		}
	})
	attack(t, "exhaustion", "one address takes 8 places of the queue", func(t *testing.T) {
		statuses := parallel(100, func(int) response { return g.signIn(t, "198.51.100.1", "ann@example.com", "a guess") })
		if statuses[503] != 0 || statuses[429] < 90 {
			t.Errorf("answered %v", statuses)
		}
		g.signIn(t, "203.0.113.1", "ann@example.com", password).ok(t)
	})
	attack(t, "exhaustion", "one address leaves places of the queue to others", func(t *testing.T) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			parallel(100, func(i int) response { return g.signIn(t, "198.51.100.2", fmt.Sprintf("r%d@example.com", i), "a guess") })
		}()
		for finished := false; !finished; {
			g.signIn(t, "203.0.113.77", "ann@example.com", password).ok(t)
			select {
			case <-done:
				finished = true
			default:
			}
		}
	})
	for _, path := range []string{"/v1/auth/claim", "/v1/auth/invites/accept", "/v1/auth/password"} {
		attack(t, "exhaustion", "200 links that don't exist cost no hash at "+path, func(t *testing.T) {
			before := g.cpu(t)
			for range 200 {
				g.do(t, "POST", path, linkBody(path, "mgl-"+strings.Repeat("x", 43))).refused(t, http.StatusNotFound)
			}
			if used := g.cpu(t) - before; used > 2*time.Second { // 200 hashes take more than 4 s
				t.Errorf("used %s of processor time", used)
			}
		})
	}
	attack(t, "exhaustion", "300 failures from 300 addresses do not fill the audit log", func(t *testing.T) {
		before := g.disk(t)
		for i := range 300 {
			g.signIn(t, fmt.Sprintf("2001:db8:0:%x::1", i), fmt.Sprintf("q%d@example.com", i), "a guess")
		}
		total := g.as(t, rootKey, "GET", auditLog+"&action=sign_in_failed", "").ok(t).object(t)["total"]
		if n, _ := strconv.Atoi(fmt.Sprint(total)); n == 0 || n > 40 { // one window ended at most
			t.Errorf("%v rows of failures, want 1 to 40", total)
		}
		if grown := g.disk(t) - before; grown > 8<<20 {
			t.Errorf("the data folder grew by %d KB", grown>>10)
		}
	})
	attack(t, "exhaustion", "long clients' names are cut", func(t *testing.T) {
		r := g.do(t, "POST", "/v1/auth/login", `{"email":"ann@example.com","password":"`+password+`"}`,
			"X-Forwarded-For", "203.0.113.1", "User-Agent", strings.Repeat("u", 20_000)).ok(t)
		list := g.as(t, r.text(t, "token"), "GET", "/v1/auth/sessions", "").ok(t)
		if strings.Contains(string(list.body), strings.Repeat("u", 201)) || !strings.Contains(string(list.body), strings.Repeat("u", 200)) {
			t.Errorf("the name is not cut at 200 bytes: %.400s", list.body)
		}
	})
}

func TestSignInLeavesNoSecretBehind(t *testing.T) {
	t.Parallel()
	g := launch(t, options{settings: behindProxy})
	session := g.member(t, "ann", "member", "[]")
	g.signIn(t, "203.0.113.1", "typed-password-canary@example.com", "wrong-password-canary")
	reset := g.create(t, rootKey, "/v1/admin/users/ann@example.com/password-reset", "", "link")
	g.as(t, session, "PUT", "/v1/auth/password", `{"current_password":"`+password+`","password":"new-password-canary"}`).ok(t)
	attack(t, "log and export", "the audit log has the address and no password", func(t *testing.T) {
		rows := string(g.as(t, rootKey, "GET", auditLog, "").ok(t).body)
		if !strings.Contains(rows, "sign_in_failed") || !strings.Contains(rows, "203.0.113.1") || !strings.Contains(rows, "password_change") {
			t.Errorf("rows are missing: %.500s", rows)
		}
		for _, canary := range []string{"password-canary", password, session, reset} {
			if strings.Contains(rows, canary) {
				t.Errorf("the audit log holds %q", canary)
			}
		}
	})
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	_, token, _ := strings.Cut(reset, "token=")
	for name, secret := range map[string]string{"a session": session, "a reset link": token, "a password": password, "a typed password": "password-canary"} {
		attack(t, "at rest", "the data folder does not hold "+name, func(t *testing.T) {
			files := g.files(t)
			if len(files) < 2 {
				t.Errorf("the data folder has %d files, want databases", len(files))
			}
			for path, text := range files {
				if strings.Contains(string(text), secret) {
					t.Errorf("%s holds it", filepath.Base(path))
				}
			}
		})
	}
	attack(t, "log and export", "the gateway's own log holds none of them", func(t *testing.T) {
		for _, secret := range []string{session, token, password, "password-canary"} {
			if strings.Contains(g.output.String(), secret) {
				t.Errorf("it holds %q", secret)
			}
		}
	})
	if err := g.start(); err != nil {
		t.Fatal(err)
	}
}
