// Package rediscache stores cached responses in Redis, for several gateways.
//
// It guarantees that all entries together take at most a number of bytes; the oldest
// make room. All keys have the same hash tag: in a Redis cluster one shard has the
// cache. Sealing, deadlines and outages are the job of [respcache.Shared].
package rediscache

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"modelgate/internal/base/secret"
	"modelgate/internal/cache/respcache"
	"modelgate/internal/storage/kv"
)

// prefix begins all keys; see the package on its braces.
const prefix = "{modelgate}:cache:"

// Keys of what the script needs to know: names by the time of their writing, sizes by
// name, and the sum of the sizes.
const (
	orderKey = prefix + "order"
	sizesKey = prefix + "sizes"
	totalKey = prefix + "total"
	entryKey = prefix + "entry:"
)

// overhead is about what Redis needs for an entry next to its value, in bytes.
const overhead = 500

// put stores an entry and removes the oldest ones until the sum is within the limit.
// Entries that Redis has expired count until they are the oldest.
var put = rueidis.NewLuaScript(`
local name, value = ARGV[1], ARGV[2]
local size = #value + tonumber(ARGV[5])
local total = redis.call('INCRBY', KEYS[3], size - tonumber(redis.call('HGET', KEYS[2], name) or 0))
redis.call('HSET', KEYS[2], name, size)
redis.call('ZADD', KEYS[1], ARGV[6], name)
redis.call('SET', KEYS[4], value, 'PX', ARGV[3])
for i = 1, 1000 do
  if total <= tonumber(ARGV[4]) then break end
  local oldest = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
  if not oldest then
    redis.call('DEL', KEYS[2], KEYS[3])
    break
  end
  total = redis.call('DECRBY', KEYS[3], tonumber(redis.call('HGET', KEYS[2], oldest) or 0))
  redis.call('ZREM', KEYS[1], oldest)
  redis.call('HDEL', KEYS[2], oldest)
  redis.call('DEL', ARGV[7] .. oldest)
end
return total`)

// Options configure a backend.
type Options struct {
	URL    secret.String // redis://, rediss:// or unix://
	Size   int64         // limit in bytes of all entries
	Logger *slog.Logger  // nil is silent
}

// Backend is a [respcache.Backend] in Redis.
type Backend struct {
	conn *kv.Conn
	size int64
}

var _ respcache.Backend = (*Backend)(nil)

// Open returns a backend. If Redis cannot be reached it is connected later; if it
// rejects the connection, Open returns an error, without the address. The caller must
// call Close.
func Open(ctx context.Context, o Options) (*Backend, error) {
	conn, err := kv.New(kv.Options{URL: o.URL, Setting: "cache.url", Logger: o.Logger, Effect: "requests call their providers", Check: check})
	if err != nil {
		return nil, err
	}
	if err := conn.Connect(ctx); err != nil {
		return nil, err
	}
	return &Backend{conn, o.Size}, nil
}

// check checks that commands may be sent.
func check(ctx context.Context, client rueidis.Client) error {
	return client.Do(ctx, client.B().Strlen().Key(totalKey).Build()).Error()
}

// Read implements [respcache.Backend].
func (b *Backend) Read(ctx context.Context, name string, most int) ([]byte, error) {
	c, err := b.conn.Client()
	if err != nil {
		return nil, err
	}
	// Not GET: somebody else may have written a value of any length.
	v, err := c.Do(ctx, c.B().Getrange().Key(entryKey+name).Start(0).End(int64(most)).Build()).AsBytes()
	if err != nil || len(v) == 0 || len(v) > most {
		return nil, err
	}
	return v, nil
}

// Write implements [respcache.Backend].
func (b *Backend) Write(ctx context.Context, records []respcache.Record) error {
	c, err := b.conn.Client()
	if err != nil {
		return err
	}
	now := number(time.Now().UnixMicro())
	list := make([]rueidis.LuaExec, 0, len(records))
	for _, r := range records {
		if int64(len(r.Value)+overhead) > b.size {
			continue
		}
		list = append(list, rueidis.LuaExec{
			Keys: []string{orderKey, sizesKey, totalKey, entryKey + r.Name},
			Args: []string{r.Name, rueidis.BinaryString(r.Value), number(max(r.TTL.Milliseconds(), 1)), number(b.size), number(overhead), now,
				entryKey},
		})
	}
	var errs []error
	for _, res := range put.ExecMulti(ctx, c, list...) {
		errs = append(errs, res.Error())
	}
	return errors.Join(errs...)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// Close implements [respcache.Backend].
func (b *Backend) Close() error {
	b.conn.Close()
	return nil
}
