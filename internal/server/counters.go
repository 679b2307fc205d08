package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/limits/pgquota"
	"modelgate/internal/limits/quota"
	"modelgate/internal/limits/redisquota"
	"modelgate/internal/settings"
	"modelgate/internal/storage/breaker"
	"modelgate/internal/storage/postgres"
)

// limitCounters are the counters of rate limits and budgets. All fields but holds are nil
// if they are in memory.
type limitCounters struct {
	node    *node
	guard   *quota.Guard
	breaker *quota.Breaker
	leased  *quota.Leased // nil unless slices are leased
	remote  remoteCounters
	holds   *quota.Holds // what requests use; nil if limits are disabled
}

// remoteCounters are counters that several gateways share.
type remoteCounters interface {
	quota.Store
	Lost() int64
	// Emptied receives a value when the counters were lost, and MarkFilled says that they
	// again have what the ledger has counted.
	Emptied() <-chan struct{}
	MarkFilled(context.Context) error
	Close()
}

// openCounters opens the counters of limits for the engine, unless limits are
// disabled.
func (s *Server) openCounters(ctx context.Context, set *settings.Settings) (err error) {
	s.counters = new(limitCounters)
	if s.Off[route.UsageLimits] {
		return nil
	}
	c := &set.Limits.Counters
	address := c.Address()
	if address.Empty() && postgres.IsAddress(s.Database.Reveal()) {
		address = s.Database
	}
	kind := c.Store
	if kind == "" {
		kind = settings.CountersInMemory
		if postgres.IsAddress(address.Reveal()) {
			kind = settings.CountersLeased
		}
	}
	s.Logger.Info("limit counters", "store", kind)
	if kind == settings.CountersInMemory {
		s.useCounters(new(quota.Memory), 0)
		return nil
	}
	node, err := openNode(s.Data, bootID(), s.Logger)
	if err != nil {
		return err
	}
	process := quota.NewProcess(node.name)
	var remote remoteCounters
	switch kind {
	case settings.CountersInRedis:
		remote, err = redisquota.Open(ctx, redisquota.Options{URL: address, Process: process, Logger: s.Logger})
	default:
		if address.Empty() {
			err = errors.New("the control plane's database is not PostgreSQL; set limits.counters.url or DATABASE_URL")
			break
		}
		remote, err = pgquota.Open(ctx, pgquota.Options{URL: address, Postgres: s.DatabaseOptions.Postgres(), Process: process, Logger: s.Logger})
	}
	if err != nil {
		node.close()
		return fmt.Errorf("limits.counters: store %s: %w", kind, err)
	}
	s.counters = newLimitCounters(kind, remote,
		&quota.Breaker{Store: remote, Deadline: c.Deadline.Or(quota.DefaultDeadline), Logger: s.Logger})
	s.counters.node = node
	s.counters.guard.Default = quota.ParseWhenDown(c.OnStoreDown)
	s.useCounters(s.counters.guard, holdsInterval)
	return nil
}

// holdsInterval is how often a node reads what batches have reserved of budgets.
const holdsInterval = time.Second

// useCounters makes requests use counters, without what batches have reserved. Others are
// the interval at which other nodes with the same counters read that; zero if there are none.
func (s *Server) useCounters(counters quota.Store, others time.Duration) {
	s.counters.holds = &quota.Holds{Store: counters, Load: s.store.BudgetHolds, Interval: others}
	s.engine.Quota = s.counters.holds
}

// readHolds reads what batches have reserved of budgets at intervals, until ctx ends.
func (s *Server) readHolds(ctx context.Context) {
	if s.counters.holds == nil {
		return
	}
	tick := time.NewTicker(holdsInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.reloadHolds(ctx)
		}
	}
}

// reloadHolds reads what batches have reserved of budgets. While the database is away, what
// was read before remains.
func (s *Server) reloadHolds(ctx context.Context) {
	if s.counters.holds == nil || !s.store.Ready() {
		return
	}
	if err := s.counters.holds.Reload(ctx); err != nil && ctx.Err() == nil {
		s.Logger.Debug("what batches have reserved of budgets was not read", "err", err.Error())
	}
}

// newLimitCounters returns counters that use remote through a breaker.
func newLimitCounters(kind string, remote remoteCounters, breaker *quota.Breaker) *limitCounters {
	c := &limitCounters{remote: remote, breaker: breaker, guard: &quota.Guard{Store: breaker}}
	if kind == settings.CountersLeased {
		c.leased = &quota.Leased{Store: breaker}
		c.leased.Start()
		c.guard.Store = c.leased
	}
	return c
}

// close returns leased slices and sends the remaining settlements.
func (c *limitCounters) close() {
	if c == nil || c.remote == nil {
		return
	}
	if c.leased != nil {
		c.leased.Close()
	}
	c.remote.Close()
	c.node.close()
}

// emptied receives a value when the shared counters were lost. Nil for none.
func (c *limitCounters) emptied() <-chan struct{} {
	if c.remote == nil {
		return nil
	}
	return c.remote.Emptied()
}

// unavailable reports whether the shared counters are not called because they
// failed.
func (c *limitCounters) unavailable() bool { return c.breaker != nil && c.breaker.Stats().Open }

// counterMetrics returns the metrics of the counters of limits.
func counterMetrics(c *limitCounters) []prometheus.Collector {
	stat := func(read func(breaker.Stats) int64) func() float64 {
		return func() float64 {
			if c.breaker == nil {
				return 0
			}
			return float64(read(c.breaker.Stats()))
		}
	}
	return []prometheus.Collector{
		gaugeFunc("modelgate_limit_counters_up", "0 while the shared counters of limits are not called because they failed, else 1.",
			func() float64 { return one(!c.unavailable()) }),
		counterFunc("modelgate_limit_store_calls_total", "Calls of the shared counters of limits.",
			stat(func(s breaker.Stats) int64 { return s.Calls })),
		counterFunc("modelgate_limit_store_failures_total", "Calls of the shared counters of limits that failed or exceeded their deadline.",
			stat(func(s breaker.Stats) int64 { return s.Failed })),
		counterFunc("modelgate_limit_store_skips_total", "Calls of the shared counters of limits skipped because earlier ones failed.",
			stat(func(s breaker.Stats) int64 { return s.Skipped })),
		counterFunc("modelgate_limit_decisions_alone_total", "Reservations decided by on_store_down.", func() float64 {
			if c.guard == nil {
				return 0
			}
			return float64(c.guard.DecidedAlone())
		}),
		counterFunc("modelgate_limit_settlements_lost_total", "Settlements that may not have reached the shared counters of limits.",
			func() float64 {
				if c.remote == nil {
					return 0
				}
				return float64(c.remote.Lost())
			}),
		counterFunc("modelgate_limit_slices_leased_total", "Calls that leased a slice of a limit.", func() float64 {
			if c.leased == nil {
				return 0
			}
			return float64(c.leased.Refills())
		}),
	}
}
