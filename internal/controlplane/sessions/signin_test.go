package sessions_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/testing/routetest"
)

func try(c *routetest.Caller, email, password string) routetest.Response {
	return c.Call("POST", "/auth/login", `{"email":"`+email+`","password":"`+password+`"}`)
}

func expect(t *testing.T, what string, a routetest.Response, want int) {
	t.Helper()
	if a.Status != want {
		t.Fatalf("%s: %d %s, want %d", what, a.Status, a.Body, want)
	}
}

func TestParallelGuessesGetNoMoreThanTheirAttempts(t *testing.T) {
	b, _ := claimInstallation(t)
	var mu sync.Mutex
	statuses := make(map[int]int)
	guess := func() {
		a := try(b.Nobody().At("198.51.100.7"), "boss@example.com", "a guess")
		mu.Lock()
		defer mu.Unlock()
		statuses[a.Status]++
	}
	var all sync.WaitGroup
	for range 120 {
		all.Go(guess)
	}
	all.Wait()
	for range 12 { // whatever the queue left of the attempts
		guess()
	}
	if statuses[http.StatusUnauthorized] != 10 || statuses[http.StatusTooManyRequests] != 122 {
		t.Errorf("132 guesses were answered %v; want 10 of them checked", statuses)
	}
}

func TestAnotherAddressDoesNotLockTheOwnerOut(t *testing.T) {
	b, _ := claimInstallation(t)
	for range 10 {
		expect(t, "another address", try(b.Nobody().At("198.51.100.7"), "boss@example.com", "a guess"), http.StatusUnauthorized)
	}
	a := try(b.Nobody().At("198.51.100.7"), "boss@example.com", password)
	expect(t, "the other address again", a, http.StatusTooManyRequests)
	if got := a.Header.Get("Retry-After"); got != "60" {
		t.Errorf("Retry-After: %q, want 60", got)
	}
	expect(t, "the owner elsewhere", try(b.Nobody().At("203.0.113.9"), "boss@example.com", password), http.StatusOK)
}

func TestManyAddressesShareTheAttemptsOfAnAccount(t *testing.T) {
	b, _ := claimInstallation(t)
	home := b.Nobody().At("203.0.113.9")
	expect(t, "the owner before", try(home, "boss@example.com", password), http.StatusOK)
	for i := range 30 {
		expect(t, "another address", try(b.Nobody().At(fmt.Sprint("198.51.100.", i)), "boss@example.com", "a guess"), http.StatusUnauthorized)
	}
	expect(t, "a third address", try(b.Nobody().At("198.51.100.200"), "boss@example.com", "a guess"), http.StatusTooManyRequests)
	expect(t, "the owner at the usual address", try(home, "boss@example.com", password), http.StatusOK)
	for range 10 {
		expect(t, "a guess at the usual address", try(home, "boss@example.com", "a guess"), http.StatusUnauthorized)
	}
	expect(t, "one more there", try(home, "boss@example.com", password), http.StatusTooManyRequests)
}

func TestAnAddressHasItsAttemptsOverAllAccounts(t *testing.T) {
	for name, address := range map[string]func(i int) string{
		"IPv4":              func(int) string { return "198.51.100.7" },
		"IPv6 of one /64":   func(i int) string { return fmt.Sprintf("2001:db8:1:2::%x", i+1) },
		"IPv4 as IPv6":      func(i int) string { return []string{"198.51.100.7", "::ffff:198.51.100.7"}[i%2] },
		"IPv6 with a scope": func(i int) string { return fmt.Sprintf("fe80::1%%eth%d", i) },
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := claimInstallation(t)
			for i := range 50 {
				expect(t, "an attempt", try(b.Nobody().At(address(i)), fmt.Sprintf("user%d@example.com", i), "a guess"), http.StatusUnauthorized)
			}
			expect(t, "one more", try(b.Nobody().At(address(50)), "boss@example.com", password), http.StatusTooManyRequests)
			expect(t, "another address", try(b.Nobody().At("2001:db8:1:3::1"), "boss@example.com", password), http.StatusOK)
		})
	}
}

func TestUnknownAccountsAreAnsweredAsKnownOnes(t *testing.T) {
	b, _ := claimInstallation(t)
	declareUser(t, b, "ann", "member") // has no password
	declareUser(t, b, "off", "member")
	b.Exec(`UPDATE users SET status = 'disabled', password_hash = (SELECT password_hash FROM users WHERE email = 'boss@example.com') WHERE id = 'off'`)
	responses := func(email, password, address string) string {
		var out strings.Builder
		for range 12 {
			a := try(b.Nobody().At(address), email, password)
			fmt.Fprintln(&out, a.Status, a.Header.Get("Retry-After"), a.Body)
		}
		return out.String()
	}
	want := responses("boss@example.com", "a guess", "198.51.100.1")
	for i, got := range []string{
		responses("nobody@example.com", "a guess", "198.51.100.2"),
		responses("ann@example.com", "a guess", "198.51.100.3"),
		responses("off@example.com", password, "198.51.100.4"),
	} {
		if got != want {
			t.Errorf("answers %d:\n%s\nwant\n%s", i, got, want)
		}
	}
	if !strings.Contains(want, "429 60 ") {
		t.Errorf("no attempt was refused:\n%s", want)
	}
}

func TestRightPasswordClearsTheCountOfItsAddress(t *testing.T) {
	b, _ := claimInstallation(t)
	home := b.Nobody().At("203.0.113.9")
	for range 3 {
		for range 9 {
			expect(t, "a slip", try(home, "boss@example.com", "a slip"), http.StatusUnauthorized)
		}
		expect(t, "the password", try(home, "boss@example.com", password), http.StatusOK)
	}
}

func TestFailedSignInsAreAuditedWithinAnAllowance(t *testing.T) {
	b, s := claimInstallation(t)
	rows := func() []string {
		return b.Query(`SELECT client_ip || ' ' || resource_id || ' ' || response_status_code || ' ' || request_body FROM audit_logs WHERE action = 'sign_in_failed' ORDER BY id`)
	}
	c := b.Nobody().At("198.51.100.1")
	for range 12 {
		try(c, "boss@example.com", "a-guess-of-mine")
	}
	list := rows()
	if len(list) != 1 || !strings.HasPrefix(list[0], "198.51.100.1 "+s.UserID+" 401 ") || !strings.Contains(list[0], `"wrong_passwords":1`) {
		t.Fatalf("rows of 12 failures: %q", list)
	}
	for i := range 30 { // more pairs than have rows
		try(b.Nobody().At(fmt.Sprint("192.0.2.", i)), "typed-secret@example.com", "a-guess-of-mine")
	}
	if n := len(rows()); n != 20 {
		t.Errorf("%d rows at once, want 20", n)
	}
	b.Clock = b.Clock.Add(10 * time.Minute)
	if err := b.Minute(t.Context(), b.Clock, false); err != nil {
		t.Fatal(err)
	}
	list = rows()
	all := strings.Join(list, "\n")
	for _, want := range []string{
		`198.51.100.1 ` + s.UserID + ` 401 {"wrong_passwords":9,"refused":2,`, // of 12 the first has its own row
		`  401 {"wrong_passwords":11,`,                                        // those without a row of their own
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no row with %s in\n%s", want, all)
		}
	}
	if len(list) != 22 || strings.Contains(all, "guess-of-mine") || strings.Contains(all, "typed-secret") {
		t.Errorf("%d rows:\n%s", len(list), all)
	}
}
