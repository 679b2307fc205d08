package attempt_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/testing/pipelinetest"
)

func TestStatusDecidesWhetherAResponseIsReturned(t *testing.T) {
	for _, tt := range []struct {
		status int
		code   string // of the error in its place
	}{{200, ""}, {201, ""}, {299, ""}, {300, "upstream_unreadable"}, {302, "upstream_unreadable"}, {399, "upstream_unreadable"}, {400, ""}, {599, ""}} {
		t.Run(strconv.Itoa(tt.status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := rtServe(t, rtRespond(tt.status, "application/json", rtResponseBody))
				_, err := p.send(t.Context(), rtSingle, rtHello, func(res *exchange.Response) error {
					if res.Status != tt.status {
						t.Errorf("status %d, want %d", res.Status, tt.status)
					}
					if tt.status < 300 && string(res.Bytes) != rtResponseBody {
						t.Errorf("the client gets %s, want the response of the provider as it is", res.Bytes)
					}
					return nil
				})
				if rtCode(err) != tt.code {
					t.Errorf("error %v, want the code %q", err, tt.code)
				}
			})
		})
	}
}

func TestJSONResponseIsCheckedUpToItsLimit(t *testing.T) {
	const head, tail = `{"choices":[{"index":0,"text":"`, `"}]}`
	whole := func(size int) string { return head + strings.Repeat("x", size-len(head+tail)) + tail }
	broken := func(size int) string { return head + strings.Repeat("x", size-len(head)) }
	for _, tt := range []struct {
		name, body string
		held       bool   // in memory, as a whole
		code       string // of the error in its place
	}{
		{"as long as the limit", whole(attempt.Spill), true, ""},
		{"as long as the limit, broken", broken(attempt.Spill), false, "upstream_unreadable"},
		{"longer", whole(attempt.Spill + 1), false, ""},
		{"much longer", whole(2 * attempt.Spill), false, ""},
		{"longer, broken", broken(attempt.Spill + 1), false, ""},
	} {
		for _, announced := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, announced: %t", tt.name, announced), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := rtServe(t, func(w http.ResponseWriter, r *http.Request) {
						io.Copy(io.Discard, r.Body)
						w.Header().Set("Content-Type", "application/json")
						if announced {
							w.Header().Set("Content-Length", strconv.Itoa(len(tt.body)))
						}
						http.NewResponseController(w).Flush()
						io.WriteString(w, tt.body)
					})
					_, err := p.send(t.Context(), rtSingle, rtHello, func(res *exchange.Response) error {
						if (res.Bytes != nil) != tt.held {
							t.Errorf("the response is held: %t, want %t", res.Bytes != nil, tt.held)
						}
						got := res.Bytes
						if got == nil {
							var err error
							if got, err = io.ReadAll(res.Body); err != nil {
								return err
							}
						}
						if string(got) != tt.body {
							t.Errorf("the client gets %d bytes, want the %d of the provider", len(got), len(tt.body))
						}
						return nil
					})
					if rtCode(err) != tt.code {
						t.Errorf("error %v, want the code %q", err, tt.code)
					}
				})
			})
		}
	}
}

func TestErrorOfTheProviderNeedsABody(t *testing.T) {
	for _, tt := range []struct {
		name, part, code string
	}{{"that breaks off at once", "", "upstream_reset"}, {"that breaks off", `{"error":`, ""}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := rtServe(t, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Length", "1000")
					rtRespond(429, "application/json", tt.part)(w, r)
					panic(http.ErrAbortHandler)
				})
				status := 0
				_, err := p.send(t.Context(), rtSingle, rtHello, func(res *exchange.Response) error { status = res.Status; return nil })
				if rtCode(err) != tt.code || (status == 429) != (tt.code == "") {
					t.Errorf("status %d, error %v; want 429 or the code %q", status, err, tt.code)
				}
			})
		})
	}
}

func TestCommentsBeforeTheFirstEventAreHeldUpToALimit(t *testing.T) {
	const failed = `data: {"error":{"message":"the model fell over","type":"server_error"}}` + "\n\n"
	for _, tt := range []struct {
		size   int
		status int
	}{{attempt.MaxHeld, 500}, {attempt.MaxHeld + 1, 200}} {
		synctest.Test(t, func(t *testing.T) {
			half := tt.size / 2
			comments := []string{":" + strings.Repeat("c", half-3) + "\n\n", ":" + strings.Repeat("c", tt.size-half-3) + "\n\n"}
			p := rtServe(t, rtRespond(200, "text/event-stream", comments[0], comments[1], failed))
			status := 0
			_, err := p.send(t.Context(), rtSingle, rtStream, func(res *exchange.Response) error {
				status = res.Status
				return nil
			})
			if err != nil || status != tt.status {
				t.Errorf("a stream that fails after %d bytes of comments: status %d, %v, want the status %d", tt.size, status, err, tt.status)
			}
		})
	}
}

// Whatever comes ends the wait for it: a response may take longer than the idle
// limit, not pause for longer.
func TestIdleLimitHoldsBetweenThePartsOfAResponse(t *testing.T) {
	for name, tt := range map[string]struct {
		media, body string
		parts       []string
		change      []func(*pipelinetest.Request)
	}{
		"passed through": {"audio/mpeg", rtHello, []string{"s", "o", "u", "n", "d"}, []func(*pipelinetest.Request){rtPassed}},
		"JSON":           {"application/json", rtHello, []string{`{"a":`, "1", ",", `"b":`, "2}"}, nil},
		"a stream":       {"text/event-stream", rtStream, []string{rtChunk, rtChunk, rtChunk, rtChunk, rtFinish}, nil},
	} {
		for _, pause := range []time.Duration{time.Second, 3 * time.Second} {
			t.Run(fmt.Sprint(name, " every ", pause), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := rtServe(t, func(w http.ResponseWriter, r *http.Request) {
						io.Copy(io.Discard, r.Body)
						w.Header().Set("Content-Type", tt.media)
						for i, part := range tt.parts {
							if i > 0 {
								select {
								case <-time.After(pause):
								case <-r.Context().Done():
									return
								}
							}
							io.WriteString(w, part)
							http.NewResponseController(w).Flush()
						}
					})
					p.engine.Limits.Idle = 2 * time.Second
					want := map[bool]string{true: "idle_timeout"}[pause > p.engine.Limits.Idle]
					if _, err := p.send(t.Context(), rtSingle, tt.body, nil, tt.change...); rtCode(err) != want {
						t.Errorf("error %v, want the code %q", err, want)
					}
				})
			})
		}
	}
}
