package secret_test

import (
	"errors"
	"strings"
	"testing"

	"modelgate/internal/base/secret"
)

const (
	oldMaster = "the old master key of a test"
	newMaster = "the new master key of a test"
)

func TestADataKeyOpensWhatItSealed(t *testing.T) {
	box := mustBox(t, oldMaster)
	wrapped := box.NewDataKey("acme")
	key := mustDataKey(t, box, "acme", wrapped)
	sealed := key.Seal(secret.New(canary))
	if strings.Contains(sealed+wrapped, canary) || !secret.SealedByDataKey(sealed) || secret.IsSealed(sealed) {
		t.Fatalf("Seal = %q", sealed)
	}
	if again := key.Seal(secret.New(canary)); again == sealed {
		t.Error("sealing twice gives the same text, so equal credentials can be recognised")
	}
	got, err := mustDataKey(t, box, "acme", wrapped).Open(sealed)
	if err != nil || got.Reveal() != canary {
		t.Errorf("Open = %q, %v", got.Reveal(), err)
	}
}

func TestADataKeyRefuses(t *testing.T) {
	box := mustBox(t, oldMaster)
	key := mustDataKey(t, box, "acme", box.NewDataKey("acme"))
	sealed := key.Seal(secret.New(canary))
	for _, tt := range []struct {
		name, text string
		key        *secret.DataKey
		want       error
	}{
		{"another data key", sealed, mustDataKey(t, box, "acme", box.NewDataKey("acme")), secret.ErrWrongDataKey},
		{"an altered text", alter(sealed), key, secret.ErrWrongDataKey},
		{"a cut text", sealed[:len("sealed:v2:")+5], key, nil},
		{"what a master key sealed", box.Seal(secret.New(canary)), key, nil},
		{"no sealed text", canary, key, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.key.Open(tt.text)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("Open = %v, want %v", err, tt.want)
			}
			if !got.Empty() || err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("a refused text gave %q, %v", got.Reveal(), err)
			}
		})
	}
}

func TestWrappedKeysOpenForTheirOrganisationAndMasterAlone(t *testing.T) {
	box := mustBox(t, oldMaster)
	wrapped := box.NewDataKey("acme")
	for _, tt := range []struct {
		name, organisation, wrapped string
		box                         *secret.Box
		want                        error
	}{
		{"another organisation", "other", wrapped, box, secret.ErrWrongKey},
		{"another master key", "acme", wrapped, mustBox(t, newMaster), secret.ErrWrongKey},
		{"an altered key", "acme", alter(wrapped), box, secret.ErrWrongKey},
		{"no wrapped key", "acme", box.Seal(secret.New(canary)), box, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			key, err := tt.box.DataKey(tt.organisation, tt.wrapped)
			if key != nil || err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("DataKey = %v, %v, want %v", key, err, tt.want)
			}
			if fresh, err := tt.box.Rewrap(tt.organisation, tt.wrapped); fresh != "" || err == nil {
				t.Errorf("Rewrap = %q, %v, want an error", fresh, err)
			}
		})
	}
}

// An organisation's values are bound to its id in addition to being sealed with its
// key: one data key under two names does not open across them.
func TestAValueIsBoundToItsOrganisation(t *testing.T) {
	one, other := secret.SameKey("acme"), secret.SameKey("other")
	if _, err := one.Open(one.Seal(secret.New(canary))); err != nil {
		t.Fatal(err)
	}
	if got, err := other.Open(one.Seal(secret.New(canary))); !errors.Is(err, secret.ErrWrongDataKey) || !got.Empty() {
		t.Errorf("Open = %q, %v, want %v", got.Reveal(), err, secret.ErrWrongDataKey)
	}
}

func TestValuesOpenAfterTheMasterKeyChanged(t *testing.T) {
	before := mustBox(t, oldMaster)
	wrapped := before.NewDataKey("acme")
	sealed := mustDataKey(t, before, "acme", wrapped).Seal(secret.New(canary))
	both, err := secret.NewBox(secret.New(newMaster), secret.String{}, secret.New(oldMaster))
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := both.Rewrap("acme", wrapped)
	if err != nil || fresh == wrapped {
		t.Fatalf("Rewrap = %q, %v, want another text", fresh, err)
	}
	if again, err := both.Rewrap("acme", fresh); err != nil || again != fresh {
		t.Errorf("Rewrap of a rewrapped key = %q, %v, want it as it is", again, err)
	}
	if _, err := before.DataKey("acme", fresh); !errors.Is(err, secret.ErrWrongKey) {
		t.Errorf("the old master key: %v, want %v", err, secret.ErrWrongKey)
	}
	got, err := mustDataKey(t, mustBox(t, newMaster), "acme", fresh).Open(sealed)
	if err != nil || got.Reveal() != canary {
		t.Errorf("Open = %q, %v", got.Reveal(), err)
	}
	if got, err := both.Open(before.Seal(secret.New(canary))); err != nil || got.Reveal() != canary {
		t.Errorf("Open of what the previous key sealed = %q, %v", got.Reveal(), err)
	}
	if _, err := before.Open(both.Seal(secret.New(canary))); err == nil {
		t.Error("a box seals with a previous key")
	}
	if _, err := secret.NewBox(secret.New(newMaster), secret.New("short")); err == nil {
		t.Error("a short previous key was taken")
	}
}

func mustDataKey(t *testing.T, box *secret.Box, organisation, wrapped string) *secret.DataKey {
	t.Helper()
	key, err := box.DataKey(organisation, wrapped)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// alter changes one letter near the end.
func alter(sealed string) string {
	i, other := len(sealed)-3, "A"
	if sealed[i:i+1] == other {
		other = "B"
	}
	return sealed[:i] + other + sealed[i+1:]
}

func TestASignatureIsBoundToItsOrganisation(t *testing.T) {
	a, b := secret.SameKey("a"), secret.SameKey("b")
	if signature := a.Sign("text"); !a.Verify("text", signature) || b.Verify("text", signature) || secret.SameKey("a1").Verify("0text", secret.SameKey("a").Sign("10text")) {
		t.Error("the signature of one organisation is another's")
	}
}
