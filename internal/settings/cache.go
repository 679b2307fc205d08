package settings

import (
	"errors"
	"time"

	"modelgate/internal/base/secret"
)

// Stores of cached responses.
const (
	CacheInMemory = "memory"
	CacheInFile   = "sqlite"
	CacheInRedis  = "redis"
	CacheOff      = "off"
)

// Cache configures where responses are cached. The default is memory.
type Cache struct {
	Store string `json:"store,omitempty" enum:",memory,sqlite,redis,off" doc:"Defaults to memory. sqlite is a file in the data folder. sqlite and redis need a master key: entries are sealed"`
	// Memory is the memory of cached responses, and MaxResponse the size up to which
	// a response is stored.
	Memory      Size `json:"memory,omitempty"`
	MaxResponse Size `json:"max_response,omitempty"`
	// Vectors is the memory of the semantic cache's vectors.
	Vectors Size `json:"vectors,omitempty"`

	URL string `json:"url,omitempty" doc:"Address of Redis: ${NAME} for an environment variable, or a sealed value"`
	// Size is the limit of all entries of the stores sqlite and redis.
	Size     Size     `json:"size,omitempty"`
	Deadline Duration `json:"deadline,omitempty"` // of a read of these stores; default 50ms

	address secret.String
}

// Address returns the opened address, empty if none is set.
func (c *Cache) Address() secret.String { return c.address }

// Shared reports whether others than this process can read the store.
func (c *Cache) Shared() bool { return c.Store == CacheInFile || c.Store == CacheInRedis }

func (c *Cache) check(o SecretResolver) (f *fault) {
	var err error
	if c.address, err = o.Open(c.URL); err != nil {
		return at(err, "cache.url")
	}
	switch c.Store {
	case "", CacheInMemory, CacheInFile, CacheInRedis, CacheOff:
	default:
		return at(errors.New("must be memory, sqlite, redis or off"), "cache.store")
	}
	switch {
	case c.MaxResponse < 0 || c.MaxResponse > 64<<20:
		return at(errors.New("must be at most 64MB"), "cache.max_response")
	case c.Store == CacheInRedis && c.URL == "":
		return at(errors.New("is required; set the address of Redis, such as ${REDIS_URL}"), "cache.url")
	case c.Store == CacheInRedis && !isRedisAddress(c.address.Reveal()):
		return at(errors.New("must be a redis://, rediss:// or unix:// address"), "cache.url")
	case c.Store != CacheInRedis && c.URL != "":
		return at(errors.New("is only for the store redis"), "cache.url")
	case !c.Shared() && c.Size != 0:
		return at(errors.New("is only for the stores sqlite and redis; the store memory has cache.memory"), "cache.size")
	case !c.Shared() && c.Deadline != 0:
		return at(errors.New("is only for the stores sqlite and redis"), "cache.deadline")
	case c.Shared() && c.Memory != 0:
		return at(errors.New("is only for the store memory; the stores sqlite and redis have cache.size"), "cache.memory")
	case c.Size != 0 && c.Size < 1<<20:
		return at(errors.New("must be at least 1MB"), "cache.size")
	}
	if d := time.Duration(c.Deadline); d != 0 && (d < time.Millisecond || d > 10*time.Second) {
		return at(errors.New("must be 1ms to 10s"), "cache.deadline")
	}
	return nil
}
