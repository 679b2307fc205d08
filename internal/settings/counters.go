package settings

import (
	"errors"
	"net/url"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/storage/postgres"
)

// Stores of the counters of rate limits and budgets.
const (
	CountersInMemory   = "memory"
	CountersInRedis    = "redis"
	CountersInPostgres = "postgres"
	CountersLeased     = "leased"
)

// Counters configures where rate limits and budgets are counted. The default is
// leased if the control plane's database is PostgreSQL, otherwise memory.
type Counters struct {
	Store string `json:"store,omitempty" enum:",memory,redis,postgres,leased" doc:"Defaults to leased if the control plane's database is PostgreSQL, otherwise memory"`
	// URL is empty for the control plane's database.
	URL      string   `json:"url,omitempty" doc:"Address of Redis or PostgreSQL: ${NAME} for an environment variable, or a sealed value"`
	Deadline Duration `json:"deadline,omitempty"` // of a call; default 50ms

	// OnStoreDown applies to the limits of keys, workspaces, providers, integrations and
	// users.
	OnStoreDown string `json:"on_store_down,omitempty" enum:",cached,open,closed" doc:"While the store fails, cached (default) lets each gateway count on its own, open admits requests, and closed rejects them"`

	address secret.String
}

// Address returns the opened address, empty if none is set.
func (c *Counters) Address() secret.String { return c.address }

func (c *Counters) check(o SecretResolver) (f *fault) {
	var err error
	if c.address, err = o.Open(c.URL); err != nil {
		return at(err, "limits.counters.url")
	}
	switch {
	case c.Store == CountersInRedis && c.URL == "":
		return at(errors.New("is required; set the address of Redis, such as ${REDIS_URL}"), "limits.counters.url")
	case c.Store == CountersInRedis && !isRedisAddress(c.address.Reveal()):
		return at(errors.New("must be a redis://, rediss:// or unix:// address"), "limits.counters.url")
	case (c.Store == CountersInPostgres || c.Store == CountersLeased) && c.URL != "" && !postgres.IsAddress(c.address.Reveal()):
		return at(errors.New("must be a postgres:// address; without one the control plane's database is used"), "limits.counters.url")
	case (c.Store == "" || c.Store == CountersInMemory) && c.URL != "":
		return at(errors.New("is only for the stores redis, postgres and leased"), "limits.counters.url")
	case c.Store == CountersInMemory && c.Deadline != 0:
		return at(errors.New("is only for the stores redis, postgres and leased"), "limits.counters.deadline")
	}
	switch c.OnStoreDown {
	case "", "cached", "open", "closed":
	default:
		return at(errors.New("must be cached, open or closed"), "limits.counters.on_store_down")
	}
	if c.Store == CountersInMemory && c.OnStoreDown != "" {
		return at(errors.New("is only for the stores redis, postgres and leased"), "limits.counters.on_store_down")
	}
	if d := time.Duration(c.Deadline); d != 0 && (d < time.Millisecond || d > 10*time.Second) {
		return at(errors.New("must be 1ms to 10s"), "limits.counters.deadline")
	}
	return nil
}

func isRedisAddress(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	switch u.Scheme {
	case "redis", "rediss":
		return u.Hostname() != ""
	case "unix":
		return u.Path != ""
	}
	return false
}
