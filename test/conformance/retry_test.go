package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// asking answers a first request with a status that wants to be asked again,
// and every other with the canned response.
func asking(status int, header, value string) behaviour {
	then := withStatuses(status, 200)
	return func(w http.ResponseWriter, r *http.Request, in received) {
		sent := value
		if value == "date" {
			sent = time.Now().Add(3 * time.Second).UTC().Format(http.TimeFormat)
		}
		w.Header().Set(header, sent)
		then(w, r, in)
	}
}

// soon asks for each repetition at once, so that a test need not wait.
func soon(say behaviour) behaviour {
	return func(w http.ResponseWriter, r *http.Request, in received) {
		w.Header().Set("retry-after-ms", "1")
		say(w, r, in)
	}
}

func TestFailedAttemptsAreRepeated(t *testing.T) {
	g, _ := start(t)
	prove(t, "S-028", "until one succeeds", func(t *testing.T) {
		p := newProvider(t, soon(withStatuses(503, 503, 200)))
		got := g.ask(t, leaf(p, `"retry":{"attempts":3,"use_retry_after_headers":true}`)).wantOK(t)
		called(t, []int{3}, p)
		if n := got.header.Get("x-gateway-retry-attempt-count"); n != "2" {
			t.Errorf("x-gateway-retry-attempt-count = %q, want 2", n)
		}
	})
	prove(t, "S-028", "a stream too, before it began", func(t *testing.T) {
		var n atomic.Int64
		p := newProvider(t, func(w http.ResponseWriter, r *http.Request, in received) {
			if n.Add(1) == 1 {
				withStatuses(503)(w, r, in)
				return
			}
			streams(chatEvents+done)(w, r, in)
		})
		got := g.do(t, "POST", chatStream.path, chatStream.body, "x-gateway-api-key", bootstrapKey, "x-gateway-config", leaf(p, `"retry":{"attempts":1}`)).wantOK(t)
		if string(got.body) != chatEvents+done {
			t.Errorf("the stream is %q", got.body)
		}
		called(t, []int{2}, p)
	})
	prove(t, "S-028", "with the same body", func(t *testing.T) {
		p := newProvider(t, withStatuses(500, 200))
		g.ask(t, leaf(p, `"retry":{"attempts":1}`)).wantOK(t)
		in := p.requests()
		if len(in) != 2 || string(in[0].body) != string(in[1].body) || string(in[0].body) != modelRoutes[0].body {
			t.Errorf("the provider got %d requests, the last with %s", len(in), in[len(in)-1].body)
		}
	})
	for _, list := range []string{"", `,"on_status_codes":[429]`} {
		prove(t, "S-028", "when no response came "+list, func(t *testing.T) {
			var n atomic.Int64
			p := newProvider(t, func(w http.ResponseWriter, r *http.Request, in received) {
				if n.Add(1) <= 2 {
					panic(http.ErrAbortHandler)
				}
				canned(w, r, in)
			})
			g.ask(t, leaf(p, `"retry":{"attempts":2`+list+`}`)).wantOK(t)
			called(t, []int{3}, p)
		})
	}
	for attempts, calls := range map[int]int{0: 1, 1: 2, 3: 4, 5: 6, 6: 6, 40: 6} {
		prove(t, "S-101", fmt.Sprintf("attempts of %d make at most %d calls", attempts, calls), func(t *testing.T) {
			p := newProvider(t, soon(withStatuses(503)))
			got := g.ask(t, leaf(p, fmt.Sprintf(`"retry":{"attempts":%d,"use_retry_after_headers":true}`, attempts)))
			if got.status != 503 {
				t.Errorf("status %d, want the provider's 503", got.status)
			}
			called(t, []int{calls}, p)
		})
	}
	prove(t, "S-485", "when all fail, the last response is the response", func(t *testing.T) {
		p := newProvider(t, soon(withStatuses(503, 503, 529)))
		got := g.ask(t, leaf(p, `"retry":{"attempts":2,"use_retry_after_headers":true}`))
		e := at(got.object(t), "error")
		if got.status != 529 || at(e, "message") != "said by the provider" || at(e, "source") != "provider" {
			t.Errorf("status %d, error %v, want the provider's last", got.status, e)
		}
		if n := got.header.Get("x-gateway-retry-attempt-count"); n != "-1" {
			t.Errorf("x-gateway-retry-attempt-count = %q, want -1 for tries used up", n)
		}
		called(t, []int{3}, p)
	})
	prove(t, "S-485", "the count is that of the target whose response it is", func(t *testing.T) {
		p := fleet(t, soon(withStatuses(503)), withStatuses(500))
		got := g.ask(t, tree(fallback, leaf(p[0], `"retry":{"attempts":1,"use_retry_after_headers":true}`), leaf(p[1])))
		if n := got.header.Get("x-gateway-retry-attempt-count"); got.status != 500 || n != "0" {
			t.Errorf("status %d, x-gateway-retry-attempt-count = %q; want 500 of the second target, which was not repeated", got.status, n)
		}
		called(t, []int{2, 1}, p...)
	})
}

