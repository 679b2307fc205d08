package exchange

// CacheStatus says how the cache took part in a request. It is a value of
// x-gateway-cache-status.
type CacheStatus string

// Statuses. An empty status means that nothing was looked up: DISABLED.
const (
	CacheHit     CacheStatus = "HIT"
	CacheMiss    CacheStatus = "MISS"
	CacheRefresh CacheStatus = "REFRESH"

	CacheSemanticHit  CacheStatus = "SEMANTIC HIT"
	CacheSemanticMiss CacheStatus = "SEMANTIC MISS"
)

// CacheOptions are the options of one request for the cache.
type CacheOptions struct {
	Namespace string // replaces the metadata as the partition; empty means none
	Refresh   bool   // the provider is called, and the stored response replaced
	Effect    bool   // the request has an effect each time, so that no response is shared
	Config    string // id of the saved config, for invalidation; empty for none
}
