package server

import (
	"context"
	"errors"
	"fmt"
	"modelgate/internal/pipeline/caching"
	"path/filepath"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"modelgate/internal/base/secret"
	"modelgate/internal/cache/filecache"
	"modelgate/internal/cache/rediscache"
	"modelgate/internal/cache/respcache"
	"modelgate/internal/cache/semantic"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/secrets/datakey"
	"modelgate/internal/settings"
)

const (
	// defaultCacheSize is the default of cache.size in bytes, and defaultCachedResponse
	// that of cache.max_response.
	defaultCacheSize      = 1 << 30
	defaultCachedResponse = 4 << 20
	// cacheName is the file of the store sqlite in the data folder.
	cacheName = "cache.db"
)

// openCache opens the store of cached responses.
func (s *Server) openCache(ctx context.Context, set *settings.Settings) error {
	c := &set.Cache
	if c.Store == settings.CacheOff {
		return nil
	}
	cache := &caching.Cache{MaxResponse: int(c.MaxResponse.Or(defaultCachedResponse)), Now: s.Time,
		Index: semantic.NewIndex(c.Vectors.Or(0)), EmbeddingClient: chat.Dialect{}}
	if !c.Shared() {
		cache.Store = respcache.NewMemory(c.Memory.Or(0))
		s.cache = cache
		return nil
	}
	if s.box == nil {
		return fmt.Errorf("cache: the store %s needs a master key, because entries are sealed with data keys; set MODELGATE_MASTER_KEY, --master-key-file or --master-key-command", c.Store)
	}
	backend, err := s.openCacheBackend(ctx, c)
	if err != nil {
		return fmt.Errorf("cache: store %s: %w", c.Store, err)
	}
	s.cacheKeys = &cacheKeys{ring: s.ring}
	s.sharedCache = respcache.NewShared(respcache.SharedOptions{Backend: backend, Keys: s.cacheKeys, MaxResponse: cache.MaxResponse,
		Deadline: c.Deadline.Or(0), Now: s.Time, Logger: s.Logger})
	cache.Store, s.cache = s.sharedCache, cache
	return nil
}

// openCacheBackend opens the file, or the connection to Redis.
func (s *Server) openCacheBackend(ctx context.Context, c *settings.Cache) (respcache.Backend, error) {
	size := c.Size.Or(defaultCacheSize)
	if c.Store == settings.CacheInRedis {
		return rediscache.Open(ctx, rediscache.Options{URL: c.Address(), Size: size, Logger: s.Logger})
	}
	return filecache.Open(ctx, filecache.Options{Path: filepath.Join(s.Data, cacheName), Size: size, Logger: s.Logger})
}

// closeCache writes what is still to be stored.
func (s *Server) closeCache() error {
	if s.sharedCache == nil {
		return nil
	}
	return s.sharedCache.Close()
}

// cacheInvalidations returns those of cached responses, nil if none are cached.
func (s *Server) cacheInvalidations() *respcache.Invalidations {
	if s.cache == nil {
		return nil
	}
	return &s.cache.Invalidations
}

// publishCache makes the invalidations and data keys of a state current.
func (s *Server) publishCache(stored []respcache.Mark, dataKeys map[string]string) {
	if c := s.cache; c != nil {
		c.Invalidations.Replace(stored)
	}
	if s.cacheKeys != nil {
		s.cacheKeys.publish(dataKeys)
	}
}

// cacheKeys are the data keys of the current snapshot.
type cacheKeys struct {
	ring *datakey.Keyring
	keys atomic.Pointer[map[string]*secret.DataKey] // by organisation
}

func (k *cacheKeys) publish(wrapped map[string]string) {
	keys := make(map[string]*secret.DataKey, len(wrapped))
	for organisation, text := range wrapped {
		if key, err := k.ring.Opened(organisation, text); err == nil { // otherwise nothing of it is cached
			keys[organisation] = key
		}
	}
	k.keys.Store(&keys)
}

// Current implements [respcache.Keys].
func (k *cacheKeys) Current(organisation string) *secret.DataKey {
	if keys := k.keys.Load(); keys != nil {
		return (*keys)[organisation]
	}
	return nil
}

// Create implements [respcache.Keys].
func (k *cacheKeys) Create(ctx context.Context, organisation string) (*secret.DataKey, error) {
	if organisation == "" {
		return nil, errors.New("the request has no organisation")
	}
	return k.ring.Create(ctx, organisation)
}

// cacheMetrics returns the metrics of a cache store, nil for the store memory.
func cacheMetrics(c *respcache.Shared) []prometheus.Collector {
	if c == nil {
		return nil
	}
	stat := func(read func(respcache.SharedStats) int64) func() float64 {
		return func() float64 { return float64(read(c.Stats())) }
	}
	return []prometheus.Collector{
		gaugeFunc("modelgate_cache_store_up", "0 while the cache store is not called because it failed, else 1.", func() float64 {
			s := c.Stats()
			return one(!s.Reads.Open && !s.Writes.Open)
		}),
		counterFunc("modelgate_cache_store_reads_total", "Reads of the cache store.",
			stat(func(s respcache.SharedStats) int64 { return s.Reads.Calls })),
		counterFunc("modelgate_cache_store_failures_total", "Reads and writes of the cache store that failed or exceeded their deadline.",
			stat(func(s respcache.SharedStats) int64 { return s.Reads.Failed + s.Writes.Failed })),
		counterFunc("modelgate_cache_store_skips_total", "Reads and writes of the cache store skipped because earlier ones failed.",
			stat(func(s respcache.SharedStats) int64 { return s.Reads.Skipped + s.Writes.Skipped })),
		counterFunc("modelgate_cache_entries_rejected_total", "Entries of the cache store rejected because they were not authentic.",
			stat(func(s respcache.SharedStats) int64 { return s.Rejected })),
		counterFunc("modelgate_cache_entries_dropped_total", "Responses that were not written to the cache store.",
			stat(func(s respcache.SharedStats) int64 { return s.Dropped })),
	}
}
