package routing

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/pipeline"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/routing"
	"modelgate/internal/records/reqlog"
)

// A simulated provider follows a script: what it does depends on the time
// since the start and on its load alone, so that a run can be repeated.
type simulated struct {
	script script
	start  time.Time
	random *rand.Rand

	mu          sync.Mutex
	open, calls int // guarded by mu, as is all below
	over        int // calls above the rate limit
	window      time.Time
	inWindow    int
}

// state is what a provider is like at a moment.
type state struct {
	latency time.Duration
	errors  float64 // share of calls that end in 503
	down    bool    // refuses connections
	limit   int     // calls in ten seconds; zero means no limit
	perOpen time.Duration
}

type script func(since time.Duration) state

const (
	length   = 5 * time.Minute // of a run
	arrivals = 30              // in a run, in bursts of a few
	tail     = 6               // exchanges after it, one by one
	recovery = 4 * time.Minute // from then on every script is well
)

func steady(latency time.Duration) script {
	return func(time.Duration) state { return state{latency: latency} }
}

// scenarios are what the providers go through. The first is the preferred one.
var scenarios = []struct {
	name    string
	scripts []script
}{
	{"all well", []script{steady(100 * time.Millisecond), steady(120 * time.Millisecond), steady(150 * time.Millisecond)}},
	{"outage", []script{func(s time.Duration) state {
		return state{latency: 100 * time.Millisecond, down: s > time.Minute && s < 3*time.Minute}
	}, steady(150 * time.Millisecond), steady(200 * time.Millisecond)}},
	{"flap", []script{func(s time.Duration) state {
		return state{latency: 100 * time.Millisecond, down: s < recovery && s/(20*time.Second)%2 == 1}
	}, steady(150 * time.Millisecond), steady(200 * time.Millisecond)}},
	{"ramp", []script{func(s time.Duration) state {
		if s >= recovery {
			return state{latency: 100 * time.Millisecond}
		}
		return state{latency: 100*time.Millisecond + s/100, errors: float64(s) / float64(length)}
	}, steady(150 * time.Millisecond), steady(200 * time.Millisecond)}},
	{"brownout", []script{func(s time.Duration) state {
		if s < time.Minute || s >= recovery {
			return state{latency: 100 * time.Millisecond}
		}
		return state{latency: 3 * time.Second, errors: 0.3}
	}, steady(150 * time.Millisecond), steady(200 * time.Millisecond)}},
	{"rate limits", []script{func(time.Duration) state { return state{latency: 100 * time.Millisecond, limit: 8} },
		func(time.Duration) state { return state{latency: 150 * time.Millisecond, limit: 10} }, steady(200 * time.Millisecond)}},
	{"load", []script{func(time.Duration) state {
		return state{latency: 100 * time.Millisecond, perOpen: 400 * time.Millisecond}
	},
		steady(150 * time.Millisecond), steady(200 * time.Millisecond)}},
	{"all down for a while", []script{dark(150 * time.Second), dark(150 * time.Second), dark(150 * time.Second)}},
}

// dark is down for a minute up to end.
func dark(end time.Duration) script {
	return func(s time.Duration) state {
		return state{latency: 100 * time.Millisecond, down: s > end-time.Minute && s < end}
	}
}

const (
	breaker = `"cb_config":{"failure_threshold":3,"cooldown_interval":30000}`
	three   = `"targets":[{"provider":"@a","weight":2},{"provider":"@b","weight":1},{"provider":"@c","weight":1}]`
)

// simulatedWays are the strategies under test.
var simulatedWays = []struct{ name, config string }{
	{"single", `{"strategy":{"mode":"single"},` + breaker + `,` + three + `}`},
	{"single, retried", `{"strategy":{"mode":"single"},"retry":{"attempts":3},` + breaker + `,` + three + `}`},
	{"fallback", `{"strategy":{"mode":"fallback"},` + three + `}`},
	{"fallback, breaker", `{"strategy":{"mode":"fallback"},` + breaker + `,` + three + `}`},
	{"loadbalance, breaker", `{"strategy":{"mode":"loadbalance"},` + breaker + `,` + three + `}`},
	{"latency, breaker", `{"strategy":{"mode":"latency"},` + breaker + `,` + three + `}`},
	{"fallback around latency", `{"strategy":{"mode":"fallback"},` + breaker + `,"targets":[{"strategy":{"mode":"latency"},` + three + `},{"provider":"@c"}]}`},
	{"fallback, hedged", `{"strategy":{"mode":"fallback"},"hedge":{"delay_ms":470},` + breaker + `,` + three + `}`},
}

// Handle answers as the script says.
func (p at) Handle(ctx context.Context, _ *exchange.Request, t *exchange.Trail) (*exchange.Response, error) {
	now := time.Now()
	status := p.respond(ctx, now)
	t.Outcome = &exchange.Attempt{Record: reqlog.Attempt{Target: p.path, Status: status, Took: time.Since(now)}}
	t.Attempts = append(t.Attempts, t.Outcome)
	switch status {
	case 0:
		return nil, apierr.New(apierr.UpstreamFailed, "refused")
	case left:
		return nil, apierr.New(apierr.ClientGone, "left")
	case http.StatusTooManyRequests:
		return &exchange.Response{Status: status, Header: http.Header{"Retry-After-Ms": {p.retryAfter(now)}}}, nil
	}
	return &exchange.Response{Status: status}, nil
}

