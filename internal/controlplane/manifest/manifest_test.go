package manifest_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/manifest"
	"modelgate/internal/guardrail/checks"
	"modelgate/internal/settings"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/upstream"
)

const master = "the master key of a test"

// env has every variable, with its own name behind a word to look for. Those
// whose name ends in JSON hold an object.
func env(name string) (string, bool) {
	if strings.HasSuffix(name, "JSON") {
		return `{"type":"service_account","private_key":"canary-` + name + `"}`, true
	}
	return "canary-" + name, true
}

func TestAnExportAppliedElsewhereExportsTheSameBytes(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		first := world(t, open(), master)
		first.mustApply(t, completeManifest(t), manifest.Apply{})
		for _, how := range []manifest.Secrets{manifest.Sealed, manifest.References} {
			t.Run(string(how), func(t *testing.T) {
				text, names := first.mustExport(t, how)
				if strings.Contains(text, "canary") {
					t.Fatal("the export holds a credential")
				}
				for _, want := range []string{"input_guardrail_exclusions: [ws-team]", "output_guardrail_exclusions: [default, ws-team]"} {
					if !strings.Contains(text, want) {
						t.Errorf("the export lacks %s", want)
					}
				}
				if want := 0; how == manifest.References {
					if want = 16; len(names) != want {
						t.Errorf("the export needs %q, want %d variables", names, want)
					}
				}
				second := world(t, storetest.Open(t, "file:"+t.TempDir()+"/modelgate.db"), master)
				second.mustApply(t, text, manifest.Apply{})
				again, _ := second.mustExport(t, how)
				if diff := cmp.Diff(text, again); diff != "" {
					t.Errorf("the second export differs:\n%s", diff)
				}
			})
		}
	})
}

func TestApplyingAgainChangesNothing(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		w := world(t, open(), master)
		w.mustApply(t, completeManifest(t), manifest.Apply{})
		before := w.revision(t)
		for _, text := range []string{completeManifest(t), func() string { s, _ := w.mustExport(t, manifest.Sealed); return s }(), func() string { s, _ := w.mustExport(t, manifest.None); return s }()} {
			for _, a := range []manifest.Apply{{}, {Prune: true}} {
				if text == completeManifest(t) && a.Prune {
					continue // it does not have the first key
				}
				if changes := w.mustApply(t, text, a); len(changes) != 0 {
					t.Errorf("%+v changes again: %q", a, changes)
				}
			}
		}
		if after := w.revision(t); after != before {
			t.Errorf("the revision went from %d to %d", before, after)
		}
	})
}

// place is an installation of a test.
type place struct {
	*manifest.Manifest
}

func world(t *testing.T, db *store.DB, master string) place {
	t.Helper()
	m := &manifest.Manifest{DB: db, Organisation: "default", CheckHost: upstream.New(upstream.Options{}).CheckHost, Guardrails: checks.New(checks.Services{})}
	if master != "" {
		box, err := secret.NewBox(secret.New(master))
		if err != nil {
			t.Fatal(err)
		}
		m.Box = box
	}
	return place{m}
}

func completeManifest(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("testdata/whole.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (p place) apply(t *testing.T, text string, a manifest.Apply) ([]string, error) {
	t.Helper()
	a.Opener = settings.SecretResolver{Env: env, Box: p.Box}
	s, err := settings.ParseState("f", []byte(text), a.Opener)
	if err != nil {
		return nil, err
	}
	changes, err := p.Apply(t.Context(), s, a)
	var list []string
	for _, c := range changes {
		list = append(list, fmt.Sprint(c))
	}
	return list, err
}

func (p place) mustApply(t *testing.T, text string, a manifest.Apply) []string {
	t.Helper()
	changes, err := p.apply(t, text, a)
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

func (p place) mustExport(t *testing.T, how manifest.Secrets) (string, []string) {
	t.Helper()
	s, names, err := p.Export(t.Context(), how)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := s.WriteState(&out); err != nil {
		t.Fatal(err)
	}
	return out.String(), names
}

func (p place) revision(t *testing.T) int64 {
	t.Helper()
	n, err := p.DB.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}
