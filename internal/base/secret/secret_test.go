package secret_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"modelgate/internal/base/secret"
)

const canary = "canary-7f3a91"

func TestStringNeverPrints(t *testing.T) {
	s := secret.New(canary)
	nested := struct {
		Key secret.String
		Ptr *secret.String
	}{s, &s}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
		fmt.Fprintf(&out, verb+verb+verb, s, &s, nested)
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "key", s, "nested", nested)
	slog.New(slog.NewTextHandler(&out, nil)).Info("m", "key", s, "nested", nested)
	if err := json.NewEncoder(&out).Encode(nested); err != nil {
		t.Fatal(err)
	}
	hexed := fmt.Sprintf("%x", canary)
	for _, form := range []string{canary, hexed, strings.ToUpper(hexed)} {
		if strings.Contains(out.String(), form) {
			t.Errorf("%s was printed in: %s", form, out.String())
		}
	}
	if got := s.Reveal(); got != canary {
		t.Errorf("Reveal() = %q, want the credential", got)
	}
}

func TestMissingCredentialPrintsNothing(t *testing.T) {
	if got := secret.New("").String(); got != "" {
		t.Errorf("String() of no credential = %q, want an empty string", got)
	}
	if got := secret.New(canary).String(); got == "" {
		t.Error("String() of a credential is empty, want dots")
	}
}

func TestBoxOpensWhatItSealed(t *testing.T) {
	box := mustBox(t, "a master key of some length")
	sealed := box.Seal(secret.New(canary))
	if strings.Contains(sealed, canary) || !secret.IsSealed(sealed) {
		t.Fatalf("Seal = %q", sealed)
	}
	if again := box.Seal(secret.New(canary)); again == sealed {
		t.Error("sealing twice gives the same text, so equal credentials can be recognised")
	}
	got, err := box.Open(sealed)
	if err != nil || got.Reveal() != canary {
		t.Errorf("Open = %q, %v", got.Reveal(), err)
	}
}

func TestBoxRefuses(t *testing.T) {
	box := mustBox(t, "a master key of some length")
	sealed := box.Seal(secret.New(canary))
	other := byte('A')
	if sealed[len(sealed)-3] == other {
		other = 'B'
	}
	altered := []byte(sealed)
	altered[len(altered)-3] = other
	for _, tt := range []struct {
		name, text string
		box        *secret.Box
		want       error
	}{
		{"another key", sealed, mustBox(t, "quite another master key"), secret.ErrWrongKey},
		{"an altered text", string(altered), box, secret.ErrWrongKey},
		{"a cut text", sealed[:len("sealed:v1:")+5], box, nil},
		{"no sealed text", canary, box, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.box.Open(tt.text)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("Open = %v, want %v", err, tt.want)
			}
			if !got.Empty() || err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("a refused text gave %q, %v", got.Reveal(), err)
			}
		})
	}
}

func TestMasterKeysOfSixteenBytesAreLongEnough(t *testing.T) {
	mustBox(t, "sixteen bytes :)")
	if _, err := secret.NewBox(secret.New("fifteen bytes..")); err == nil {
		t.Error("NewBox of a master key of 15 bytes succeeded")
	}
}

func mustBox(t *testing.T, key string) *secret.Box {
	t.Helper()
	box, err := secret.NewBox(secret.New(key))
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func TestSealingStablyIsTheSameEachTimeAtOnePlace(t *testing.T) {
	box, err := secret.NewBox(secret.New("a master key of some length"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := secret.NewBox(secret.New("another master key of some length"))
	if err != nil {
		t.Fatal(err)
	}
	sealed := box.SealDeterministic("a", secret.New("sk-canary"))
	if again := box.SealDeterministic("a", secret.New("sk-canary")); again != sealed {
		t.Errorf("a second time it is %q, not %q", again, sealed)
	}
	seen := map[string]string{sealed[:30]: "the first"}
	for name, text := range map[string]string{
		"another place":      box.SealDeterministic("b", secret.New("sk-canary")),
		"another secret":     box.SealDeterministic("a", secret.New("sk-canarz")),
		"another division":   box.SealDeterministic("as", secret.New("k-canary")),
		"another master key": other.SealDeterministic("a", secret.New("sk-canary")),
	} {
		if was := seen[text[:30]]; was != "" {
			t.Errorf("%s gives the text or the nonce of %s", name, was)
		}
		seen[text[:30]] = name
	}
	if got, err := box.Open(sealed); err != nil || got.Reveal() != "sk-canary" {
		t.Errorf("Open = %q, %v", got.Reveal(), err)
	}
	if _, err := other.Open(sealed); err == nil {
		t.Error("another master key opens it")
	}
}
