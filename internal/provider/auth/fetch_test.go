package auth_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/provider"
	"modelgate/internal/provider/auth"
)

func TestATokenIsFetchedOnceForAllThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.handle(entraToken, func(rw http.ResponseWriter, _ *http.Request, _ url.Values) {
			time.Sleep(time.Second)
			io.WriteString(rw, grant("entra", 3600))
		})
		s, spec := w.signer(), row(provider.MethodEntra, "cloud_c_")
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if got := mustSign(t, s, spec, provider.Settings{Options: entraOptions()}); got != "Bearer entra" {
					t.Errorf("sent %q", got)
				}
			})
		}
		all.Wait()
		if len(w.asked) != 1 {
			t.Errorf("asked %d times", len(w.asked))
		}
	})
}

// The request that fetches for the others may go away; the next one fetches.
func TestATokenDoesNotDependOnTheRequestThatFetchesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.handle(entraToken, func(rw http.ResponseWriter, r *http.Request, _ url.Values) {
			select {
			case <-r.Context().Done():
			case <-time.After(time.Second):
				io.WriteString(rw, grant("entra", 3600))
			}
		})
		s := w.signer()
		target := mustTarget(t, row(provider.MethodEntra, "cloud_c_"), provider.Settings{Options: entraOptions()})
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		first := newRequest(t, target)
		all.Go(func() {
			if err := s.Sign(ctx, target, first, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("the one that left got %v", err)
			}
		})
		synctest.Wait()
		second := newRequest(t, target)
		all.Go(func() {
			if err := s.Sign(t.Context(), target, second, nil); err != nil || second.Header.Get("Authorization") != "Bearer entra" {
				t.Errorf("got %v, %v", err, second.Header)
			}
		})
		impatient, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		third := newRequest(t, target)
		all.Go(func() {
			if err := s.Sign(impatient, target, third, nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the one that can't wait got %v", err)
			}
		})
		synctest.Wait()
		time.Sleep(2 * time.Millisecond)
		leave()
		all.Wait()
	})
}

func TestAFetchThatPanicsLeavesNobodyWaiting(t *testing.T) {
	w := newWorld()
	w.handle(entraToken, func(http.ResponseWriter, *http.Request, url.Values) { panic("a bug") })
	s, spec, set := w.signer(), row(provider.MethodEntra, "cloud_c_"), provider.Settings{Options: entraOptions()}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		sign(t, s, spec, set)
	}()
	w.handleText(entraToken, grant("entra", 3600))
	mustSign(t, s, spec, set)
}

func TestATokenThatCannotBeRenewedServesUntilItsEnd(t *testing.T) {
	w := newWorld()
	w.handleText(entraToken, grant("first", 3600))
	s, spec, set := w.signer(), row(provider.MethodEntra, "cloud_c_"), provider.Settings{Options: entraOptions()}
	mustSign(t, s, spec, set)
	w.handle(entraToken, func(rw http.ResponseWriter, _ *http.Request, _ url.Values) { rw.WriteHeader(503) })
	for _, step := range []struct {
		after time.Duration
		asked int
	}{{56 * time.Minute, 2}, {20 * time.Second, 2}, {11 * time.Second, 3}} {
		w.advance(step.after)
		if got := mustSign(t, s, spec, set); got != "Bearer first" || len(w.asked) != step.asked {
			t.Errorf("at %v: sent %q, asked %d times, want %d", w.now, got, len(w.asked), step.asked)
		}
	}
	w.advance(4 * time.Minute)
	_, err := sign(t, s, spec, set)
	mustRefuse(t, err, apierr.UpstreamFailed, "token_endpoint_failed")
}

func TestAShortTokenIsUsedForHalfItsTime(t *testing.T) {
	w := newWorld()
	w.handleText(entraToken, grant("short", 60))
	s, spec, set := w.signer(), row(provider.MethodEntra, "cloud_c_"), provider.Settings{Options: entraOptions()}
	for _, step := range []struct {
		after time.Duration
		asked int
	}{{0, 1}, {29 * time.Second, 1}, {2 * time.Second, 2}} {
		w.advance(step.after)
		mustSign(t, s, spec, set)
		if len(w.asked) != step.asked {
			t.Errorf("at %v: asked %d times, want %d", w.now, len(w.asked), step.asked)
		}
	}
}