func TestRetriesGoByStatus(t *testing.T) {
	g, _ := start(t)
	for _, tt := range []struct {
		of     string
		status int
		list   string
		again  bool
	}{
		{"S-100", 429, "", true},
		{"S-100", 500, "", true},
		{"S-100", 502, "", true},
		{"S-100", 503, "", true},
		{"S-100", 504, "", true},
		{"S-100", 529, "", true},
		{"S-100", 400, "", false},
		{"S-100", 401, "", false},
		{"S-100", 404, "", false},
		{"S-100", 408, "", false},
		{"S-100", 418, "", false},
		{"S-100", 501, "", false},
		{"S-482 S-100", 418, `,"on_status_codes":[418]`, true},
		{"S-482 S-100", 500, `,"on_status_codes":[418]`, false},
		{"S-482", 408, `,"on_status_codes":[418,408]`, true},
		{"S-482", 500, `,"on_status_codes":[]`, false},
	} {
		t.Run(fmt.Sprintf("%s %d %s", tt.of, tt.status, tt.list), func(t *testing.T) {
			covers(t, tt.of)
			t.Parallel()
			p := newProvider(t, withStatuses(tt.status, 200))
			got := g.ask(t, leaf(p, `"retry":{"attempts":1`+tt.list+`}`))
			want, calls := tt.status, 1
			if tt.again {
				want, calls = 200, 2
			}
			if got.status != want {
				t.Errorf("status %d, want %d", got.status, want)
			}
			called(t, []int{calls}, p)
		})
	}
	for list, calls := range map[string]int{"": 1, `,"on_status_codes":[408]`: 2} {
		prove(t, "S-100 S-482", "an attempt that takes too long "+list, func(t *testing.T) {
			p := newProvider(t, hang)
			g.ask(t, leaf(p, `"request_timeout":200`, `"retry":{"attempts":1`+list+`}`)).refused(t, http.StatusRequestTimeout)
			called(t, []int{calls}, p)
		})
	}
}

// notFifty is shorter than the 50 seconds that providers ask for in vain.
const notFifty = 40 * time.Second

