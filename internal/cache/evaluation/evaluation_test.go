package evaluation_test

import (
	"context"
	"errors"
	"testing"

	"modelgate/internal/cache/evaluation"
	"modelgate/internal/cache/semantic"
)

func mustPairs(t *testing.T) []evaluation.Pair {
	t.Helper()
	pairs, err := evaluation.Pairs()
	if err != nil {
		t.Fatal(err)
	}
	return pairs
}

func TestThePairsAreManyVariedAndDistinct(t *testing.T) {
	pairs := mustPairs(t)
	same, held, domains, kinds, seen := 0, 0, map[string]bool{}, map[string]bool{}, map[[2]string]bool{}
	for _, p := range pairs {
		if p.Same {
			same++
		}
		if p.HeldOut {
			held++
		}
		domains[p.Domain], kinds[p.Kind] = true, true
		if p.First == p.Second || seen[[2]string{p.First, p.Second}] || seen[[2]string{p.Second, p.First}] {
			t.Errorf("%q and %q are not a new pair", p.First, p.Second)
		}
		seen[[2]string{p.First, p.Second}] = true
	}
	if len(pairs) < 400 || same < 150 || len(pairs)-same < 200 || held*3 < len(pairs) || len(domains) < 10 {
		t.Errorf("%d pairs, %d of them equal, %d held out, of %d domains", len(pairs), same, held, len(domains))
	}
	for _, kind := range []string{"number", "negation", "name", "unit", "quoted", "code", "question type", "language", "paraphrase"} {
		if !kinds[kind] {
			t.Errorf("no pair is of the kind %q", kind)
		}
	}
}

func TestTheLexicalEmbedderIsPrecise(t *testing.T) {
	r, err := evaluation.Run(t.Context(), semantic.Lexical{}, semantic.DefaultThreshold, mustPairs(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]evaluation.Count{"tuned": r.Tuned, "held out": r.HeldOut} {
		if c.Precision() < 0.99 || c.Recall() < 0.6 {
			t.Errorf("%s: precision %.3f, recall %.3f: %+v, false hits %v", name, c.Precision(), c.Recall(), c, r.FalseHits)
		}
	}
}

// everything is the worst embedder: all texts are equal.
type everything struct{ err error }

func (everything) Name() string { return "everything" }

func (e everything) Embed(context.Context, string) ([]float32, error) { return []float32{1}, e.err }

func TestFactsGuardTheWorstEmbedder(t *testing.T) {
	r, err := evaluation.Run(t.Context(), everything{}, semantic.DefaultThreshold, mustPairs(t))
	if err != nil {
		t.Fatal(err)
	}
	if p := r.All().Precision(); p < 0.95 || r.WithoutFacts.Precision() > 0.5 {
		t.Errorf("precision with facts %.3f, without %.3f; false hits %v", p, r.WithoutFacts.Precision(), r.FalseHits)
	}
}

func TestAFailedEmbeddingEndsTheMeasurement(t *testing.T) {
	cause := errors.New("down")
	if _, err := evaluation.Run(t.Context(), everything{cause}, 0.95, mustPairs(t)); !errors.Is(err, cause) {
		t.Errorf("Run = %v, want %v", err, cause)
	}
}
