package redisquota_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/limits/quota"
	"modelgate/internal/limits/redisquota"
	"modelgate/internal/testing/quotatest"
	"modelgate/internal/testing/storetest"
)

func open(t testing.TB, url string) *redisquota.Store {
	t.Helper()
	return openAs(t, url, "node")
}

// openAs opens the store of a new process of a node.
func openAs(t testing.TB, url, node string) *redisquota.Store {
	t.Helper()
	s, err := redisquota.Open(context.Background(), redisquota.Options{URL: secret.New(url), Process: quota.NewProcess(node)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func subject(t *testing.T, url string) quotatest.Subject {
	return quotatest.Subject{
		Open: func(node string) quota.Store { return openAs(t, url, node) }, Shared: true,
		Flush: func(s quota.Store) { s.(*redisquota.Store).Flush() },
		Lose:  func(s quota.Store, executed bool) { quotatest.LoseReply(s.(*redisquota.Store).Remote, executed) },
	}
}

func TestRedisFollowsTheReference(t *testing.T) {
	r := quotatest.NewRedis(t)
	quotatest.Follow(t, subject(t, r.URL()), 20, 200)
}

func TestRedisCountsARequestOnce(t *testing.T) {
	r := quotatest.NewRedis(t)
	quotatest.FollowRequest(t, subject(t, r.URL()))
}

// TestRedisWithoutNewCommandsFollowsTheReference uses a server that knows no command which is
// newer than Redis 5, HELLO first of all.
func TestRedisWithoutNewCommandsFollowsTheReference(t *testing.T) {
	var args []string
	for _, name := range []string{"HELLO", "ACL", "FUNCTION", "FCALL", "EVAL_RO", "EVALSHA_RO", "GETDEL", "GETEX", "COPY", "RESET", "LMPOP"} {
		args = append(args, "--rename-command", name, "")
	}
	r := quotatest.NewRedis(t, args...)
	if reply, err := r.Command("HELLO 3\r\n"); err != nil || !strings.HasPrefix(reply, "-ERR unknown command") {
		t.Fatalf("HELLO: %q, %v", reply, err)
	}
	quotatest.Follow(t, subject(t, r.URL()), 5, 200)
}

func TestRedisHoldsLimitsAmongManyRequests(t *testing.T) {
	r := quotatest.NewRedis(t)
	quotatest.Hold(t, subject(t, r.URL()), true)
}

// server is the environment variable that passes the address to a fleet.
const server = "MODELGATE_TEST_QUOTA_URL"

func TestFourProcessesHoldLimitsInRedis(t *testing.T) {
	quotatest.Work(func() (quota.Store, func()) {
		s := open(t, os.Getenv(server))
		return s, s.Flush
	})
	r := quotatest.NewRedis(t)
	quotatest.Fleet(t, open(t, r.URL()), t.Name(), 100, server+"="+r.URL())
}

var limit = &quota.Limit{Counter: "k", Max: 10, Window: 24 * time.Hour}

// reserve reserves from limit and fails the test if the store does not answer.
func reserve(t *testing.T, s quota.Store, now time.Time, amount int64) quota.Verdict {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	v, err := s.Reserve(ctx, now, []quota.Claim{{Limit: limit, Amount: amount, Least: amount}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func read(t *testing.T, s quota.Store, now time.Time, l *quota.Limit) quota.State {
	t.Helper()
	states, err := s.Read(t.Context(), now, []*quota.Limit{l})
	if err != nil {
		t.Fatal(err)
	}
	return states[0]
}

// noon is far from the end of a window.
func noon() time.Time { return time.Now().UTC().Truncate(24 * time.Hour).Add(12 * time.Hour) }

func TestReservationsOfAKilledProcessLapse(t *testing.T) {
	const crash = "MODELGATE_TEST_QUOTA_CRASH"
	if url := os.Getenv(crash); url != "" {
		reserve(t, open(t, url), noon(), 10)
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	r := quotatest.NewRedis(t)
	c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	c.Env = append(os.Environ(), crash+"="+r.URL())
	if out, err := c.CombinedOutput(); err == nil || c.ProcessState.Exited() {
		t.Fatalf("the process was not killed: %v, %s", err, out)
	}
	s := open(t, r.URL())
	if v := reserve(t, s, noon().Add(9*time.Minute), 1); v.Refused != 0 || v.States[0].Held != 10 {
		t.Errorf("after 9 minutes 10 of 10 are not held any more: %+v", v)
	}
	if v := reserve(t, s, noon().Add(20*time.Minute), 10); v.Refused >= 0 {
		t.Errorf("after 20 minutes the reservation has not lapsed: %+v", v)
	}
}

func TestReservationThatNobodyWaitsForIsNotMade(t *testing.T) {
	r := quotatest.NewRedis(t)
	s := open(t, r.URL())
	reserve(t, s, noon(), 1)
	r.Pause(t, true)
	ctx, cancel := context.WithTimeout(t.Context(), quota.DefaultDeadline)
	defer cancel()
	if _, err := s.Reserve(ctx, noon(), []quota.Claim{{Limit: limit, Amount: 5, Least: 5}}); err == nil {
		t.Fatal("a stopped Redis granted a reservation")
	}
	time.Sleep(100 * time.Millisecond)
	r.Pause(t, false)
	if got := read(t, s, noon(), limit); got.Held != 1 {
		t.Errorf("%d are held, want 1: the request that was not answered holds some", got.Held)
	}
}

func TestLateReplyOfRedisHoldsNothing(t *testing.T) {
	r := quotatest.NewRedis(t)
	relay, url := storetest.NewRelay(t, r.URL())
	quotatest.ReleaseLateReplies(t, open(t, url), relay.DelayReplies)
}

func TestCountersSurviveAFlushAsDocumented(t *testing.T) {
	r := quotatest.NewRedis(t)
	s := open(t, r.URL())
	budget := &quota.Limit{Counter: "b", Measure: quota.Cost, Max: 1000, Base: 100, Counted: 400}
	v, err := s.Reserve(t.Context(), noon(), []quota.Claim{{Limit: limit, Amount: 10, Least: 10}, {Limit: budget, Amount: 300, Least: 1}})
	if err != nil || v.Refused >= 0 {
		t.Fatal(v, err)
	}
	for _, command := range []string{"FLUSHALL\r\n", "SCRIPT FLUSH\r\n"} {
		if reply, err := r.Command(command); err != nil || reply != "+OK\r\n" {
			t.Fatal(reply, err)
		}
	}
	s.Settle(noon(), v.Grants, quota.Use{Requests: 1, Cost: 50})
	s.Flush()
	if got := read(t, s, noon(), limit); got.Used != 1 || got.Held != 0 {
		t.Errorf("the window is at %+v, want what was settled since", got)
	}
	if got := read(t, s, noon(), budget); got.Used != 350 || got.Held != 0 {
		t.Errorf("the budget is at %+v, want what the ledger counted and the settlement", got)
	}
	if v := reserve(t, s, noon(), 9); v.Refused >= 0 {
		t.Errorf("the rest of the window: %+v", v)
	}
}

func TestRedisForgetsWhatIsOver(t *testing.T) {
	r := quotatest.NewRedis(t)
	s := open(t, r.URL())
	now := time.Now()
	second := &quota.Limit{Counter: "s", Max: 10, Window: time.Second}
	budget := &quota.Limit{Counter: "b", Max: 10}
	reset := &quota.Limit{Counter: "r", Max: 10, Resets: now.Add(time.Hour)}
	v, err := s.Reserve(t.Context(), now, []quota.Claim{{Limit: second, Amount: 1, Least: 1}, {Limit: budget, Amount: 1, Least: 1}, {Limit: reset, Amount: 1, Least: 1}})
	if err != nil {
		t.Fatal(err)
	}
	s.Settle(now, v.Grants, quota.Use{Requests: 1})
	s.Flush()
	if err := s.Correct(t.Context(), []quota.Correction{{Counter: "c", Total: 5}}); err != nil {
		t.Fatal(err)
	}
	for key, most := range map[string]int{"s": 61, "b": 35 * 86400, "c": 35 * 86400, "r": 3600 + 1800} {
		reply, err := r.Command("TTL {modelgate}:limit:" + key + "\r\n")
		n, _ := strconv.Atoi(strings.Trim(reply, ":\r\n"))
		if err != nil || n < most-60 || n > most {
			t.Errorf("%s is forgotten after %q seconds, want at most %d", key, reply, most)
		}
	}
}

func TestLargeAmountsAreExact(t *testing.T) {
	r := quotatest.NewRedis(t)
	s := open(t, r.URL())
	const large = 1<<53 - 1
	l := &quota.Limit{Counter: "l", Measure: quota.Cost, Max: large, Window: 24 * time.Hour}
	v, err := s.Reserve(t.Context(), noon(), []quota.Claim{{Limit: l, Amount: large - 1, Least: 1}})
	if err != nil || v.Refused >= 0 || v.Grants[0].Amount != large-1 {
		t.Fatal(v, err)
	}
	s.Settle(noon(), v.Grants, quota.Use{Cost: large - 2})
	s.Flush()
	if got := read(t, s, noon(), l); got.Used != large-2 || got.Held != 0 {
		t.Errorf("the counter is at %+v", got)
	}
	none := &quota.Limit{Counter: "n", Max: math.MaxInt64, Window: time.Minute}
	if v, err := s.Reserve(t.Context(), noon(), []quota.Claim{{Limit: none, Amount: 1, Least: 1}}); err != nil || v.Refused >= 0 {
		t.Errorf("the largest limit: %+v, %v", v, err)
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	r := quotatest.NewRedis(t, "--requirepass", "hunter2")
	for url, want := range map[string]string{
		"http://127.0.0.1:6379": "must have the form redis://",
		"redis://:wrong-password@127.0.0.1:" + strconv.Itoa(r.Port): "WRONGPASS",
		r.URL(): "NOAUTH",
	} {
		s, err := redisquota.Open(t.Context(), redisquota.Options{URL: secret.New(url)})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "wrong-password") {
			t.Errorf("Open(%s): %v, want %q", url, err, want)
		}
	}
	open(t, "redis://:hunter2@127.0.0.1:"+strconv.Itoa(r.Port))
}

// guarded returns a store as a gateway uses it.
func guarded(t *testing.T, s quota.Store) (*quota.Guard, *quota.Breaker) {
	b := &quota.Breaker{Store: s}
	return &quota.Guard{Store: b}, b
}

// await waits for a condition.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for began := time.Now(); !ok(); <-pause.C {
		if time.Since(began) > time.Minute {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// claim returns a claim of one of 10 a day.
func claim(counter string, down quota.WhenDown) []quota.Claim {
	return []quota.Claim{{Limit: &quota.Limit{Counter: counter, Max: 10, Window: 24 * time.Hour, Down: down}, Amount: 1, Least: 1}}
}

func TestRequestsGoOnWhileRedisFails(t *testing.T) {
	for _, tt := range []struct {
		name      string
		fail, end func(*quotatest.Redis, *storetest.Relay)
	}{
		{"killed", func(r *quotatest.Redis, _ *storetest.Relay) { r.Kill() }, func(r *quotatest.Redis, _ *storetest.Relay) { r.Start(t) }},
		{"stopped", func(r *quotatest.Redis, _ *storetest.Relay) { r.Pause(t, true) }, func(r *quotatest.Redis, _ *storetest.Relay) { r.Pause(t, false) }},
		{"slow", func(_ *quotatest.Redis, p *storetest.Relay) { p.Delay(100 * time.Millisecond) }, func(_ *quotatest.Redis, p *storetest.Relay) { p.Delay(0) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := quotatest.NewRedis(t)
			relay, url := storetest.NewRelay(t, r.URL())
			s := open(t, url)
			g, b := guarded(t, s)
			b.Deadline = 40 * time.Millisecond
			granted := 0 // by Redis, or by the node alone where Redis took too long
			cached := func() quota.Verdict {
				v, err := g.Reserve(t.Context(), noon(), claim("cached", quota.DownCached))
				if err != nil {
					t.Fatal(err)
				}
				if v.Refused < 0 {
					granted++
				}
				return v
			}
			for range 4 {
				await(t, "four grants by Redis", func() bool { before := g.DecidedAlone(); cached(); return g.DecidedAlone() == before })
			}
			before := b.Stats().Failed
			tt.fail(r, relay)
			began := time.Now()
			for granted < 10 {
				if v := cached(); v.Refused >= 0 {
					t.Fatalf("after %d of 10: %+v", granted, v)
				} else if granted == 10 {
					g.Settle(noon(), v.Grants, quota.Use{Requests: 1})
				}
			}
			if v := cached(); v.Refused != 0 {
				t.Error("more than the limit was granted without Redis")
			}
			for range 20 {
				if v, err := g.Reserve(t.Context(), noon(), claim("open", quota.DownOpen)); err != nil || v.Refused >= 0 {
					t.Errorf("open: %+v, %v", v, err)
				}
				if _, err := g.Reserve(t.Context(), noon(), append(claim("open", quota.DownOpen), claim("closed", quota.DownClosed)...)); !errors.Is(err, quota.ErrUnavailable) {
					t.Errorf("closed: %v", err)
				}
			}
			// Five failures, then a call a second, two of which may be begun.
			stats, took := b.Stats(), time.Since(began)
			if most := 5 + int64(took/time.Second) + 2; stats.Skipped == 0 || stats.Failed-before > most {
				t.Errorf("a Redis that fails was called again and again: %+v in %v, want at most %d failures", stats, took, most)
			}
			tt.end(r, relay)
			await(t, "Redis decides again", func() bool {
				before := g.DecidedAlone()
				_, err := g.Reserve(t.Context(), noon(), claim("other", quota.DownOpen))
				return err == nil && g.DecidedAlone() == before
			})
			await(t, "what was used is settled", func() bool {
				states, err := s.Read(t.Context(), noon(), []*quota.Limit{claim("cached", 0)[0].Limit})
				return err == nil && states[0].Used == 1 || s.Lost() > 0
			})
		})
	}
}

func TestRedisThatIsAwayAtTheStartIsUsedLater(t *testing.T) {
	r := quotatest.NewRedis(t)
	r.Kill()
	s := open(t, r.URL())
	if _, err := s.Reserve(t.Context(), noon(), claim("k", 0)); err == nil {
		t.Fatal("granted without Redis")
	}
	r.Start(t)
	await(t, "a grant", func() bool { _, err := s.Reserve(t.Context(), noon(), claim("k", 0)); return err == nil })
}

func BenchmarkReserveAndSettle(b *testing.B) {
	r := quotatest.NewRedis(b)
	s := open(b, r.URL())
	var claims []quota.Claim
	for i := range 5 {
		claims = append(claims, quota.Claim{Limit: &quota.Limit{Counter: fmt.Sprint(i), Max: 1 << 50, Window: time.Minute}, Amount: 10, Least: 1})
	}
	run := func(b *testing.B) {
		v, err := s.Reserve(b.Context(), time.Now(), claims)
		if err != nil {
			b.Fatal(err)
		}
		s.Settle(time.Now(), v.Grants, quota.Use{Requests: 10})
	}
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			run(b)
		}
	})
	b.Run("many", func(b *testing.B) {
		b.SetParallelism(16)
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				run(b)
			}
		})
	})
}

func TestClusterCountsInOneSlot(t *testing.T) {
	r := quotatest.NewRedis(t, "--cluster-enabled", "yes", "--cluster-config-file", filepath.Join(t.TempDir(), "nodes.conf"))
	if reply, err := r.Command("CLUSTER ADDSLOTSRANGE 0 16383\r\n"); err != nil || reply != "+OK\r\n" {
		t.Fatal(reply, err)
	}
	await(t, "the cluster is up", func() bool {
		reply, _ := r.Command("CLUSTER INFO\r\n")
		return strings.Contains(reply, "cluster_state:ok")
	})
	s := open(t, r.URL())
	v, err := s.Reserve(t.Context(), noon(), append(claim("a", 0), claim("b", 0)...))
	if err != nil || v.Refused >= 0 {
		t.Fatal(v, err)
	}
	s.Settle(noon(), v.Grants, quota.Use{Requests: 1})
	s.Flush()
	if got := read(t, s, noon(), claim("b", 0)[0].Limit); got.Used != 1 || got.Held != 0 {
		t.Errorf("the counter is at %+v", got)
	}
	if reply, err := r.Command("MEMORY USAGE {modelgate}:limit:a\r\n"); err != nil || len(strings.Trim(reply, ":\r\n")) > 3 || reply > ":400" {
		t.Errorf("a counter takes %q bytes, %v; the documentation says about 300", reply, err)
	}
}