func TestTheProviderSaysWhenToComeBack(t *testing.T) {
	g, _ := start(t)
	for _, tt := range []struct {
		name          string
		status        int
		header, value string // value "date" is the time in three seconds
		obey          string
		least         time.Duration
	}{
		{"seconds", 429, "Retry-After", "1", `true`, time.Second},
		{"milliseconds", 429, "retry-after-ms", "400", `true`, 400 * time.Millisecond},
		{"milliseconds in the other spelling", 503, "x-ms-retry-after-ms", "400", `true`, 400 * time.Millisecond},
		{"a date", 529, "Retry-After", "date", `true`, time.Second},
		{"not wanted", 503, "Retry-After", "50", `false`, 0},
	} {
		t.Run("S-130 "+tt.name, func(t *testing.T) {
			covers(t, "S-130")
			t.Parallel()
			p := newProvider(t, asking(tt.status, tt.header, tt.value))
			began := time.Now()
			g.ask(t, leaf(p, `"retry":{"attempts":1,"use_retry_after_headers":`+tt.obey+`}`)).wantOK(t)
			if took := time.Since(began); took < tt.least || took > notFifty {
				t.Errorf("the response came after %v, want it after %v and not much later", took, tt.least)
			}
			called(t, []int{2}, p)
		})
	}
	prove(t, "S-130", "not said at all, it is not waited for", func(t *testing.T) {
		p := newProvider(t, asking(503, "Retry-After", "50"))
		began := time.Now()
		g.ask(t, leaf(p, `"retry":{"attempts":1}`)).wantOK(t)
		if took := time.Since(began); took > notFifty {
			t.Errorf("the response came after %v", took)
		}
	})
	prove(t, "S-130", "waits of more than a minute together go to the client", func(t *testing.T) {
		var n atomic.Int64
		p := newProvider(t, func(w http.ResponseWriter, r *http.Request, in received) {
			wait := []string{"1", "60"}[min(n.Add(1), 2)-1]
			asking(503, "Retry-After", wait)(w, r, in)
		})
		began := time.Now()
		got := g.ask(t, leaf(p, `"retry":{"attempts":3,"use_retry_after_headers":true}`))
		if took := time.Since(began); got.status != 503 || got.header.Get("Retry-After") != "60" || took > notFifty {
			t.Errorf("status %d, Retry-After %q after %v; want the second 503 after a second", got.status, got.header.Get("Retry-After"), took)
		}
		called(t, []int{2}, p)
	})
	prove(t, "S-130", "longer than a minute goes to the client", func(t *testing.T) {
		p := newProvider(t, asking(429, "Retry-After", "61"))
		got := g.ask(t, leaf(p, `"retry":{"attempts":1,"use_retry_after_headers":true}`))
		if got.status != 429 || got.header.Get("Retry-After") != "61" || got.header.Get("x-gateway-retry-attempt-count") != "-1" {
			t.Errorf("status %d, Retry-After %q, count %q; want 429, 61, -1", got.status, got.header.Get("Retry-After"), got.header.Get("x-gateway-retry-attempt-count"))
		}
		called(t, []int{1}, p)
	})
}