func TestTokenEndpointResponses(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		status     int
		kind       apierr.Kind
		code, says string
	}{
		{"a refusal", `{"error":"invalid_grant"}`, 400, apierr.Unauthenticated, "credential_refused", "invalid_grant"},
		{"a refusal without a word", `<html>`, 403, apierr.Unauthenticated, "credential_refused", "status 403"},
		{"a refusal with a word of its own", `{"error":"pass&word"}`, 401, apierr.Unauthenticated, "credential_refused", "status 401"},
		{"an error of its own", "oops", 500, apierr.UpstreamFailed, "token_endpoint_failed", "status 500"},
		{"too many requests", "", 429, apierr.UpstreamFailed, "token_endpoint_failed", "status 429"},
		{"a redirect", "", 302, apierr.UpstreamFailed, "token_endpoint_failed", "status 302"},
		{"no JSON", "pass&word", 200, apierr.UpstreamFailed, "token_endpoint_failed", "returned no token"},
		{"no token", `{"access_token":""}`, 200, apierr.UpstreamFailed, "token_endpoint_failed", "returned no token"},
		{"a token with a line end", `{"access_token":"a\r\nX: b"}`, 200, apierr.UpstreamFailed, "token_endpoint_failed", "returned no token"},
		{"too much", strings.Repeat(" ", 1<<20+1), 200, apierr.UpstreamFailed, "token_endpoint_failed", "more than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.handle(entraToken, func(rw http.ResponseWriter, _ *http.Request, _ url.Values) {
				rw.WriteHeader(tt.status)
				io.WriteString(rw, tt.body)
			})
			s, spec, set := w.signer(), row(provider.MethodEntra, "cloud_c_"), provider.Settings{Options: entraOptions()}
			got, err := sign(t, s, spec, set)
			mustRefuse(t, err, tt.kind, tt.code)
			if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "pass&word") || got != "" {
				t.Errorf("says %v and sends %q", err, got)
			}
			if w.handleText(entraToken, grant("good", 3600)); mustSign(t, s, spec, set) != "Bearer good" {
				t.Error("a failure was kept")
			}
		})
	}
}

func TestAMissingEndpointIsReported(t *testing.T) {
	w := newWorld()
	_, err := sign(t, w.signer(), row(provider.MethodEntra, "cloud_c_"), provider.Settings{Options: entraOptions()})
	mustRefuse(t, err, apierr.UpstreamFailed, "token_endpoint_failed")
	_, err = sign(t, auth.New(auth.Options{}), row(provider.MethodEntra, "cloud_c_"), provider.Settings{Options: entraOptions()})
	mustRefuse(t, err, apierr.UpstreamFailed, "token_endpoint_failed")
}

func TestAnEndpointThatHangsTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		hang := doer(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		s := auth.New(auth.Options{Client: hang, Now: func() time.Time { return w.now }})
		_, err := sign(t, s, row(provider.MethodEntra, "cloud_c_"), provider.Settings{Options: entraOptions()})
		mustRefuse(t, err, apierr.UpstreamTimeout, "token_endpoint_failed")
	})
}

type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(r *http.Request, _ bool) (*http.Response, error) { return d(r) }

// Clients may bring any number of credentials.
func TestTheTokensThatAreKeptAreBounded(t *testing.T) {
	w := newWorld()
	w.handleText(entraToken, grant("t", 3600))
	s, spec := w.signer(), row(provider.MethodEntra, "cloud_c_")
	for i := range 10000 {
		mustSign(t, s, spec, provider.Settings{Options: entraOptions("cloud_c_entra_client_id", fmt.Sprint(i))})
	}
	if held := auth.CachedTokens(s); held > 4096 || len(w.asked) != 10000 {
		t.Errorf("%d tokens are held of %d fetched", held, len(w.asked))
	}
}

func TestATargetWithoutAMethodIsLeftAlone(t *testing.T) {
	if got := mustSign(t, newWorld().signer(), row("", ""), provider.Settings{Key: key("k")}); got != "Bearer k" {
		t.Errorf("sent %q", got)
	}
}