const (
	left        = 499
	limitWindow = 10 * time.Second
)

// respond returns a status, 0 when the connection is refused.
func (p *simulated) respond(ctx context.Context, now time.Time) int {
	s, status, latency := p.begin(now)
	if status != http.StatusOK {
		return status
	}
	defer p.end()
	select {
	case <-time.After(latency):
	case <-ctx.Done():
		return left
	}
	if s.fails {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// retryAfter is when the rate limit's window ends, in milliseconds.
func (p *simulated) retryAfter(now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strconv.FormatInt(p.window.Add(limitWindow).Sub(now).Milliseconds()+1, 10)
}

// fate is what a call will come to.
type fate struct{ fails bool }

func (p *simulated) begin(now time.Time) (f fate, status int, latency time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.script(now.Sub(p.start))
	p.calls++
	if s.down {
		return f, 0, 0
	}
	if now.Sub(p.window) >= limitWindow {
		p.window, p.inWindow = now, 0
	}
	if p.inWindow++; s.limit > 0 && p.inWindow > s.limit {
		p.over++
		return f, http.StatusTooManyRequests, 0
	}
	f.fails = p.random.Float64() < s.errors
	jitter := 0.8 + 0.4*p.random.Float64()
	latency = time.Duration(jitter * float64(s.latency+time.Duration(p.open)*s.perOpen))
	p.open++
	return f, http.StatusOK, latency
}

func (p *simulated) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
}

// run is one run of a strategy through a scenario.
type run struct {
	targets []*simulated
	random  *rand.Rand

	mu    sync.Mutex
	ended []ended // guarded by mu
}

// ended is how one exchange went.
type ended struct {
	at       time.Duration // since the start
	took     time.Duration
	ok       bool
	by       string
	attempts int
}

// simulate runs a config through a scenario. It is for a synctest bubble.
func simulate(root *config.Config, scripts []script, seed uint64) *run {
	start := time.Now()
	r := &run{random: rand.New(rand.NewPCG(seed, 0))}
	for i, s := range scripts {
		r.targets = append(r.targets, &simulated{script: s, start: start, random: rand.New(rand.NewPCG(seed, uint64(i+1)))})
	}
	draws := rand.New(rand.NewPCG(seed, 99))
	var mu sync.Mutex
	c := pipeline.Compiler{State: new(routing.State), Call: r.target, Random: func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return draws.Float64()
	}}
	tree := c.Compile(root, routing.Key(root))
	var wg sync.WaitGroup
	for range arrivals {
		time.Sleep(r.gap())
		wg.Go(func() { r.exchange(tree, start) })
	}
	wg.Wait()
	time.Sleep(time.Until(start.Add(length)))
	for range tail {
		time.Sleep(10*time.Second + r.gap()%time.Second)
		r.exchange(tree, start)
	}
	return r
}

// gap is the time to the next arrival: bursts of a few, a second and a half
// apart in the mean and never at the same moment as anything else.
func (r *run) gap() time.Duration {
	mean := float64(length) / float64(arrivals)
	if r.random.Float64() < 0.6 {
		return time.Duration(r.random.Float64() * mean / 20)
	}
	return time.Duration(r.random.Float64() * mean * 4.8)
}

// target returns the provider that a leaf names: @a, @b or @c.
func (r *run) target(leaf *config.Config) exchange.Handler {
	p := r.targets[leaf.Provider[1]-'a']
	return at{p, leaf.Path}
}

// at is a provider at a place of the tree.
type at struct {
	*simulated
	path string
}

func (r *run) exchange(tree *pipeline.Tree, start time.Time) {
	now := time.Now()
	trail := new(exchange.Trail)
	x := &exchange.Request{
		Time:            now,
		Client:          chat.Dialect{},
		Operation:       api.Chat,
		AttemptDeadline: now.Add(time.Minute),
		Received:        exchange.Received{Header: http.Header{}},
	}
	res, err := tree.Handle(context.Background(), x, trail)
	e := ended{at: now.Sub(start), took: time.Since(now)}
	if trail.Outcome != nil {
		e.by = trail.Outcome.Record.Target
	}
	if err == nil {
		e.ok = res.Status == http.StatusOK
		res.Close()
	}
	e.attempts = len(trail.Attempts)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = append(r.ended, e)
}

