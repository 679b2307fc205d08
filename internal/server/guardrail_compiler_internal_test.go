package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/guardrail"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
)

// slowCompiler compiles guardrails; those of the organisation "slow" take a minute.
type slowCompiler struct {
	*guardrailCompiler
	mu    sync.Mutex
	order []string // versions, guarded by mu
	late  int      // guarded by mu
}

func newSlowCompiler() *slowCompiler {
	c := new(slowCompiler)
	late := func() { c.note(func() { c.late++ }) }
	c.guardrailCompiler = newGuardrailCompiler(func(v *guardrailVersion) *snapshot.Guardrail {
		c.note(func() { c.order = append(c.order, v.VersionID) })
		if v.Organisation == "slow" {
			time.Sleep(time.Minute)
		}
		return &snapshot.Guardrail{Organisation: v.Organisation, ID: v.ID, Slug: v.Slug, Before: &guardrail.Hook{VersionID: v.VersionID}}
	}, late)
	return c
}

func (c *slowCompiler) note(what func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what()
}

// compiled returns the versions in the order in which they were compiled.
func (c *slowCompiler) compiled() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.order)
}

// publish publishes versions as a server does, and returns what a snapshot gets and how
// long it waited.
func (c *slowCompiler) publish(t *testing.T, versions ...store.Guardrail) ([]*snapshot.Guardrail, time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), changeCompiling)
	defer cancel()
	began := time.Now()
	list := c.start(&publication.State{Guardrails: versions})
	waitFor(ctx, list)
	out := make([]*snapshot.Guardrail, len(list))
	for i, v := range list {
		out[i] = c.published(v, false)
	}
	c.retain(list)
	return out, time.Since(began)
}

func savedVersion(organisation, id string, n int) store.Guardrail {
	return store.Guardrail{Organisation: organisation, ID: id, Slug: id, VersionID: fmt.Sprint(id, ".", n)}
}

func TestSlowGuardrailDelaysNoOtherOrganisation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSlowCompiler()
		got, took := c.publish(t, savedVersion("slow", "s", 1), savedVersion("quick", "q", 1))
		if took > changeCompiling || got[1].Before == nil || got[1].Before.VersionID != "q.1" {
			t.Errorf("published after %s: %+v", took, got[1])
		}
		pending, ok := errors.AsType[*apierr.Error](got[0].BeforeErr)
		if !ok || pending.Kind != apierr.Unavailable || pending.Code != "guardrail_compiling" || got[0].Before != nil {
			t.Errorf("the slow guardrail is published as %+v", got[0])
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if c.late != 1 {
			t.Errorf("%d further publications requested, want 1 for the slow guardrail", c.late)
		}
		if got, _ := c.publish(t, savedVersion("slow", "s", 1), savedVersion("quick", "q", 1)); got[0].Before.VersionID != "s.1" {
			t.Errorf("the slow guardrail is published as %+v", got[0])
		}
		if got := c.compiled(); len(got) != 2 {
			t.Errorf("compiled %v, want each version once", got)
		}
	})
}

func TestGuardrailAppliesUntilItsNextVersionIsCompiled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSlowCompiler()
		c.publish(t, savedVersion("slow", "s", 1))
		time.Sleep(time.Minute)
		c.publish(t, savedVersion("slow", "s", 1))
		for n := 2; n <= 5; n++ {
			one := savedVersion("slow", "s", n)
			one.Slug = "renamed"
			if got, _ := c.publish(t, one); got[0].Before == nil || got[0].Before.VersionID != "s.1" || got[0].Slug != "renamed" {
				t.Errorf("version %d is published as %+v, want version 1 until it is compiled", n, got[0])
			}
		}
		time.Sleep(3 * time.Minute)
		if got, want := c.compiled(), []string{"s.1", "s.2", "s.5"}; !slices.Equal(got, want) { // the others were replaced before their turn
			t.Errorf("compiled %v, want %v", got, want)
		}
	})
}

func TestFailClosedNeedsNoSecondCompilation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSlowCompiler()
		list := c.start(&publication.State{Guardrails: []store.Guardrail{savedVersion("quick", "q", 1)}})
		waitFor(t.Context(), list)
		if open, strict := c.published(list[0], false), c.published(list[0], true); open.Before.FailClosed || !strict.Before.FailClosed || len(c.compiled()) != 1 {
			t.Errorf("open %+v, closed %+v, compiled %v", open.Before, strict.Before, c.compiled())
		}
	})
}

func TestClosedCompilerStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSlowCompiler()
		c.start(&publication.State{Guardrails: []store.Guardrail{savedVersion("slow", "s", 1), savedVersion("slow", "r", 1)}})
		synctest.Wait()
		began := time.Now()
		c.close()
		if took := time.Since(began); took > lastWords {
			t.Errorf("closing took %s", took)
		}
		time.Sleep(2 * time.Minute)
		if got := c.compiled(); len(got) != 1 {
			t.Errorf("compiled %v", got)
		}
	})
}
