package pgquota_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/limits/pgquota"
	"modelgate/internal/limits/quota"
	"modelgate/internal/testing/quotatest"
	"modelgate/internal/testing/storetest"
)

func open(t testing.TB, url string) *pgquota.Store {
	t.Helper()
	return openAs(t, url, "node")
}

// openAs opens the store of a new process of a node.
func openAs(t testing.TB, url, node string) *pgquota.Store {
	t.Helper()
	s, err := pgquota.Open(context.Background(), pgquota.Options{URL: secret.New(url), Process: quota.NewProcess(node)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func subject(t *testing.T, url string) quotatest.Subject {
	return quotatest.Subject{
		Open: func(node string) quota.Store { return openAs(t, url, node) }, Shared: true,
		Flush: func(s quota.Store) { s.(*pgquota.Store).Flush() },
		Lose:  func(s quota.Store, executed bool) { quotatest.LoseReply(s.(*pgquota.Store).Remote, executed) },
	}
}

func TestPostgreSQLFollowsTheReference(t *testing.T) {
	quotatest.Follow(t, subject(t, storetest.Postgres(t)), 10, 200)
}

func TestPostgreSQLCountsARequestOnce(t *testing.T) {
	quotatest.FollowRequest(t, subject(t, storetest.Postgres(t)))
}

func TestPostgreSQLHoldsLimitsAmongManyRequests(t *testing.T) {
	quotatest.Hold(t, subject(t, storetest.Postgres(t)), true)
}

// server is the environment variable that passes the address to a fleet.
const server = "MODELGATE_TEST_QUOTA_URL"

func TestFourProcessesHoldLimitsInPostgreSQL(t *testing.T) {
	quotatest.Work(func() (quota.Store, func()) {
		s := open(t, os.Getenv(server))
		return s, s.Flush
	})
	url := storetest.Postgres(t)
	quotatest.Fleet(t, open(t, url), t.Name(), 100, server+"="+url)
}

// noon is far from the end of a window.
func noon() time.Time { return time.Now().UTC().Truncate(24 * time.Hour).Add(12 * time.Hour) }

func perDay(counter string) quota.Claim {
	return quota.Claim{Limit: &quota.Limit{Counter: counter, Max: 10, Window: 24 * time.Hour}, Amount: 1, Least: 1}
}

func TestReservationThatNobodyWaitsForIsNotMade(t *testing.T) {
	url := storetest.Postgres(t)
	s := open(t, url)
	if _, err := s.Reserve(t.Context(), noon(), []quota.Claim{perDay("k")}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Minute))
	defer cancel()
	if _, err := s.Reserve(late{ctx}, noon(), []quota.Claim{perDay("k")}); err == nil {
		t.Error("a reservation was made after its deadline")
	}
	states, err := s.Read(t.Context(), noon(), []*quota.Limit{perDay("k").Limit})
	if err != nil || states[0].Held != 1 {
		t.Errorf("the counter is at %+v, %v, want 1 held", states, err)
	}
}

func TestLateReplyOfPostgreSQLHoldsNothing(t *testing.T) {
	relay, url := storetest.NewRelay(t, storetest.Postgres(t))
	quotatest.ReleaseLateReplies(t, open(t, url), relay.DelayReplies)
}

// late is a context whose deadline has passed, which nobody noticed.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

func TestCountersGoOnAfterPostgreSQLWasAway(t *testing.T) {
	server := storetest.NewServer(t)
	server.Stop()
	s := open(t, server.DSN())
	g := &quota.Guard{Store: &quota.Breaker{Store: s, Deadline: time.Minute}}
	claim := perDay("k")
	claim.Limit.Max = 1 << 20 // settlements may be sent long after their reservations
	reserve := func() (alone bool) {
		before := g.DecidedAlone()
		v, err := g.Reserve(t.Context(), noon(), []quota.Claim{claim})
		if err != nil || v.Refused >= 0 {
			t.Fatal(v, err)
		}
		g.Settle(noon(), v.Grants, quota.Use{})
		return g.DecidedAlone() > before
	}
	if !reserve() {
		t.Error("a database that is away has decided")
	}
	await := func(what string, alone bool) {
		t.Helper()
		pause := time.NewTicker(20 * time.Millisecond)
		defer pause.Stop()
		for began := time.Now(); reserve() != alone; <-pause.C {
			if time.Since(began) > time.Minute {
				t.Fatalf("%s: not within a minute", what)
			}
		}
	}
	server.Start(t)
	await("the database decides", false)
	server.Stop()
	await("this process decides", true)
	server.Start(t)
	await("the database decides again", false)
	storetest.Exec(t, server.DSN(), `DROP SCHEMA modelgate_limits CASCADE`)
	await("this process decides without a schema", true)
	await("the database decides with a new schema", false)
}

// TestSchemaOfAnEarlierVersionIsCompleted opens databases that lack a function, as those
// that another version has prepared.
func TestSchemaOfAnEarlierVersionIsCompleted(t *testing.T) {
	for _, function := range []string{"reserve_4", "settle_3", "correct_3"} {
		t.Run(function, func(t *testing.T) {
			url := storetest.Postgres(t)
			open(t, url)
			storetest.Exec(t, url, `DROP FUNCTION modelgate_limits.`+function)
			s := open(t, url)
			claim := perDay(function)
			v, err := s.Reserve(t.Context(), noon(), []quota.Claim{claim})
			if err != nil || v.Refused >= 0 {
				t.Fatal(v, err)
			}
			s.Settle(noon(), v.Grants, quota.Use{Requests: 1})
			s.Flush()
			if err := s.Correct(t.Context(), []quota.Correction{{Counter: "budget", Total: 1}}); err != nil {
				t.Error(err)
			}
			if states, err := s.Read(t.Context(), noon(), []*quota.Limit{claim.Limit}); err != nil || states[0].Used != 1 || states[0].Held != 0 {
				t.Errorf("the counter is at %+v, %v, want 1 used", states, err)
			}
		})
	}
}

func TestDatabaseWithoutTheRightToCreateASchemaIsRefused(t *testing.T) {
	url := storetest.Postgres(t)
	storetest.Exec(t, url, `CREATE ROLE quota_reader_only LOGIN`)
	defer storetest.Exec(t, url, `DROP ROLE quota_reader_only`)
	s, err := pgquota.Open(t.Context(), pgquota.Options{URL: secret.New(url + "&user=quota_reader_only")})
	if err == nil {
		s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "permission denied for database") || !strings.Contains(err.Error(), "grant this right") {
		t.Errorf("opened without the right to create its tables: %v", err)
	}
}

func BenchmarkReserveAndSettle(b *testing.B) {
	s := open(b, storetest.Postgres(b))
	var claims []quota.Claim
	for i := range 5 {
		claims = append(claims, quota.Claim{Limit: &quota.Limit{Counter: fmt.Sprint(i), Max: 1 << 50, Window: time.Minute}, Amount: 10, Least: 1})
	}
	for b.Loop() {
		v, err := s.Reserve(b.Context(), time.Now(), claims)
		if err != nil {
			b.Fatal(err)
		}
		s.Settle(time.Now(), v.Grants, quota.Use{Requests: 10})
	}
}

func TestFourProcessesHoldLimitsWithLeasedSlices(t *testing.T) {
	quotatest.Work(func() (quota.Store, func()) {
		s := open(t, os.Getenv(server))
		d := &quota.Leased{Store: s}
		d.Start()
		return d, func() { d.Close(); s.Flush() }
	})
	url := storetest.Postgres(t)
	quotatest.Fleet(t, open(t, url), t.Name(), 75, server+"="+url)
}

func TestNamesOfCountersMayHoldAnyBytes(t *testing.T) {
	s := open(t, storetest.Postgres(t))
	for _, name := range []string{"nul\x00", "nul\x00\x00", "\xff\xfe", strings.Repeat("long", 5000), strings.Repeat("long", 5001)} {
		c := perDay(name)
		v, err := s.Reserve(t.Context(), noon(), []quota.Claim{c})
		if err != nil || v.Refused >= 0 {
			t.Errorf("%.10q: %+v, %v", name, v, err)
			continue
		}
		s.Settle(noon(), v.Grants, quota.Use{Requests: 1})
		s.Flush()
		if err := s.Correct(t.Context(), []quota.Correction{{Counter: name + "b"}}); err != nil {
			t.Errorf("%.10q: %v", name, err)
		}
		if states, err := s.Read(t.Context(), noon(), []*quota.Limit{c.Limit}); err != nil || states[0].Used != 1 || states[0].Held != 0 {
			t.Errorf("%.10q is at %+v, %v", name, states, err)
		}
	}
}

// A request may want more than the whole of a budget, and gets what is left.
func TestLeasedBudgetSmallerThanARequestIsGranted(t *testing.T) {
	m := open(t, storetest.Postgres(t))
	d := &quota.Leased{Store: m}
	d.Start()
	defer d.Close()
	l := &quota.Limit{Counter: "key/x/tokens/", Measure: quota.Tokens, Max: 140}
	for i := range 10 {
		v, err := d.Reserve(context.Background(), time.Now(), []quota.Claim{{Limit: l, Amount: 4098, Least: 1}})
		if err != nil || v.Refused >= 0 || v.Grants[0].Amount != 140-14*int64(i) {
			t.Fatalf("request %d: %+v, %v", i+1, v, err)
		}
		d.Settle(time.Now(), v.Grants, quota.Use{Tokens: 14})
	}
	if v, err := d.Reserve(context.Background(), time.Now(), []quota.Claim{{Limit: l, Amount: 4098, Least: 1}}); err != nil || v.Refused != 0 {
		t.Errorf("at the end of the budget: %+v, %v", v, err)
	}
}

func TestAReplyOfAnotherLengthIsAnError(t *testing.T) {
	url := storetest.Postgres(t)
	s := open(t, url)
	for _, reply := range []string{"", "1 2", "1 -1 1 0 0 0 0", "1 -1 1 0 0 0 0 0 0"} {
		storetest.Exec(t, url, `CREATE OR REPLACE FUNCTION modelgate_limits.reserve_4(latest BIGINT, generation BIGINT, names TEXT[], numbers BIGINT[], tolerances BIGINT[],
			bases BIGINT[], maxima BIGINT[], totals BIGINT[], amounts BIGINT[], leasts BIGINT[], lifetimes BIGINT[]) RETURNS TEXT LANGUAGE sql AS $$ SELECT '`+reply+`' $$`)
		_, err := s.Reserve(context.Background(), noon(), []quota.Claim{perDay(t.Name())})
		if err == nil || !strings.Contains(err.Error(), "to 1 limits") {
			t.Errorf("the reply %q gives the error %v, want one with the number of limits", reply, err)
		}
	}
}