// problem returns which invariant the run breaks, empty when none.
func (r *run) problem(way string, most int) string {
	if len(r.ended) != arrivals+tail {
		return fmt.Sprintf("%d exchanges ended of %d", len(r.ended), arrivals+tail)
	}
	slices.SortFunc(r.ended, func(a, b ended) int { return cmp.Compare(a.at, b.at) })
	last := r.ended[arrivals:]
	for _, e := range r.ended {
		if e.attempts > most || e.attempts == 0 && e.ok {
			return fmt.Sprintf("an exchange took %d attempts, at most %d are allowed", e.attempts, most)
		}
		if e.took > 70*time.Second {
			return fmt.Sprintf("an exchange took %v in a budget of a minute", e.took)
		}
	}
	for _, p := range r.targets {
		if p.open != 0 {
			return fmt.Sprintf("%d calls are still open", p.open)
		}
	}
	// Every script is well for a minute before the tail begins, so every
	// circuit must have closed by its end.
	for _, e := range last {
		if !e.ok {
			return fmt.Sprintf("an exchange fails %v after recovery", e.at-recovery)
		}
	}
	if end := last[tail-1]; strings.HasPrefix(way, "fallback,") && end.by != "config.targets[0]" && r.targets[0].over == 0 {
		return fmt.Sprintf("the preferred target is not used again %v after recovery: %s", end.at-recovery, end.by)
	}
	return ""
}

// tally adds up runs of one strategy through one scenario.
type tally struct {
	exchanges, ok, attempts, over int
	waits                         []time.Duration
	calls                         [3]int
}

func (s *tally) add(r *run) {
	for _, e := range r.ended {
		s.exchanges++
		s.attempts += e.attempts
		if e.ok {
			s.ok++
		}
		s.waits = append(s.waits, e.took)
	}
	for i, p := range r.targets {
		s.calls[i] += p.calls
		s.over += p.over
	}
}

func (s *tally) String() string {
	slices.Sort(s.waits)
	sum, calls := time.Duration(0), 0
	for _, w := range s.waits {
		sum += w
	}
	for _, n := range s.calls {
		calls += n
	}
	share := func(i int) float64 { return 100 * float64(s.calls[i]) / float64(calls) }
	return fmt.Sprintf("%6.2f  %7d  %7d  %8.2f  %5.1f %5.1f %5.1f  %9.2f",
		100*float64(s.ok)/float64(s.exchanges), (sum / time.Duration(len(s.waits))).Milliseconds(), s.waits[len(s.waits)*99/100].Milliseconds(),
		float64(s.attempts)/float64(s.exchanges), share(0), share(1), share(2), 100*float64(s.over)/float64(s.exchanges))
}

const seeds = 1000

const simulationHead = `Each strategy goes through %d runs of %d exchanges, a seed each; the seeds take turns
through the scenarios. Times are in milliseconds until the response is usable,
load is the share of calls that each target got, and limited are the calls per
hundred exchanges that met a rate limit.

scenario              strategy                 success %%   mean ms   99th ms   attempts   load %%               limited
`

// TestSimulation checks what holds in every run, and compares the figures with
// those that were reviewed.
func TestSimulation(t *testing.T) {
	tallies := make([][]tally, len(simulatedWays))
	t.Run("runs", func(t *testing.T) {
		for i, way := range simulatedWays {
			tallies[i] = make([]tally, len(scenarios))
			root, err := config.Parse([]byte(way.config))
			if err != nil {
				t.Fatalf("%s: %v", way.name, err)
			}
			t.Run(way.name, func(t *testing.T) {
				t.Parallel()
				for seed := range seeds {
					scenario := scenarios[seed%len(scenarios)]
					synctest.Test(t, func(t *testing.T) {
						r := simulate(root, scenario.scripts, uint64(seed))
						if problem := r.problem(way.name, maxAttempts(root)); problem != "" {
							t.Errorf("%s, seed %d: %s", scenario.name, seed, problem)
						}
						tallies[i][seed%len(scenarios)].add(r)
					})
				}
			})
		}
	})
	var b strings.Builder
	fmt.Fprintf(&b, simulationHead, seeds, arrivals+tail)
	for j, scenario := range scenarios {
		for i, way := range simulatedWays {
			fmt.Fprintf(&b, "%-21s %-25s %s\n", scenario.name, way.name, &tallies[i][j])
		}
	}
	golden(t, "testdata/simulation.txt", b.String())
	shares(t, &tallies[slices.IndexFunc(simulatedWays, balanced)][0])
}

func balanced(w struct{ name, config string }) bool { return strings.HasPrefix(w.name, "loadbalance") }

// maxAttempts is how many attempts an exchange may take in all: retries plus
// one per leaf.
func maxAttempts(c *config.Config) int {
	if c.Strategy == nil {
		return 1
	}
	if c.Strategy.Mode == config.Single || c.Strategy.Mode == config.Loadbalance || c.Strategy.Mode == config.Latency {
		retries, _ := c.Retry.EffectiveAttempts()
		return retries + 1
	}
	sum := 0
	for _, t := range c.Targets {
		sum += maxAttempts(t)
	}
	return sum
}

// shares checks that no target of a balance gets more than its part: a half
// and two quarters, within six standard deviations.
func shares(t *testing.T, s *tally) {
	t.Helper()
	n := float64(s.exchanges)
	for i, want := range []float64{0.5, 0.25, 0.25} {
		got := float64(s.calls[i]) / n
		if math.Abs(got-want) > 6*math.Sqrt(want*(1-want)/n) {
			t.Errorf("target %d got %.3f of %v exchanges, want %.2f", i, got, n, want)
		}
	}
}
