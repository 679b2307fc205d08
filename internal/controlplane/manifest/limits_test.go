package manifest_test

import (
	"testing"

	"modelgate/internal/controlplane/manifest"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func TestModelsOfAFileAreALimitOfItsRank(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		w := world(t, open(), master)
		setter := func() store.LimitSetter {
			o, err := w.DB.Organisation(t.Context(), "default")
			if err != nil {
				t.Fatal(err)
			}
			i, err := w.DB.Integration(t.Context(), o.ID, "main")
			if err != nil {
				t.Fatal(err)
			}
			set, err := w.DB.LimitSetters(t.Context(), store.BudgetRef{Kind: "integration", ID: i.ID})
			if err != nil {
				t.Fatal(err)
			}
			return set["models"]
		}
		const head = "integrations: [{slug: main, provider: openai"
		w.mustApply(t, head+"}]\n", manifest.Apply{})
		if got := setter(); got != (store.LimitSetter{}) {
			t.Errorf("all models are allowed, as a limit of %+v", got)
		}
		w.mustApply(t, head+", only_models: true, models: [{slug: gpt-4o}]}]\n", manifest.Apply{})
		if got := setter(); got.Rank < access.RankOrganisation || got.By != "file" {
			t.Errorf("one model is allowed, as a limit of %+v", got)
		}
		w.mustApply(t, head+"}]\n", manifest.Apply{})
		if got := setter(); got != (store.LimitSetter{}) {
			t.Errorf("all models are allowed again, as a limit of %+v", got)
		}
	})
}
