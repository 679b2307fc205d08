// Package redisquota keeps counters of limits in Redis, for several gateways.
//
// A [Store] decides about all limits of a request in one call of a script, all or
// none, and sends settlements in the background. It guarantees that no limit is
// exceeded by reservations of any number of gateways, and that Redis forgets what
// is no longer needed. All keys have the same hash tag: in a Redis cluster one
// shard has all counters. It does not decide what happens while Redis fails (see
// [quota.Breaker] and [quota.Guard]).
package redisquota

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"modelgate/internal/base/secret"
	"modelgate/internal/limits/quota"
	"modelgate/internal/storage/kv"
)

// prefix begins all keys. Its braces put them in one slot of a cluster, because a
// script uses keys of one slot only.
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
const prefix = "{modelgate}:limit:"

// mark is a key that exists while Redis has what the ledger has counted of budgets. A
// Redis that lost its data has lost it too. No counter has an empty name.
const mark = prefix

// lastBatch begins the key with the number of the last batch of corrections of a process. No
// kind of limits has this name.
const lastBatch = prefix + "corrected/"

// Options configure a store.
type Options struct {
	URL     secret.String // redis://, rediss:// or unix://
	Process quota.Process
	Logger  *slog.Logger // nil is silent
}

// Store is a [quota.Store] in Redis.
type Store struct {
	*quota.Remote
	logger  *slog.Logger
	process quota.Process
	conn    *kv.Conn
}

// Open returns a store. If Redis cannot be reached it is connected later; if it
// rejects the connection or cannot run scripts, Open returns an error. Errors do
// not contain the address. The caller must call Close.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{logger: o.Logger, process: o.Process}
	s.Remote = quota.NewRemote(quota.Calls{Reserve: s.reserve, Settle: s.send, Correct: s.sendCorrections}, o.Logger)
	var err error
	s.conn, err = kv.New(kv.Options{URL: o.URL, Setting: "limits.counters.url", Logger: o.Logger, Effect: "each limit's on_store_down applies",
		Check: s.check, Permanent: isOldRedis})
	if err != nil {
		return nil, err
	}
	if err := s.conn.Connect(ctx); err != nil {
		return nil, err
	}
	s.Start()
	return s, nil
}

var errOldRedis = errors.New("scripts cannot be run; use Redis 5 or later, or Valkey")

func isOldRedis(err error) bool { return errors.Is(err, errOldRedis) }

// check checks that scripts can be run.
func (s *Store) check(ctx context.Context, client rueidis.Client) error {
	if err := s.Probe(ctx); err != nil {
		return err
	}
	s.checkEviction(ctx, client)
	return nil
}

// checkEviction warns of a Redis that removes counters when its memory is full.
func (s *Store) checkEviction(ctx context.Context, client rueidis.Client) {
	info, err := client.Do(ctx, client.B().Info().Section("memory").Build()).ToString()
	if err != nil { // not allowed
		return
	}
	if strings.Contains(info, "maxmemory:0\r\n") || strings.Contains(info, "maxmemory_policy:noeviction") {
		return
	}
	s.logger.Warn("Redis may evict limit counters when its memory is full, which admits requests again; set maxmemory-policy to noeviction")
}

// Close sends the remaining settlements and disconnects.
func (s *Store) Close() {
	s.conn.Stop()
	s.Stop()
	s.conn.Close()
}

// MarkFilled records that Redis has what the ledger has counted of all budgets.
func (s *Store) MarkFilled(ctx context.Context) error {
	c, err := s.conn.Client()
	if err != nil {
		return err
	}
	if err := c.Do(ctx, c.B().Set().Key(mark).Value("1").Build()).Error(); err != nil {
		return err
	}
	s.NoteFilled()
	return nil
}

func (s *Store) exec(ctx context.Context, script *rueidis.Lua, keys, args []string) rueidis.RedisResult {
	c, err := s.conn.Client()
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	return script.Exec(ctx, c, keys, args)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// reserve runs the script. A claim of nothing changes nothing.
func (s *Store) reserve(ctx context.Context, latest int64, now time.Time, claims []quota.Claim) (quota.Verdict, error) {
	keys := make([]string, len(claims), len(claims)+1)
	args := make([]string, 2, 2+8*len(claims))
	args[0], args[1] = number(latest), number(quota.GenerationAt(now))
	for i, c := range claims {
		keys[i] = prefix + c.Limit.Counter
		for _, n := range c.Numbers(now) {
			args = append(args, number(n))
		}
	}
	sent := time.Now()
	list, err := s.exec(ctx, reserve, append(keys, mark), args).AsIntSlice()
	if err != nil {
		return quota.Verdict{}, err
	}
	return s.parse(list, sent, claims)
}

// errLate is the error of a reservation that Redis got to after its deadline, and
// did not make.
var errLate = errors.New("redis was too slow")

// parse reads a reply to a call that was sent at a time.
func (s *Store) parse(list []int64, sent time.Time, claims []quota.Claim) (quota.Verdict, error) {
	if len(list) >= 2 {
		s.Clock.Observe(sent, time.Now(), time.Unix(list[0], list[1]*1000))
	}
	if len(list) == 2 {
		return quota.Verdict{}, errLate
	}
	if len(list) != 4+quota.StateNumbers*len(claims) {
		return quota.Verdict{}, errOldRedis
	}
	if list[3] == 0 {
		s.NoteEmptied()
	}
	return quota.ParseVerdict(list[2], list[4:], claims), nil
}

// send sends a batch of settlements.
func (s *Store) send(ctx context.Context, batch []quota.Settlement) error {
	keys := make([]string, len(batch))
	args := make([]string, 1, 1+8*len(batch))
	args[0] = s.process.String()
	for i, k := range batch {
		budget := "0"
		if k.Budget {
			budget = "1"
		}
		keys[i] = prefix + k.Counter
		args = append(args, budget, number(k.Window), number(k.Lease), number(k.Generation), number(k.Held), number(k.Used), number(k.Counted),
			number(k.Lifetime.Milliseconds()))
	}
	return s.exec(ctx, settle, keys, args).Error()
}

// sendCorrections sends a batch of corrections.
func (s *Store) sendCorrections(ctx context.Context, batch int64, list []quota.Correction) error {
	keys := make([]string, len(list), len(list)+1)
	args := make([]string, 5, 5+3*len(list))
	args[0], args[1], args[2] = number(quota.BudgetLifetime.Milliseconds()), s.process.String(), s.process.Prefix()
	args[3], args[4] = number(batch), number(quota.BatchLifetime.Milliseconds())
	for i, k := range list {
		keys[i] = prefix + k.Counter
		earlier := "0"
		if k.Earlier {
			earlier = "1"
		}
		args = append(args, number(k.Total), number(k.Settled), earlier)
	}
	return s.exec(ctx, correct, append(keys, lastBatch+s.process.String()), args).Error()
}
