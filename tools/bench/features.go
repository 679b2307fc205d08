package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// featureConnections is how many connections the gateway is loaded with to see what a
// feature costs.
const featureConnections = 16

// Names of features in the report. Plain is the gateway without any.
const (
	Plain        = "none"
	RegexChecks  = "five regular expressions"
	SlowChecks   = "five without a literal"
	CacheHit     = "exact hit of the cache"
	Limits       = "limits in the process"
	SharedLimits = "limits in Redis"

	// Bare is a handler that reads the request and writes the right response: what a hit
	// of the cache is compared with.
	Bare = "bare handler"
)

const cacheConfig = `{"cache":{"mode":"simple","max_age":3600}}`

// Configs of checks that read the 4 KB of the system prompt and find nothing. Every
// match of the first five contains a literal, which is looked for in its place.
var (
	regexConfig = checksOf(`(?i)password\s*[:=]\s*\S+`, `\b\d{3}-\d{2}-\d{4}\b`, `sk-[A-Za-z0-9]{20,}`, `(?i)project\s+(bluebird|heron)`,
		`[\w.]+@example\.(com|org)`)
	slowConfig = checksOf(`\b\d{13,19}\b`, `\b[A-Z]{2}\d{2}[A-Z0-9]{10,30}\b`, `\b(\d{1,3}[. ]){3}\d{1,3}\b`, `(?i)\b[a-z]{4,}\d{2,}\b`,
		`[ap]k[-_][0-9a-f]{16,}`)
)

// checksOf returns a config with a guardrail for each pattern.
func checksOf(patterns ...string) string {
	list := make([]string, len(patterns))
	for i, p := range patterns {
		list[i] = fmt.Sprintf(`{"id":"r%d","default.regexMatch":{"rule":%q,"scope":"all","not":true}}`, i+1, p)
	}
	return `{"input_guardrails":[` + strings.Join(list, ",") + `]}`
}

// Feature is a closed loop on the gateway with a feature in use: medians of all rounds.
type Feature struct {
	Feature     string  `json:"feature"`
	Connections int     `json:"connections"`
	PerSecond   float64 `json:"requests_per_second"`
	CPUMicros   float64 `json:"cpu_us_per_request"`
	Allocs      float64 `json:"allocations_per_request"`
	// AddedCPUMicros is the CPU of a request beyond that of one without the feature in
	// the same round, of a hit of the cache beyond the bare handler.
	AddedCPUMicros float64 `json:"added_cpu_us_per_request"`
	// OfPlain is the throughput as a part of that without the feature.
	OfPlain float64 `json:"of_plain"`
	// RedisCalls is the number of scripts that Redis ran for a request.
	RedisCalls float64 `json:"redis_calls_per_request,omitempty"`
}

// contender is a feature that is measured.
type contender struct {
	name   string
	target *target
	sample sample
	own    bool // the target belongs to this step
}

// measureFeatures measures what features of the gateway cost, round by round.
func (r *run) measureFeatures(ctx context.Context) (err error) {
	shared, err := r.startRedis(ctx)
	if err != nil {
		return err
	}
	defer shared.stop()
	gate := r.targets[len(r.targets)-1]
	list := []contender{
		{Plain, gate, r.sample, false},
		{RegexChecks, gate, r.sample.with(regexConfig).withSameText(), false},
		{SlowChecks, gate, r.sample.with(slowConfig).withSameText(), false},
		{CacheHit, gate, r.sample.with(cacheConfig), false},
	}
	defer func() {
		for _, c := range list {
			if c.own {
				err = errors.Join(err, c.target.child.stop())
			}
		}
	}()
	for _, own := range []struct {
		name string
		args []string
	}{{Bare, []string{r.sim.addr}}, {Limits, []string{r.sim.addr}}, {SharedLimits, []string{r.sim.addr, shared.url()}}} {
		if own.name == SharedLimits && shared == nil {
			r.progressf("  no redis-server or valkey-server in PATH: %s is left out", SharedLimits)
			continue
		}
		c, err := r.spawn(ctx, append([]string{own.name}, own.args...)...)
		if err != nil {
			return err
		}
		list = append(list, contender{own.name, &target{own.name, c.addr, c}, r.sample, true})
	}
	rounds := map[string][]loaded{}
	calls := map[string]float64{}
	for round := range r.Scale.Rounds {
		for _, c := range list {
			before := shared.calls()
			l, err := r.closedLoop(ctx, c.target, &c.sample, featureConnections, r.Scale.Load)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if c.name == SharedLimits {
				calls[c.name] = float64(shared.calls()-before) / float64(l.total)
			}
			r.progressf("  round %d, %s: %.0f/s, %.1f µs CPU", round+1, c.name, l.perSecond, l.cpuMicros)
			rounds[c.name] = append(rounds[c.name], l)
		}
	}
	for _, c := range list {
		base := rounds[Plain]
		if c.name == CacheHit {
			base = rounds[Bare]
		}
		r.report.addFeature(c.name, rounds[c.name], base, rounds[Plain], calls[c.name])
	}
	return nil
}

