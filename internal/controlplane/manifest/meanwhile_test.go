package manifest_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"modelgate/internal/controlplane/manifest"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

func TestAFileIsComparedAgainWithWhatWasChangedConcurrently(t *testing.T) {
	w := file(t)
	check, looks := w.CheckHost, 0
	w.CheckHost = func(raw string) (*url.URL, error) {
		if looks++; looks == 1 { // between reading and writing
			k := store.Key{ID: "k", Name: "theirs", Hash: access.HashKey("aa"), CreatedAt: time.Now()}
			if err := w.DB.CreateKey(t.Context(), k); err != nil {
				t.Error(err)
			}
		}
		return check(raw)
	}
	text := "integrations: [{slug: a, provider: openai, custom_host: \"https://models.example.com/v1\"}]\nkeys:\n  - {name: ours, sha256: " + access.HashKey("aa").String() + "}\n"
	got := w.mustApply(t, text, manifest.Apply{})
	if want := "~ key default/ours"; looks != 2 || len(got) != 2 || !strings.HasPrefix(got[1], want) {
		t.Errorf("after %d looks %q, want two and %q", looks, got, want)
	}
}

func TestApplyingIsOneRowOfTheAuditLog(t *testing.T) {
	w := file(t)
	w.mustApply(t, completeManifest(t), manifest.Apply{DryRun: true})
	w.mustApply(t, completeManifest(t), manifest.Apply{})
	w.mustApply(t, completeManifest(t), manifest.Apply{})
	rows, total, err := w.DB.Audits(t.Context(), store.AuditQuery{Organisation: store.DefaultOrganisation, To: time.Now().Add(time.Hour)}, store.Page{})
	if err != nil || total != 1 {
		t.Fatalf("%d rows, %v, want one", total, err)
	}
	a := rows[0]
	if a.ResourceType != "manifest" || !strings.Contains(a.RequestBody, "+ workspace ws-team") || strings.Contains(a.RequestBody, "canary") {
		t.Errorf("the row is %+v", a)
	}
}
