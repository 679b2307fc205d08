package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"modelgate/internal/base/secret"
	"modelgate/internal/cache/evaluation"
	"modelgate/internal/cache/semantic"
)

// runCache runs the subcommand of `modelgate cache`.
func runCache(p *program) *cobra.Command {
	return p.noun("cache", "Measures the semantic cache.",
		evaluateCache)
}

// evaluateCache prints precision and recall of an embedder.
func evaluateCache(p *program) *cobra.Command {
	f := p.flags("evaluate",
		"Measures how precisely the semantic cache recognises questions, with the labelled pairs\n"+
			"of this build. Without a URL it measures the built-in lexical embedder. The key of the\n"+
			"provider is read from MODELGATE_EMBEDDING_KEY. Exit code 1 if the precision is below the\n"+
			"--least-precision.",
		`modelgate cache evaluate --threshold 0.9
modelgate cache evaluate --embedding-url https://api.openai.com/v1/embeddings --embedding-model text-embedding-3-small`)
	threshold := f.Float64("threshold", semantic.DefaultThreshold, "least cosine `similarity` of a hit")
	least := f.Float64("least-precision", 0.99, "least `share` of hits that must be right")
	address := f.text("embedding-url", "MODELGATE_EMBEDDING_URL", "",
		"`URL` of an embeddings endpoint in OpenAI's format, such as https://api.openai.com/v1/embeddings")
	model := f.text("embedding-model", "MODELGATE_EMBEDDING_MODEL", "", "`model` for that endpoint")
	return f.run(func(ctx context.Context) error {
		var e semantic.Embedder = semantic.Lexical{}
		if *address != "" {
			if *model == "" {
				return usage("--embedding-model is required with --embedding-url")
			}
			e = &endpoint{*address, *model, secret.New(p.env("MODELGATE_EMBEDDING_KEY"))}
		}
		pairs, err := evaluation.Pairs()
		if err != nil {
			return err
		}
		r, err := evaluation.Run(ctx, e, *threshold, pairs)
		if err != nil {
			return err
		}
		p.printEvaluation(r)
		switch got := r.All().Precision(); {
		case math.IsNaN(got):
			return errors.New("no pair was found, so that there is no precision; lower --threshold, or use another model")
		case got < *least:
			return fmt.Errorf("the precision is %.3f, less than %v", got, *least)
		}
		return nil
	})
}

// printEvaluation prints a table that docs/semantic-cache.md contains.
func (p *program) printEvaluation(r evaluation.Report) {
	fmt.Fprintf(p.out, "embedder %s, threshold %v\n\n", r.Embedder, r.Threshold)
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "pairs\thits\tmissed\tfalse hits\tapart\tprecision\trecall\t\n")
	for _, row := range []struct {
		name  string
		count evaluation.Count
	}{{"tuned", r.Tuned}, {"held out", r.HeldOut}, {"all", r.All()}, {"vectors only", r.WithoutFacts}} {
		c := row.count
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%.3f\t%.3f\t\n", row.name, c.Hits, c.Misses, c.FalseHits, c.TrueMisses, c.Precision(), c.Recall())
	}
	w.Flush()
	for _, pair := range r.FalseHits {
		fmt.Fprintf(p.out, "\nfalse hit (%s, %s)\n  %s\n  %s\n", pair.Domain, pair.Kind, pair.First, pair.Second)
	}
}

// endpoint is an embeddings endpoint in OpenAI's format.
type endpoint struct {
	url, model string
	key        secret.String
}

// Name implements [semantic.Embedder].
func (e *endpoint) Name() string { return e.model }

// maxVector is the limit in bytes of a response with one vector.
const maxVector = 4 << 20

// Embed implements [semantic.Embedder].
func (e *endpoint) Embed(ctx context.Context, text string) ([]float32, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	body, err := json.Marshal(map[string]string{"model": e.model, "input": text})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if key := e.key.Reveal(); key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxVector))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d: %.200s", res.StatusCode, strings.TrimSpace(string(data)))
	}
	var out struct {
		Data []struct {
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("reading the vector: %w", err)
	}
	if len(out.Data) != 1 {
		return nil, fmt.Errorf("the response has %s, and must have one", counted(len(out.Data), "vector"))
	}
	return out.Data[0].Embedding, nil
}
