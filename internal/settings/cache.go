package settings

import "errors"

// Stores of cached responses.
const (
	CacheInMemory = "memory"
	CacheOff      = "off"
)

// Cache configures where responses are cached. The default is memory.
type Cache struct {
	Store string `json:"store,omitempty" enum:",memory,off" doc:"Defaults to memory"`
	// Memory is the memory of cached responses, and MaxResponse the size up to which
	// a response is stored.
	Memory      Size `json:"memory,omitempty"`
	MaxResponse Size `json:"max_response,omitempty"`
	// Vectors is the memory of the semantic cache's vectors.
	Vectors Size `json:"vectors,omitempty"`
}

func (c *Cache) check() (f *fault) {
	if c.MaxResponse < 0 || c.MaxResponse > 64<<20 {
		return at(errors.New("must be at most 64MB"), "cache.max_response")
	}
	return nil
}
