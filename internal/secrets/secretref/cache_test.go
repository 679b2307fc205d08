package secretref_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/secrets/secretref"
)

// cached is a cache of one variable, in a bubble.
type cached struct {
	*secretref.Cache
	*variables
	ref     secretref.Reference
	changes atomic.Int64
	log     bytes.Buffer
}

// keeping runs f with a cache whose variable APP_KEY has a value.
func keeping(t *testing.T, f func(t *testing.T, k *cached)) {
	synctest.Test(t, func(t *testing.T) {
		k := &cached{variables: &variables{values: map[string]string{"APP_KEY": canary}}, ref: secretref.Reference{ID: "ref-1", Manager: secretref.Environment, Path: "APP_KEY"}}
		r := secretref.New(secretref.Options{Environment: []string{"APP_*"}, LookupEnv: k.lookup})
		k.Cache = secretref.NewCache(r, secretref.CacheOptions{
			Logger: slog.New(slog.NewTextHandler(&k.log, nil)), Changed: func() { k.changes.Add(1) },
		})
		f(t, k)
		k.Close()
		if strings.Contains(k.log.String(), "canary") {
			t.Errorf("the log holds a value: %s", k.log.String())
		}
	})
}

// sleepFor lets time pass.
func sleepFor(d time.Duration) {
	time.Sleep(d) // of the bubble's clock
	synctest.Wait()
}

func (k *cached) wantValue(t *testing.T, value, code string) {
	t.Helper()
	v, err := k.Value(k.ref)
	if code != "" {
		wantCode(t, err, code)
		return
	}
	if err != nil || v.Reveal() != value {
		t.Errorf("Value = %q, %v, want %q", v.Reveal(), err, value)
	}
}

func TestAValueIsReadAgainBeforeItIsTooOld(t *testing.T) {
	keeping(t, func(t *testing.T, k *cached) {
		k.wantValue(t, "", "secret_pending")
		k.Add(t.Context(), []secretref.Reference{k.ref})
		k.wantValue(t, canary, "")
		k.set("APP_KEY", canary+"-2")
		sleepFor(3*time.Minute + 59*time.Second)
		k.wantValue(t, canary, "")
		if k.count() != 1 || k.changes.Load() != 0 {
			t.Errorf("%d reads, %d changes", k.count(), k.changes.Load())
		}
		sleepFor(time.Second)
		k.wantValue(t, canary+"-2", "")
		sleepFor(40 * time.Minute)
		if k.count() != 12 || k.changes.Load() != 1 {
			t.Errorf("%d reads, %d changes; want one every four minutes and one", k.count(), k.changes.Load())
		}
	})
}

func TestReferencesToOneSecretShareIt(t *testing.T) {
	keeping(t, func(t *testing.T, k *cached) {
		k.set("APP_KEY", `{"a":"1","b":"2"}`)
		a, b := k.ref, k.ref
		a.Key, b.Key, b.ID = "a", "b", "ref-2"
		k.Add(t.Context(), []secretref.Reference{a, b, a})
		k.Add(t.Context(), []secretref.Reference{b})
		v, err := k.Value(a)
		w, err2 := k.Value(b)
		if v.Reveal() != "1" || w.Reveal() != "2" || k.count() != 1 {
			t.Errorf("%v %v, %v %v after %d reads", v.Reveal(), err, w.Reveal(), err2, k.count())
		}
	})
}

func TestASlowManagerDoesNotHoldUpWhoWaits(t *testing.T) {
	keeping(t, func(t *testing.T, k *cached) {
		k.wait = func() { time.Sleep(3 * time.Second) }
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		k.Add(ctx, []secretref.Reference{k.ref})
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("waited %v", took)
		}
		k.wantValue(t, "", "secret_pending")
		sleepFor(3 * time.Second)
		k.wantValue(t, canary, "")
		if k.changes.Load() != 1 {
			t.Errorf("%d changes", k.changes.Load())
		}
	})
}

