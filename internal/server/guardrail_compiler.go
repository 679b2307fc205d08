package server

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
)

// Waiting for guardrails before a state is published without those that take longer.
const (
	startCompiling  = 10 * time.Second
	changeCompiling = 200 * time.Millisecond
)

// guardrailCompiler compiles each version of a saved guardrail once, in the background:
// one that takes long does not delay what is published, such as the end of a key of
// another organisation. It compiles one guardrail of each organisation at a time. It is
// safe for concurrent use.
type guardrailCompiler struct {
	compile func(*guardrailVersion) *snapshot.Guardrail
	// late is called when a version is compiled that was missing in a snapshot.
	late func()

	workers sync.WaitGroup

	mu       sync.Mutex
	closed   bool                           // guarded by mu, like the following fields
	versions map[string]*guardrailVersion   // that are in use, by key
	queues   map[string][]*guardrailVersion // of organisations with a worker: the versions that wait for it
	last     map[string]*guardrailVersion   // the last one that was published, by id of the guardrail
}

// guardrailVersion is a version of a saved guardrail with the modules that it uses.
type guardrailVersion struct {
	store.Guardrail
	key     string
	modules []publication.Module
	done    chan struct{} // closed when it is compiled

	compiled *snapshot.Guardrail // set before done is closed, like strict
	strict   *snapshot.Guardrail // compiled, failing closed
	late     bool                // missing in a snapshot; guarded by the compiler's mu
}

func newGuardrailCompiler(compile func(*guardrailVersion) *snapshot.Guardrail, late func()) *guardrailCompiler {
	return &guardrailCompiler{
		compile: compile, late: late,
		versions: make(map[string]*guardrailVersion), queues: make(map[string][]*guardrailVersion), last: make(map[string]*guardrailVersion),
	}
}

// start begins to compile the guardrails of a state that are new in it, and returns all
// in the same order.
func (c *guardrailCompiler) start(p *publication.State) []*guardrailVersion {
	list := make([]*guardrailVersion, len(p.Guardrails))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range p.Guardrails {
		v := &guardrailVersion{Guardrail: p.Guardrails[i], modules: modulesOf(&p.Guardrails[i], p.Modules)}
		v.key = fmt.Sprint(v.VersionID, " ", v.Slug)
		for _, m := range v.modules {
			v.key += " " + m.ID
		}
		if known := c.versions[v.key]; known != nil {
			list[i] = known
			continue
		}
		v.done = make(chan struct{})
		c.add(v)
		list[i] = v
	}
	return list
}

// add queues a version. The caller holds the lock.
func (c *guardrailCompiler) add(v *guardrailVersion) {
	c.versions[v.key] = v
	queue, running := c.queues[v.Organisation]
	c.queues[v.Organisation] = append(queue, v)
	if !running {
		c.workers.Go(func() { c.work(v.Organisation) })
	}
}

// work compiles the queue of an organisation.
func (c *guardrailCompiler) work(organisation string) {
	for v := c.next(organisation); v != nil; v = c.next(organisation) {
		compiled := c.compile(v)
		c.mu.Lock()
		v.compiled, v.strict, v.modules = compiled, compiled.FailClosed(), nil
		close(v.done)
		late := v.late && !c.closed
		c.mu.Unlock()
		if late {
			c.late()
		}
	}
}

// next takes the next version of a queue that is still in use, nil if there is none.
func (c *guardrailCompiler) next(organisation string) *guardrailVersion {
	c.mu.Lock()
	defer c.mu.Unlock()
	for queue := c.queues[organisation]; len(queue) > 0 && !c.closed; {
		v := queue[0]
		queue = queue[1:]
		c.queues[organisation] = queue
		if c.versions[v.key] == v {
			return v
		}
	}
	delete(c.queues, organisation)
	return nil
}

// waitFor waits until the versions are compiled, at most until ctx ends.
func waitFor(ctx context.Context, list []*guardrailVersion) {
	for _, v := range list {
		select {
		case <-v.done:
		case <-ctx.Done():
			return
		}
	}
}

// published returns the guardrail of v for a snapshot. While v is not compiled, this is the
// version before it, or one that cannot run if there is none.
func (c *guardrailCompiler) published(v *guardrailVersion, failClosed bool) *snapshot.Guardrail {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := v
	select {
	case <-v.done:
		c.last[v.ID] = v
	default:
		v.late = true
		if from = c.last[v.ID]; from == nil {
			err := apierr.New(apierr.Unavailable, "guardrail %s is being compiled; try again shortly", v.Slug).WithCode("guardrail_compiling")
			return &snapshot.Guardrail{Organisation: v.Organisation, Workspace: v.Workspace, ID: v.ID, Slug: v.Slug, BeforeErr: err, AfterErr: err}
		}
	}
	g := from.compiled
	if failClosed {
		g = from.strict
	}
	if g.Slug != v.Slug {
		renamed := *g
		renamed.Slug = v.Slug
		g = &renamed
	}
	return g
}

// retain forgets all versions except these.
func (c *guardrailCompiler) retain(list []*guardrailVersion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	versions, last := make(map[string]*guardrailVersion, len(list)), make(map[string]*guardrailVersion, len(list))
	for _, v := range list {
		versions[v.key] = v
		if before := c.last[v.ID]; before != nil {
			last[v.ID] = before
		}
	}
	c.versions, c.last = versions, last
	for organisation, queue := range c.queues {
		c.queues[organisation] = slices.DeleteFunc(queue, func(v *guardrailVersion) bool { return versions[v.key] != v })
	}
}

// close ends the workers, and waits for what they compile, though at most a little. A nil
// compiler has none.
func (c *guardrailCompiler) close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		c.workers.Wait()
		close(ended)
	}()
	t := time.NewTimer(lastWords)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
	}
}
