package exchange

import (
	"fmt"
	"slices"
	"sync"

	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/records/reqlog"
)

// promptCacheUse is what the provider's prompt cache did for a request, in all
// of its attempts. It is safe for concurrent use.
type promptCacheUse struct {
	Mu            sync.Mutex
	Path          string // of the node that helped; empty if none did
	prefix        int64  // estimated tokens of the prefix that the cache may hold
	Reads, Writes int64  // tokens
	Saved         catalog.NanoDollars
	Unpriced      bool // the saving of an attempt is unknown
}

// Expect notes that the node at path helps the provider's cache with a prefix of
// an estimated number of tokens. Of several prefixes the longest counts.
func (u *promptCacheUse) Expect(path string, prefix int64) {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	u.Path, u.prefix = path, max(u.prefix, prefix)
}

// Plan returns what the cache may save of a request with this estimated input at a
// price, which is nil if it is unknown. It returns nil if no node helps the cache with
// this request.
func (u *promptCacheUse) Plan(price *catalog.Price, input int64) *PromptCachePlan {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	if u.prefix == 0 {
		return nil
	}
	out := &PromptCachePlan{Path: u.Path, Tokens: u.prefix}
	rest := max(0, input-u.prefix) // which may make the request a long one
	read, written := llm.Usage{Input: rest, CachedInput: u.prefix}, llm.Usage{Input: rest, CacheWrite5m: u.prefix}
	if price != nil && price.Covers(read) {
		saved, more := price.CacheSaving(read, catalog.Standard), -price.CacheSaving(written, catalog.Standard)
		out.Read, out.Written = &saved, &more
	}
	return out
}

// saving returns what the cache saved, as far as that is known.
func (u *promptCacheUse) saving() catalog.NanoDollars {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	return u.Saved
}

// decide appends what the cache did to the decisions of a request.
func (u *promptCacheUse) decide(list []reqlog.Decision) []reqlog.Decision {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	if u.Path == "" {
		return list
	}
	text := fmt.Sprintf("the provider's prompt cache: %d tokens read, %d written", u.Reads, u.Writes)
	switch {
	case u.Unpriced:
		text += ", saving unknown"
	case u.Saved < 0:
		text += fmt.Sprintf(", %.6f dollars more than without", -float64(u.Saved)/1e9)
	default:
		text += fmt.Sprintf(", %.6f dollars saved", float64(u.Saved)/1e9)
	}
	return append(slices.Clip(list), reqlog.Decision{Path: u.Path, Text: text})
}

// MinCachedPrefix is the length in bytes from which a prefix may be in a provider's
// prompt cache: about 1,024 tokens, the least that they cache.
// https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching
const MinCachedPrefix = 4 << 10
