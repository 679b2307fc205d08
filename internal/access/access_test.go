package access_test

import (
	"testing"
	"time"

	"modelgate/internal/access"
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
		if _, err := access.ParseHash(text); err == nil {
			t.Errorf("ParseHash(%q) succeeded", text)
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
