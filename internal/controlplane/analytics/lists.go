package analytics

import (
	"context"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/records/logstore"
)

// userKey is the metadata key with the user of a request.
const userKey = "_user"

type plainInput struct {
	Filters
	Paging
}

type metadataInput struct {
	Filters
	Paging
	Key string `path:"key" maxLength:"128"`
}

func (f Routes) users(ctx context.Context, c *route.Caller, in *plainInput) (*route.List[group], error) {
	return f.grouped(ctx, c, &in.Filters, &in.Paging, grouping{
		query: logstore.GroupQuery{ByMetadata: userKey}, name: "user", columns: []string{"cost"},
	})
}

func (f Routes) models(ctx context.Context, c *route.Caller, in *plainInput) (*route.List[group], error) {
	return f.grouped(ctx, c, &in.Filters, &in.Paging, grouping{query: logstore.GroupQuery{By: logstore.ByModel}, name: "ai_model"})
}

func (f Routes) metadata(ctx context.Context, c *route.Caller, in *metadataInput) (*route.List[group], error) {
	return f.grouped(ctx, c, &in.Filters, &in.Paging, grouping{
		query: logstore.GroupQuery{ByMetadata: in.Key, Feedback: true}, name: "metadata_value",
		columns: []string{"cost", "avg_tokens", "last_seen", "avg_weighted_feedback", "requests_with_feedback"},
	})
}

type summary struct {
	Object  string  `json:"object" doc:"Always analytics-summary"`
	Summary savings `json:"summary"`
}

type savings struct {
	Hits       int64    `json:"hits"`
	Latency    *float64 `json:"avg_latency" doc:"Of hits, in milliseconds"`
	Requests   int64    `json:"total_requests"`
	Speedup    *float64 `json:"cache_speedup" doc:"Average latency of misses divided by the average latency of hits"`
	Saved      float64  `json:"saved_cost" doc:"Original cost of the responses of hits, in US cents; not part of any cost"`
	SavedNano  int64    `json:"saved_cost_nano_usd" doc:"saved_cost in nano-dollars"`
	PromptNano int64    `json:"prompt_cache_saved_cost_nano_usd" doc:"prompt_cache_saved_cost in nano-dollars"`
	Prompt     float64  `json:"prompt_cache_saved_cost" doc:"US cents saved by prompt caches of providers; negative if writing cost more"`
}

// Cache statuses that are hits and misses. Requests that did not use the cache are
// neither.
var (
	hits   = []string{"HIT", "SEMANTIC HIT"}
	misses = []string{"MISS", "SEMANTIC MISS", "REFRESH"}
)

func (f Routes) cache(ctx context.Context, c *route.Caller, in *Filters) (*summary, error) {
	sums, err := f.sum(ctx, c, in, logstore.GroupQuery{By: logstore.ByCache})
	if err != nil {
		return nil, err
	}
	var hit, miss logstore.Totals
	out := &summary{Object: "analytics-summary"}
	for i := range sums {
		s := &sums[i]
		out.Summary.Requests += s.Requests
		out.Summary.Saved += float64(s.Saved.Response) / 1e7
		out.Summary.Prompt += float64(s.Saved.Prompt) / 1e7
		out.Summary.SavedNano += int64(s.Saved.Response)
		out.Summary.PromptNano += int64(s.Saved.Prompt)
		switch s.Value {
		case hits[0], hits[1]:
			hit.Merge(&s.Totals)
		case misses[0], misses[1], misses[2]:
			miss.Merge(&s.Totals)
		}
	}
	out.Summary.Hits = hit.Requests
	if hit.Requests > 0 {
		ms := milliseconds(hit.AverageLatency())
		out.Summary.Latency = &ms
		if miss.Requests > 0 && ms > 0 {
			speedup := milliseconds(miss.AverageLatency()) / ms
			out.Summary.Speedup = &speedup
		}
	}
	return out, nil
}
