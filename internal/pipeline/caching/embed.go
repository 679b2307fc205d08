package caching

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/cache/semantic"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/pipeline/exchange"
)

const (
	// EmbedTimeout is the limit of the time that a request waits for the vector
	// of its last turn.
	EmbedTimeout = 5 * time.Second
	// maxDimensions is the limit of the numbers of a vector.
	maxDimensions = 16_384
)

// embedder returns the embedder of the leaf for a request: the built-in one, or
// a call of the provider that the config names.
func (h *cacheHandler) embedder(r *exchange.Request, t *exchange.Trail) semantic.Embedder {
	if h.options.Embedding == nil {
		return semantic.Lexical{}
	}
	return &embeddingCall{handler: h, request: r, trail: t}
}

// embeddingCall embeds the last turn of a request by an attempt at a provider,
// which is recorded, paid and limited like the other attempts of the request.
type embeddingCall struct {
	handler *cacheHandler
	request *exchange.Request
	trail   *exchange.Trail
}

// Name implements [semantic.Embedder].
func (c *embeddingCall) Name() string {
	e := c.handler.options.Embedding
	return e.Provider + "/" + e.Model
}

// Embed implements [semantic.Embedder].
func (c *embeddingCall) Embed(ctx context.Context, text string) ([]float32, error) {
	h, r := c.handler, c.request
	if h.cache.EmbeddingClient == nil || h.embedding >= len(r.Embedders) {
		return nil, errors.New("no embedder is configured")
	}
	leaf := &r.Embedders[h.embedding]
	if leaf.Err != nil {
		return nil, errors.New(apierr.From(leaf.Err).Message)
	}
	body := jsonedit.AppendString([]byte(`{"model":`), h.options.Embedding.Model)
	body = append(jsonedit.AppendString(append(body, `,"input":`...), text), '}')
	buf, err := h.bounds.Pool.ReadShare(bytes.NewReader(body), int64(len(body)), int64(len(body)), r.Memory)
	if err != nil {
		return nil, err
	}
	defer buf.Release()
	ask := r.Derive(h.cache.EmbeddingClient, api.Embeddings, "/embeddings", h.options.Embedding.Model)
	ask.AttemptDeadline = r.AttemptDeadline
	if r.Limiting.Facts != nil { // the config and the prompt of the request pay for it
		ask.Limiting.Facts.Config, ask.Limiting.Facts.Prompt = r.Limiting.Facts.Config, r.Limiting.Facts.Prompt
	}
	if err := ask.Received.SetBody(buf, new(jsonedit.Doc)); err != nil {
		return nil, err
	}
	ask.Leaves = []exchange.Leaf{*leaf}
	t := c.trail.Child()
	defer c.trail.Join(t)
	ctx, cancel := context.WithTimeout(ctx, EmbedTimeout)
	defer cancel()
	res, err := h.embed.Handle(ctx, &ask, t)
	if err != nil {
		return nil, errors.New(apierr.From(err).Message)
	}
	defer res.Close()
	if res.Status != http.StatusOK || res.Bytes == nil {
		return nil, fmt.Errorf("%s responded with status %d", leaf.Target.Label(), res.Status)
	}
	return readVector(res.Bytes)
}

// readVector returns the vector of an embeddings response in the chat dialect.
func readVector(body []byte) ([]float32, error) {
	var out struct {
		Data []struct {
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return nil, errors.New("the response is not an embedding")
	}
	if len(out.Data) != 1 || len(out.Data[0].Embedding) == 0 || len(out.Data[0].Embedding) > maxDimensions {
		return nil, errors.New("the response does not have one vector of at most 16,384 numbers")
	}
	return out.Data[0].Embedding, nil
}