func TestTheLastValueStaysForAnHourWhileItsManagerIsAway(t *testing.T) {
	keeping(t, func(t *testing.T, k *cached) {
		k.Add(t.Context(), []secretref.Reference{k.ref})
		k.wantValue(t, canary, "")
		k.unset("APP_KEY")
		sleepFor(59 * time.Minute)
		k.wantValue(t, canary, "")
		if s := k.Stats(); s.Stale != 1 || s.Failed != 0 || s.Failures < 50 || s.Failures > 65 || k.changes.Load() != 0 {
			t.Errorf("%+v after %d changes", s, k.changes.Load())
		}
		sleepFor(2 * time.Minute)
		k.wantValue(t, "", "secret_not_found")
		if s := k.Stats(); s.Stale != 0 || s.Failed != 1 || k.changes.Load() != 1 {
			t.Errorf("%+v after %d changes", s, k.changes.Load())
		}
		k.set("APP_KEY", canary)
		sleepFor(time.Minute)
		k.wantValue(t, canary, "")
		if s := k.Stats(); s.Failed != 0 || k.changes.Load() != 2 {
			t.Errorf("%+v after %d changes", s, k.changes.Load())
		}
		lines := strings.Count(k.log.String(), "\n")
		for _, line := range []string{"using the last value", "too old", "reading a secret recovered", "reference=ref-1"} {
			if !strings.Contains(k.log.String(), line) || lines != 3 {
				t.Errorf("the log has %d lines and not %q:\n%s", lines, line, k.log.String())
			}
		}
	})
}

func TestUnreadableSecretsAreRetriedWithBackoff(t *testing.T) {
	keeping(t, func(t *testing.T, k *cached) {
		k.unset("APP_KEY")
		k.Add(t.Context(), []secretref.Reference{k.ref})
		k.wantValue(t, "", "secret_not_found")
		for _, tt := range []struct {
			after time.Duration
			reads int
		}{{time.Second, 2}, {2 * time.Second, 3}, {4 * time.Second, 4}, {8 * time.Second, 5}, {16 * time.Second, 6}, {32 * time.Second, 7}, {time.Minute, 8}, {time.Minute, 9}} {
			sleepFor(tt.after)
			if k.count() != tt.reads {
				t.Errorf("%d reads, want %d", k.count(), tt.reads)
			}
		}
		if k.changes.Load() != 0 {
			t.Errorf("%d changes though nothing did", k.changes.Load())
		}
		k.set("APP_KEY", "\x00")
		sleepFor(time.Minute)
		k.wantValue(t, "", "secret_malformed")
		k.set("APP_KEY", canary)
		sleepFor(4 * time.Minute)
		k.wantValue(t, canary, "")
		if k.changes.Load() != 2 {
			t.Errorf("%d changes", k.changes.Load())
		}
	})
}

func TestUnusedSecretsAreForgotten(t *testing.T) {
	keeping(t, func(t *testing.T, k *cached) {
		other := k.ref
		other.Path = "APP_OTHER"
		k.set("APP_OTHER", canary)
		k.Add(t.Context(), []secretref.Reference{k.ref, other})
		k.Retain([]secretref.Reference{other})
		k.wantValue(t, "", "secret_pending")
		sleepFor(4 * time.Minute)
		if s := k.Stats(); s.Kept != 1 || k.count() != 3 {
			t.Errorf("%+v after %d reads", s, k.count())
		}
	})
}

func TestAClosedCacheReadsNothingMore(t *testing.T) {
	keeping(t, func(t *testing.T, k *cached) {
		k.Add(t.Context(), []secretref.Reference{k.ref})
		k.Close()
		k.Add(t.Context(), []secretref.Reference{{Manager: secretref.Environment, Path: "APP_OTHER"}})
		sleepFor(time.Hour)
		if k.count() != 1 {
			t.Errorf("%d reads", k.count())
		}
	})
}

func TestAChangedReferenceIsAnotherSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := secretref.NewCache(secretref.New(secretref.Options{}), secretref.CacheOptions{})
		defer c.Close()
		a := inVault("https://vault.example.com")
		b, masked := a, withAuth(a, "token", "another mask")
		b.Secrets = credentials("token", "canary-other")
		c.Add(t.Context(), []secretref.Reference{a, b, masked, withAuth(a, "namespace", "x"), inAWS()})
		if s := c.Stats(); s.Kept != 4 {
			t.Errorf("%+v, want that a mask tells nothing apart", s)
		}
	})
}
