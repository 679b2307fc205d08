package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"modelgate/internal/base/apierr"
	"modelgate/internal/prompt"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
	"modelgate/internal/testing/storetest"
)

// The labels that everybody has.
const production, staging = "00000000-0000-7000-8000-000000000011", "00000000-0000-7000-8000-000000000012"

var promptTime = time.UnixMilli(1_700_000_000_000).UTC()

func samplePrompt(id, kind string) store.Prompt {
	return store.Prompt{ID: id, Kind: kind, Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Collection: "c", Slug: "slug-" + id,
		Name: "Name of " + id, Published: 1, Status: store.Active, OwnerID: "o", UpdatedBy: "u", CreatedAt: promptTime, UpdatedAt: promptTime, Model: "m1"}
}

func sampleVersion(prompt string, n int64) store.PromptVersion {
	return store.PromptVersion{ID: fmt.Sprint(prompt, "-v", n), Prompt: prompt, Number: n, Text: fmt.Sprint("text ", n), Model: fmt.Sprint("m", n),
		Description: "d", Metadata: []byte(`{"a":1}`), CreatedBy: "u", CreatedAt: promptTime}
}

func change(t *testing.T, db *store.DB, f func(*store.Tx) error) {
	t.Helper()
	if err := db.Update(t.Context(), nil, f); err != nil {
		t.Fatal(err)
	}
}

func addPrompt(t *testing.T, db *store.DB, p store.Prompt, versions int64) {
	t.Helper()
	change(t, db, func(tx *store.Tx) error {
		if err := tx.CreatePrompt(t.Context(), p, sampleVersion(p.ID, 1)); err != nil {
			return err
		}
		for n := int64(2); n <= versions; n++ {
			if got, err := tx.AddPromptVersion(t.Context(), sampleVersion(p.ID, n)); err != nil || got != n {
				return fmt.Errorf("version %d got the number %d: %w", n, got, err)
			}
		}
		return nil
	})
}

func TestPromptsAreStoredWithTheirVersions(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db, ctx := open(), t.Context()
		p := samplePrompt("p1", store.KindPrompt)
		addPrompt(t, db, p, 3)
		addPrompt(t, db, samplePrompt("p2", store.KindPartial), 1)
		for _, ref := range []string{"p1", "slug-p1"} {
			got, err := db.Prompt(ctx, store.KindPrompt, store.DefaultOrganisation, "", ref)
			if diff := cmp.Diff(p, got); diff != "" || err != nil {
				t.Errorf("Prompt(%s): %v\n%s", ref, err, diff)
			}
			for _, other := range [][3]string{{store.KindPartial, store.DefaultOrganisation, ""}, {store.KindPrompt, "other", ""}, {store.KindPrompt, store.DefaultOrganisation, "other"}} {
				if _, err := db.Prompt(ctx, other[0], other[1], other[2], ref); apierr.From(err).Kind != apierr.NotFound {
					t.Errorf("Prompt of %v: %v, want none", other, err)
				}
			}
		}
		for name, f := range map[string]func() (store.PromptVersion, error){
			"by number": func() (store.PromptVersion, error) { return db.PromptVersion(ctx, "p1", 3) },
			"by id":     func() (store.PromptVersion, error) { return db.PromptVersionByID(ctx, "p1", "p1-v3") },
			"latest":    func() (store.PromptVersion, error) { return db.LatestPromptVersion(ctx, "p1") },
		} {
			got, err := f()
			if diff := cmp.Diff(sampleVersion("p1", 3), got); diff != "" || err != nil {
				t.Errorf("%s: %v\n%s", name, err, diff)
			}
		}
		for ref, want := range map[[2]string]map[int64]bool{
			{store.DefaultOrganisation, "slug-p1"}: {0: true, 3: true, 4: false, 1 << 40: false}, {"other", "slug-p1"}: {0: false, 1: false},
			{"", "slug-p2"}: {0: false, 1: false}, // a partial
		} {
			for version, want := range want {
				if got, err := db.PromptExists(ctx, ref[0], "", ref[1], version); got != want || err != nil {
					t.Errorf("PromptExists(%v, %d) = %v, %v", ref, version, got, err)
				}
			}
		}
		if _, err := db.PromptVersionByID(ctx, "p2", "p1-v3"); apierr.From(err).Kind != apierr.NotFound {
			t.Errorf("a version of another prompt: %v", err)
		}
		p.Name, p.Published, p.Collection, p.Model = "New", 2, "d", "m2"
		change(t, db, func(tx *store.Tx) error { return tx.UpdatePrompt(ctx, p) })
		for filter, want := range map[store.PromptQuery]int{
			{Kind: store.KindPrompt}: 1, {Kind: store.KindPrompt, Search: "Ne"}: 1, {Kind: store.KindPrompt, Search: "old"}: 0,
			{Kind: store.KindPrompt, Collection: "d"}: 1, {Kind: store.KindPrompt, Collection: "c"}: 0, {Kind: store.KindPartial}: 1,
			{Kind: store.KindPrompt, Workspace: "other"}: 0, {Kind: store.KindPrompt, Workspace: store.DefaultWorkspace}: 1,
		} {
			filter.Organisation = store.DefaultOrganisation
			list, total, err := db.Prompts(ctx, filter, store.Page{Size: 10})
			if err != nil || total != want || len(list) != want {
				t.Errorf("Prompts(%+v) = %v, %d, %v; want %d", filter, list, total, err, want)
			}
		}
		if list, _, err := db.PromptVersions(ctx, "p1", store.Page{Number: 1, Size: 2}); err != nil || len(list) != 1 || list[0].Number != 1 {
			t.Errorf("the second page of versions: %v, %v", list, err)
		}
		if err := db.Update(ctx, nil, func(tx *store.Tx) error { return tx.CreatePrompt(ctx, p, sampleVersion("p1", 9)) }); apierr.From(err).Kind != apierr.Conflict {
			t.Errorf("a prompt twice: %v, want a conflict", err)
		}
	})
}

