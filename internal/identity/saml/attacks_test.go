package saml_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/identity/saml"
	"modelgate/internal/testing/samltest"
)

var update = flag.Bool("update", false, "write the attacks in testdata again, signed with a new key")

// Addresses of the gateway in these tests.
const (
	entityID = "https://gateway.example.com/v1/auth/sso/1/metadata"
	acs      = "https://gateway.example.com/v1/auth/sso/1/acs"
	slo      = "https://gateway.example.com/v1/auth/sso/1/slo"
)

// recorded is when the attacks in testdata were made.
var recorded = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// store remembers what was accepted.
type store map[string]bool

func (s store) spend(_ context.Context, id string, _ time.Time) error {
	if s[id] {
		return saml.ErrReplayed
	}
	s[id] = true
	return nil
}

func newSettings(t testing.TB, metadata string) saml.Settings {
	t.Helper()
	text, err := saml.NewKey(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := saml.ParseKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	m, err := saml.ParseMetadata([]byte(metadata))
	if err != nil {
		t.Fatal(err)
	}
	return saml.Settings{EntityID: entityID, ACS: acs, Logout: slo, Provider: m, Keys: keys}
}

func at(now time.Time) func() time.Time { return func() time.Time { return now } }

var asked = samltest.Request{ID: "id-1", ACS: acs, Issuer: entityID}

func TestAttacksAreRefused(t *testing.T) {
	p := samltest.New(t, "https://login.example.com")
	provider := saml.New(newSettings(t, p.Metadata()), nil)
	if _, err := provider.Respond(t.Context(), p.Respond(samltest.Response{Request: asked}), asked.ID, store{}.spend); err != nil {
		t.Fatalf("the response without an attack was refused: %v", err)
	}
	for _, a := range samltest.Attacks() {
		t.Run(a.Name, func(t *testing.T) {
			text := samltest.Encode(a.Document(p, samltest.Response{Request: asked}))
			in, err := provider.Respond(t.Context(), text, asked.ID, store{}.spend)
			if saml.ReasonOf(err) != a.Reason || in != nil {
				t.Errorf("the reason is %q (%v), want %q", saml.ReasonOf(err), err, a.Reason)
			}
		})
	}
}

// The attacks are in files too, so that other implementations can be tried with them.
func TestRecordedAttacksAreRefused(t *testing.T) {
	if *update {
		record(t)
	}
	metadata, err := os.ReadFile("testdata/metadata.xml")
	if err != nil {
		t.Fatal(err)
	}
	provider := saml.New(newSettings(t, string(metadata)), at(recorded))
	reasons := map[string]string{"valid": ""}
	for _, a := range samltest.Attacks() {
		if !isLarge(a) {
			reasons[a.Name] = a.Reason
		}
	}
	files, err := filepath.Glob("testdata/attacks/*.xml")
	if err != nil || len(files) != len(reasons) {
		t.Errorf("testdata has %d files (%v), want %d; run go test ./internal/identity/saml -run Recorded -update", len(files), err, len(reasons))
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = provider.Respond(t.Context(), samltest.Encode(string(text)), asked.ID, store{}.spend)
		got := ""
		if err != nil {
			got = saml.ReasonOf(err)
		}
		if want := reasons[strings.TrimSuffix(filepath.Base(name), ".xml")]; got != want {
			t.Errorf("%s: the reason is %q (%v), want %q", name, got, err, want)
		}
	}
}

func record(t *testing.T) {
	t.Helper()
	p := samltest.New(t, "https://login.example.com")
	p.Rotate(t, recorded.AddDate(50, 0, 0))
	base := samltest.Response{Request: asked, Now: recorded}
	files := map[string]string{"metadata": p.Metadata(), "attacks/valid": p.Document(base)}
	for _, a := range samltest.Attacks() {
		if !isLarge(a) {
			files["attacks/"+a.Name] = a.Document(p, base)
		}
	}
	if err := os.RemoveAll("testdata/attacks"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("testdata/attacks", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile("testdata/"+name+".xml", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// isLarge reports whether an attack is one of size, which is in no file.
func isLarge(a samltest.Attack) bool {
	return slices.Contains([]string{"deep", "many_attributes", "many_elements", "large"}, a.Name)
}

func TestLargeResponsesAreRefusedQuickly(t *testing.T) {
	p := samltest.New(t, "https://login.example.com")
	provider := saml.New(newSettings(t, p.Metadata()), nil)
	texts := map[string]string{"10 MB": strings.Repeat("A", 10<<20)}
	for _, a := range samltest.Attacks() {
		if isLarge(a) {
			texts[a.Name] = samltest.Encode(a.Document(p, samltest.Response{Request: asked}))
		}
	}
	bomb := "SAMLRequest=" + strings.ReplaceAll(samltest.Encode(string(samltest.Deflate([]byte(strings.Repeat("<a>", 20<<20))))), "+", "%2B")
	for name, text := range texts {
		checkCosts(t, name, func() error {
			_, err := provider.Respond(t.Context(), text, asked.ID, store{}.spend)
			return err
		})
	}
	checkCosts(t, "bomb", func() error {
		_, err := provider.VerifyLogout(t.Context(), bomb, nil, store{}.spend)
		return err
	})
}

// checkCosts checks that a refusal takes at most 50 ms and 4 MB.
func checkCosts(t *testing.T, name string, refuse func() error) {
	t.Helper()
	least := time.Hour
	var before, after runtime.MemStats
	for range 10 { // the quickest counts: other tests run at the same time
		runtime.ReadMemStats(&before)
		begin := time.Now()
		if err := refuse(); err == nil {
			t.Fatalf("%s was accepted", name)
		}
		least = min(least, time.Since(begin))
		if runtime.ReadMemStats(&after); least <= 50*time.Millisecond {
			break
		}
	}
	if used := after.TotalAlloc - before.TotalAlloc; least > 50*time.Millisecond || used > 4<<20 {
		t.Errorf("%s: the refusal took %s and %d bytes, want at most 50 ms and 4 MB", name, least, used)
	}
}

func FuzzResponse(f *testing.F) {
	files, err := filepath.Glob("testdata/attacks/*.xml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	metadata, err := os.ReadFile("testdata/metadata.xml")
	if err != nil {
		f.Fatal(err)
	}
	provider := saml.New(newSettings(f, string(metadata)), at(recorded))
	f.Fuzz(func(t *testing.T, text []byte) {
		in, err := provider.Respond(t.Context(), samltest.Encode(string(text)), asked.ID, store{}.spend)
		if err == nil && in.Subject.Name != "subject-1" {
			t.Fatalf("accepted for %q: only what the provider signed may be read", in.Subject.Name)
		}
		if err != nil && saml.ReasonOf(err) == "" {
			t.Fatalf("the refusal has no reason: %v", err)
		}
		if _, err := saml.ParseMetadata(text); err == nil && len(text) == 0 {
			t.Fatal("empty metadata was accepted")
		}
	})
}
