package server

import (
	"modelgate/internal/dialect/chat"
	"modelgate/internal/pipeline"
	"modelgate/internal/respcache"
	"modelgate/internal/semantic"
	"modelgate/internal/settings"
)

// openCache opens the store of cached responses for the engine.
func (s *Server) openCache(set *settings.Settings) {
	c := &set.Cache
	if c.Store == settings.CacheOff {
		return
	}
	s.engine.Cache = &pipeline.ResponseCache{Store: respcache.NewMemory(c.Memory.Or(0)), MaxResponse: int(c.MaxResponse.Or(0)), Now: s.Time,
		Index: semantic.NewIndex(c.Vectors.Or(0)), EmbeddingClient: chat.Dialect{}}
}

// cachedResponses returns the store of cached responses, nil without one.
func (s *Server) cachedResponses() respcache.Store {
	if s.engine.Cache == nil {
		return nil
	}
	return s.engine.Cache.Store
}