func TestVersionsMadeAtOnceAreNumberedWithoutGaps(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		one, two := open(), open()
		addPrompt(t, one, samplePrompt("p", store.KindPrompt), 1)
		const each = 10
		var both sync.WaitGroup
		for i, db := range []*store.DB{one, two} {
			for n := range each {
				both.Go(func() {
					err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
						v := sampleVersion("p", 0)
						v.ID = fmt.Sprint(i, " ", n)
						_, err := tx.AddPromptVersion(t.Context(), v)
						return err
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
		}
		both.Wait()
		list, _, err := one.PromptVersions(t.Context(), "p", store.Page{})
		if err != nil || len(list) != 1+2*each {
			t.Fatalf("%d versions, %v; want %d", len(list), err, 1+2*each)
		}
		for i, v := range list {
			if want := int64(len(list) - i); v.Number != want {
				t.Errorf("version %d has the number %d", want, v.Number)
			}
		}
	})
}

func TestALabelIsOnOneVersionOfAPrompt(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db, ctx := open(), t.Context()
		addPrompt(t, db, samplePrompt("p", store.KindPrompt), 2)
		addPrompt(t, db, samplePrompt("q", store.KindPrompt), 1)
		label := func(p, v, l string) {
			t.Helper()
			change(t, db, func(tx *store.Tx) error { return tx.LabelPromptVersion(ctx, p, v, l) })
		}
		on := func(p, name string, want int64) {
			t.Helper()
			v, err := db.LabelledPromptVersion(ctx, p, name)
			if want == 0 && apierr.From(err).Kind == apierr.NotFound {
				return
			}
			if err != nil || v.Number != want {
				t.Errorf("%s of %s = %+v, %v; want version %d", name, p, v, err, want)
			}
		}
		label("p", "p-v1", production)
		label("q", "q-v1", production)
		label("p", "p-v2", production)
		on("p", "production", 2)
		on("q", "production", 1)
		label("p", "p-v2", staging)
		on("p", "production", 0)
		label("p", "p-v2", "")
		on("p", "staging", 0)
		own := store.PromptLabel{ID: "l", Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Name: "own", Description: "d", Color: "#fff", CreatedAt: promptTime, UpdatedAt: promptTime}
		change(t, db, func(tx *store.Tx) error { return tx.CreatePromptLabel(ctx, own) })
		got, err := db.PromptLabel(ctx, store.DefaultOrganisation, store.DefaultWorkspace, "l")
		if diff := cmp.Diff(own, got); diff != "" || err != nil {
			t.Errorf("PromptLabel: %v\n%s", err, diff)
		}
		label("q", "q-v1", "l")
		on("q", "own", 1)
		for _, tt := range []struct {
			organisation, workspace, search string
			want                            int
		}{
			{store.DefaultOrganisation, "", "", 4}, {store.DefaultOrganisation, store.DefaultWorkspace, "", 4}, {store.DefaultOrganisation, "other", "", 3},
			{"other", "", "", 3}, {store.DefaultOrganisation, "", "ow", 1},
		} {
			if list, total, err := db.PromptLabels(ctx, tt.organisation, tt.workspace, tt.search, store.Page{Size: 2}); err != nil || total != tt.want || len(list) != min(2, tt.want) {
				t.Errorf("PromptLabels of %+v = %v, %d, %v", tt, list, total, err)
			}
		}
		for name, want := range map[string]bool{"own": true, "production": true, "other": false} {
			if taken, err := db.PromptLabelTaken(ctx, store.DefaultOrganisation, store.DefaultWorkspace, name, ""); taken != want || err != nil {
				t.Errorf("PromptLabelTaken(%s) = %t, %v", name, taken, err)
			}
		}
		own.Name = "renamed"
		change(t, db, func(tx *store.Tx) error { return tx.UpdatePromptLabel(ctx, own) })
		on("q", "renamed", 1)
		change(t, db, func(tx *store.Tx) error { return tx.DeletePromptLabel(ctx, "l") })
		on("q", "renamed", 0)
		if v, err := db.PromptVersion(ctx, "q", 1); err != nil || v.Label != "" {
			t.Errorf("after its label was removed: %+v, %v", v, err)
		}
	})
}

