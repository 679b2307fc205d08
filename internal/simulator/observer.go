package simulator

import (
	"net/http"
	"sync"
	"time"
)

// maxNames is the number of names with separate counters; calls of other names
// are all taken for first calls.
const maxNames = 4096

// An Observer follows the requests of a simulator. Its methods may be called
// concurrently.
type Observer interface {
	// BeginCall is called when the model's name is known, before its faults take
	// effect. It is not called for requests without a model.
	BeginCall(model string)
	// FinishRequest is called once for each request, when it has ended.
	FinishRequest(Outcome)
}

// An Outcome is what happened to a request.
type Outcome struct {
	// Request is the request as it was passed to ServeHTTP.
	Request *http.Request
	// Dialect is the protocol by its name: chat, messages, responses, gemini,
	// converse, cohere, ollama.
	Dialect string
	// Model is empty if the request has none.
	Model string
	// Prompt, Completion and Cached are tokens as the simulator would bill them:
	// text that was sent counts, even if the response was cut or its usage
	// withheld. Cached is part of Prompt.
	Prompt, Completion, Cached int
	// Aborted is true if a fault or the client broke the request off.
	Aborted bool
	// Began is when the request arrived, and CanceledAt when the client was
	// seen to have disconnected; zero if it did not.
	Began, CanceledAt time.Time
}

// callCounts counts calls by name, for faults that apply to some of them.
type callCounts struct {
	mu     sync.Mutex
	byName map[string]*callCount // guarded by mu
}

type callCount struct {
	calls int
	first time.Time
}

// add counts a call of the name and returns the number of calls and the time of
// the first.
func (c *callCounts) add(name []byte) (calls int, first time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.byName[string(name)]
	if n == nil {
		if len(c.byName) >= maxNames {
			return 1, time.Now()
		}
		if c.byName == nil {
			c.byName = make(map[string]*callCount)
		}
		n = &callCount{first: time.Now()}
		c.byName[string(name)] = n
	}
	n.calls++
	return n.calls, n.first
}

func (c *callCounts) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.byName)
}