// with returns the sample with a config in its header.
func (s sample) with(config string) sample {
	s.request = []byte(strings.Replace(string(s.request), "Accept: */*\r\n", "Accept: */*\r\nX-Gateway-Config: "+config+"\r\n", 1))
	return s
}

// withSameText returns the sample for responses with the same text, to which the
// results of checks are added.
func (s sample) withSameText() sample {
	s.says = chatDoor.expectResponse(string(textAfter(s.response, []byte(chatDoor.complete))), 0)
	return s
}

func (r *Report) addFeature(name string, rounds, base, plain []loaded, calls float64) {
	added, of := make([]float64, len(rounds)), make([]float64, len(rounds))
	for i := range rounds {
		added[i] = rounds[i].cpuMicros - base[i].cpuMicros
		of[i] = rounds[i].perSecond / plain[i].perSecond
	}
	r.Features = append(r.Features, Feature{
		Feature: name, Connections: featureConnections,
		PerSecond:      middle(rounds, 0, func(l loaded) float64 { return l.perSecond }),
		CPUMicros:      middle(rounds, 1, func(l loaded) float64 { return l.cpuMicros }),
		Allocs:         middle(rounds, 1, func(l loaded) float64 { return l.allocs }),
		AddedCPUMicros: round(median(added), 1),
		OfPlain:        round(median(of), 2),
		RedisCalls:     round(calls, 2),
	})
}

// judgeFeatures compares the cost of features with their goals.
func (r *Report) judgeFeatures() {
	for _, f := range r.Features {
		switch f.Feature {
		case Limits:
			r.atMost("CPU added by limits in the process", "us", f.AddedCPUMicros, 15, 8)
		case SharedLimits:
			r.atMost("calls of Redis for a request", "count", f.RedisCalls, 2, 1.2)
		case RegexChecks:
			r.atMost("CPU added by five regular expressions", "us", f.AddedCPUMicros, 50, 25)
		case CacheHit:
			r.atMost("CPU of a hit of the cache, of a bare handler", "us", f.AddedCPUMicros, 60, 30)
			r.atLeast("throughput of hits of the cache", f.OfPlain, 3, 5)
		}
	}
}

func (r *Report) featureTable(w io.Writer) {
	fmt.Fprintln(w, "feature\tconnections\trequests/s\tCPU µs/request\tadded\tallocations\tof none\tcalls of Redis\t")
	for _, f := range r.Features {
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%.1f\t%.1f\t%.0f\t%.2f\t%.2f\t\n", f.Feature, f.Connections, f.PerSecond, f.CPUMicros, f.AddedCPUMicros,
			f.Allocs, f.OfPlain, f.RedisCalls)
	}
}

// bareHandler answers every request as the simulator at addr answered the first one.
type bareHandler struct {
	addr     string
	response []byte
}

// newBareHandler learns the right response.
func newBareHandler(ctx context.Context, addr string) (*bareHandler, error) {
	s, err := learn(ctx, addr)
	return &bareHandler{addr, s.response}, err
}

func (h *bareHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	buf := copyBuffers.Get().(*[8 << 10]byte)
	defer copyBuffers.Put(buf)
	for {
		if _, err := r.Body.Read(buf[:]); err != nil {
			break
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(h.response)
}

// limits are set before a target with limits is measured: of the workspace, and two
// policies that group requests. None is ever reached.
var limits = []struct{ method, path, body string }{
	{http.MethodPut, "/v1/admin/workspaces/default",
		`{"rate_limits":[{"type":"requests","unit":"rpm","value":1000000000},{"type":"tokens","unit":"rpd","value":1000000000000}],"usage_limits":[{"credit_limit":1000000000,"periodic_reset":"monthly"}]}`},
	{http.MethodPost, "/v1/policies/rate-limits",
		`{"name":"requests of a key","conditions":[{"key":"workspace_id","value":"*"}],"group_by":[{"key":"api_key"}],"type":"requests","unit":"rpm","value":1000000000}`},
	{http.MethodPost, "/v1/policies/usage-limits",
		`{"name":"tokens of a key","conditions":[{"key":"workspace_id","value":"*"}],"group_by":[{"key":"api_key"}],"type":"tokens","credit_limit":1000000000000,"periodic_reset":"monthly"}`},
}

// setLimits sets the limits of a gateway.
func setLimits(ctx context.Context, addr string) error {
	for _, l := range limits {
		req, err := http.NewRequestWithContext(ctx, l.method, "http://"+addr+l.path, strings.NewReader(l.body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Gateway-Api-Key", gatewayKey)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s %s: %d %s", l.method, l.path, res.StatusCode, text)
		}
	}
	return nil
}