func TestCollectionsCountWhatTheyHold(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db, ctx := open(), t.Context()
		first, err := db.DefaultPromptCollection(ctx, store.DefaultWorkspace)
		if err != nil || first.Name != "Default" {
			t.Fatalf("the default collection: %+v, %v", first, err)
		}
		c := store.PromptCollection{ID: "c", Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Parent: first.ID, Slug: "co-c", Name: "C",
			Status: store.Active, CreatedAt: promptTime, UpdatedAt: promptTime}
		change(t, db, func(tx *store.Tx) error { return tx.CreatePromptCollection(ctx, c) })
		addPrompt(t, db, samplePrompt("p", store.KindPrompt), 1)
		c.Prompts, c.Name = 1, "D"
		change(t, db, func(tx *store.Tx) error { return tx.UpdatePromptCollection(ctx, c) })
		got, err := db.PromptCollection(ctx, store.DefaultOrganisation, store.DefaultWorkspace, "co-c")
		if diff := cmp.Diff(c, got); diff != "" || err != nil {
			t.Errorf("PromptCollection: %v\n%s", err, diff)
		}
		list, total, err := db.PromptCollections(ctx, store.DefaultOrganisation, "", "", store.Page{})
		if err != nil || total != 2 || list[0].Children != 1 || list[0].Prompts != 0 {
			t.Errorf("PromptCollections = %+v, %d, %v", list, total, err)
		}
		if _, total, err := db.PromptCollections(ctx, store.DefaultOrganisation, "other", "", store.Page{}); err != nil || total != 0 {
			t.Errorf("of another workspace: %d, %v", total, err)
		}
		second := c
		second.ID, second.Slug, second.IsDefault = "e", "co-e", true
		if err := db.Update(ctx, nil, func(tx *store.Tx) error { return tx.CreatePromptCollection(ctx, second) }); apierr.From(err).Kind != apierr.Conflict {
			t.Errorf("a second default collection: %v, want a conflict", err)
		}
	})
}

// What was read in parts has to be what reading all of it gives, and texts that
// did not change are not read again.
func TestPublishedPromptsFollowEveryChange(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db, ctx := open(), t.Context()
		p := samplePrompt("p", store.KindPrompt)
		var before *publication.State
		for _, step := range []struct {
			name     string
			do       func()
			versions []prompt.Version // of p, except for texts
			number   int64
		}{
			{"nothing", func() {}, nil, 0},
			{"a prompt", func() { addPrompt(t, db, p, 1) }, []prompt.Version{{ID: "p-v1", Number: 1}}, 1},
			{"a partial", func() { addPrompt(t, db, samplePrompt("q", store.KindPartial), 30) }, []prompt.Version{{ID: "p-v1", Number: 1}}, 1},
			{"a version", func() {
				change(t, db, func(tx *store.Tx) error { _, err := tx.AddPromptVersion(ctx, sampleVersion("p", 2)); return err })
			}, []prompt.Version{{ID: "p-v1", Number: 1}, {ID: "p-v2", Number: 2}}, 1},
			{"a label", func() {
				change(t, db, func(tx *store.Tx) error { return tx.LabelPromptVersion(ctx, "p", "p-v1", staging) })
			}, []prompt.Version{{ID: "p-v1", Number: 1, Label: "staging"}, {ID: "p-v2", Number: 2}}, 1},
			{"a config in the meantime", func() { mustSaveConfig(t, db) }, []prompt.Version{{ID: "p-v1", Number: 1, Label: "staging"}, {ID: "p-v2", Number: 2}}, 1},
			{"publishing", func() {
				p.Published = 2
				change(t, db, func(tx *store.Tx) error { return tx.UpdatePrompt(ctx, p) })
			}, []prompt.Version{{ID: "p-v1", Number: 1, Label: "staging"}, {ID: "p-v2", Number: 2}}, 2},
			{"archiving", func() {
				p.Status = store.Archived
				change(t, db, func(tx *store.Tx) error { return tx.UpdatePrompt(ctx, p) })
			}, nil, 0},
		} {
			step.do()
			got, err := publication.Load(ctx, db, before)
			if err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			whole, err := publication.Load(ctx, db, nil)
			if err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			if diff := cmp.Diff(whole, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: (-whole +in parts)\n%s", step.name, diff)
			}
			var saved prompt.Saved
			if len(got.Prompts) > 0 {
				saved = *got.Prompts[0]
			}
			for i := range saved.Versions {
				if v := &saved.Versions[i]; v.Text != fmt.Sprint("text ", v.Number) {
					t.Errorf("%s: version %d has the text %q", step.name, v.Number, v.Text)
				}
			}
			if diff := cmp.Diff(step.versions, saved.Versions, cmpopts.IgnoreFields(prompt.Version{}, "Text")); diff != "" || saved.Published != step.number {
				t.Errorf("%s: published %d, versions (-want +got):\n%s", step.name, saved.Published, diff)
			}
			before = got
		}
	})
}
