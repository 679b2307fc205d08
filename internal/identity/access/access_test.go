package access_test

import (
	"strings"
	"testing"
	"time"

	"modelgate/internal/identity/access"
)

func TestAnIdentityMayDoWhatItsScopesSay(t *testing.T) {
	for _, tt := range []struct {
		scopes []access.Scope
		asked  access.Scope
		want   bool
	}{
		{nil, access.ScopeModels, false},
		{[]access.Scope{access.ScopeModels}, access.ScopeModels, true},
		{[]access.Scope{access.ScopeModels}, access.ScopeCompletions, false},
		{[]access.Scope{access.ScopeAll}, access.ScopeCompletions, true},
		{[]access.Scope{"models"}, access.ScopeModels, false},
	} {
		if got := (&access.Identity{Scopes: tt.scopes}).Allows(tt.asked); got != tt.want {
			t.Errorf("%v allows %s = %t, want %t", tt.scopes, tt.asked, got, tt.want)
		}
	}
}

func TestAnIdentityMayUseTheProvidersItNames(t *testing.T) {
	for _, tt := range []struct {
		list  []string
		asked string
		want  bool
	}{
		{nil, "openai", true}, {[]string{}, "openai", true}, {[]string{"openai"}, "openai", true},
		{[]string{"openai"}, "groq", false}, {[]string{"open"}, "openai", false},
	} {
		if got := (&access.Identity{Providers: tt.list}).AllowsProvider(tt.asked); got != tt.want {
			t.Errorf("%v allows %s = %t, want %t", tt.list, tt.asked, got, tt.want)
		}
	}
}

func TestAKeyEndsAtItsMoment(t *testing.T) {
	end := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	id := &access.Identity{ExpiresAt: end}
	for at, want := range map[time.Time]bool{end.Add(-1): false, end: true, end.Add(1): true} {
		if got := id.Expired(at); got != want {
			t.Errorf("Expired(%v) = %t, want %t", at, got, want)
		}
	}
	if new(access.Identity).Expired(end) {
		t.Error("a key without an end has expired")
	}
}

func TestNewKeysDifferAndHide(t *testing.T) {
	a, b := access.NewKey(), access.NewKey()
	if a.Reveal() == b.Reveal() || len(a.Reveal()) != len(access.KeyPrefix)+43 || a.String() == a.Reveal() {
		t.Errorf("NewKey() = %d and %d characters, printed as %s", len(a.Reveal()), len(b.Reveal()), a)
	}
	h := access.HashKey(a.Reveal())
	if back, err := access.ParseHash(h.String()); err != nil || !back.Equal(h) || back.Equal(access.HashKey(b.Reveal())) {
		t.Errorf("ParseHash(%s) = %v, %v", h, back, err)
	}
	for _, text := range []string{"", "00", h.String() + "00", "g" + h.String()[1:]} {
		if _, err := access.ParseHash(text); err == nil || !strings.Contains(err.Error(), "64 hexadecimal digits") {
			t.Errorf("ParseHash(%q) = %v, want an error that asks for 64 hexadecimal digits", text, err)
		}
	}
}

func TestATokenHasLettersDigitsHyphensAndUnderscores(t *testing.T) {
	// The first and last of each range, and their neighbours in ASCII.
	token := func(c byte) string { return "mg-" + strings.Repeat("x", 21) + string(c) + strings.Repeat("x", 21) }
	for _, c := range []byte("azAZ09-_") {
		if !access.HasToken(token(c)) {
			t.Errorf("HasToken(%q) = false", token(c))
		}
		if access.HasToken(string(c) + token('x')) {
			t.Errorf("HasToken(%q) = true, and the token is part of a longer word", string(c)+token('x'))
		}
		if access.HasToken(token('x') + string(c)) {
			t.Errorf("HasToken(%q) = true, and the token is part of a longer word", token('x')+string(c))
		}
	}
	for _, c := range []byte("`{@[/:+= \x00\xff") {
		if access.HasToken(token(c)) {
			t.Errorf("HasToken(%q) = true", token(c))
		}
		if text := string(c) + token('x') + string(c); !access.HasToken(text) {
			t.Errorf("HasToken(%q) = false", text)
		}
	}
}

func TestHasTokenFindsWhatHasTheFormOfACredential(t *testing.T) {
	key, session, link := access.NewKey().Reveal(), access.NewSessionToken().Reveal(), access.NewLinkToken().Reveal()
	for _, text := range []string{key, session, link, "Bearer " + key, " " + key + " ", `{"a":"` + session + `"}`, "a=" + link + "&b=c", "mg-x mg " + key} {
		if !access.HasToken(text) {
			t.Errorf("HasToken(%q) = false", text)
		}
	}
	for _, text := range []string{"", "mg-", "mgs-", "mg", "img-" + key[3:], "mg_" + key[3:], key[:len(key)-1], key + "x", key[:20] + "." + key[21:], "mgx-" + key[3:]} {
		if access.HasToken(text) {
			t.Errorf("HasToken(%q) = true", text)
		}
	}
}