func TestTimeoutsOfConfigs(t *testing.T) {
	g, _ := start(t)
	slow := func(w http.ResponseWriter, r *http.Request, in received) {
		<-time.After(100 * time.Millisecond)
		canned(w, r, in)
	}
	const soonOver, enough = `"request_timeout":50`, `"request_timeout":50000`
	header := func(ms string) []string { return []string{"x-gateway-attempt-timeout", ms} }
	for _, tt := range []struct {
		of, name     string
		root, target string
		header       []string
		ends         bool
	}{
		{"S-030 S-092 S-507", "in a target", "", soonOver, nil, true},
		{"S-030 S-131", "around a target", soonOver, "", nil, true},
		{"S-030", "long enough", "", enough, nil, false},
		{"S-436 S-448", "the header over the root", enough, "", header("50"), true},
		{"S-436 S-448", "the header over the root, longer", soonOver, "", header("50000"), false},
		{"S-436 S-448", "the target over the header", "", enough, header("50"), false},
		{"S-436 S-448", "the target over the header, shorter", "", soonOver, header("50000"), true},
		{"S-436 S-131", "the target over the root", soonOver, enough, nil, false},
		{"S-436 S-131", "the target over the root, shorter", enough, soonOver, nil, true},
		{"S-092", "none, said by zero", "", `"request_timeout":0`, nil, false},
	} {
		t.Run(tt.of+" "+tt.name, func(t *testing.T) {
			covers(t, tt.of)
			t.Parallel()
			respond := slow
			if tt.ends {
				respond = hang
			}
			p := newProvider(t, respond)
			target := leaf(p)
			if tt.target != "" {
				target = with(target, tt.target)
			}
			config := tree(single, target)
			if tt.root != "" {
				config = with(config, tt.root)
			}
			began := time.Now()
			got := g.ask(t, config, tt.header...)
			took := time.Since(began)
			if !tt.ends {
				got.wantOK(t)
				return
			}
			got.refused(t, http.StatusRequestTimeout)
			if took < 50*time.Millisecond || took > notFifty {
				t.Errorf("the response came after %v, want it after 50 ms and not much later", took)
			}
		})
	}
	prove(t, "S-030", "streams that do not begin end too", func(t *testing.T) {
		p := newProvider(t, hang)
		began := time.Now()
		g.do(t, "POST", chatStream.path, chatStream.body, "x-gateway-api-key", bootstrapKey, "x-gateway-config", leaf(p, soonOver)).refused(t, http.StatusRequestTimeout)
		if took := time.Since(began); took < 50*time.Millisecond || took > notFifty {
			t.Errorf("the response came after %v, want it after 50 ms and not much later", took)
		}
	})
	prove(t, "S-030", "a fallback goes on after a timeout", func(t *testing.T) {
		p := fleet(t, hang, nil)
		g.ask(t, tree(fallback, leaf(p[0], soonOver), leaf(p[1]))).wantOK(t)
		called(t, []int{1, 1}, p...)
	})
	prove(t, "S-030", "each attempt has the full time", func(t *testing.T) {
		p := newProvider(t, hang)
		began := time.Now()
		g.ask(t, leaf(p, soonOver, `"retry":{"attempts":1,"on_status_codes":[408]}`)).refused(t, http.StatusRequestTimeout)
		if took := time.Since(began); took < 100*time.Millisecond {
			t.Errorf("two attempts took %v, want at least 50 ms each", took)
		}
	})
}

func TestAllAttemptsHaveABudget(t *testing.T) {
	g := launchFor(t, "version: 1\ntimeouts: {budget: 600ms}\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	for name, config := range map[string]func(p *provider) string{
		"repetitions": func(p *provider) string {
			return leaf(p, `"request_timeout":250`, `"retry":{"attempts":5,"on_status_codes":[408]}`)
		},
		"targets": func(p *provider) string {
			return tree(fallback, slices.Repeat([]string{leaf(p, `"request_timeout":250`)}, 9)...)
		},
		"one attempt": func(p *provider) string { return leaf(p) },
	} {
		prove(t, "S-030", name+" end with it", func(t *testing.T) {
			p := newProvider(t, hang)
			g.ask(t, config(p)).refused(t, http.StatusRequestTimeout)
			if n := p.hits(); n > 4 {
				t.Errorf("the provider was called %d times within 600 ms of at least 250 each", n)
			}
		})
	}
}

func TestRetriesStayBelowFallbacks(t *testing.T) {
	g, _ := start(t)
	prove(t, "S-028 S-026", "a rate limit that says how long it lasts is left at once", func(t *testing.T) {
		p := fleet(t, asking(429, "Retry-After", "50"), nil)
		g.ask(t, tree(fallback, leaf(p[0], `"retry":{"attempts":2}`), leaf(p[1]))).wantOK(t)
		called(t, []int{1, 1}, p...)
	})
	prove(t, "S-028 S-026", "a target is repeated before the next one is tried", func(t *testing.T) {
		p := fleet(t, soon(withStatuses(503)), nil)
		got := g.ask(t, tree(fallback, leaf(p[0], `"retry":{"attempts":2,"use_retry_after_headers":true}`), leaf(p[1]))).wantOK(t)
		called(t, []int{3, 1}, p...)
		var targets []any
		for _, a := range g.entry(t, got)["attempts"].([]any) {
			targets = append(targets, at(a, "target"))
		}
		if want := []any{"config.targets[0]", "config.targets[0]", "config.targets[0]", "config.targets[1]"}; !slices.Equal(targets, want) {
			t.Errorf("recorded attempts = %v, want %v", targets, want)
		}
	})
}
