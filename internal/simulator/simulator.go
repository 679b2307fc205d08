// Package simulator provides model providers that do not exist: one
// [http.Handler] that answers like a real provider and misbehaves on request.
//
// It speaks the chat protocol (chat completions, completions, embeddings,
// images, audio, moderations, models, files) under /v1 or without it, and the
// protocols messages, responses, gemini, converse, cohere and ollama on the
// paths of their providers. In those it refuses what the real provider would
// refuse, so that a bad translation is noticed. It answers every other path
// with a description of the request, so that pass-through can be checked. A
// fault is chosen by the model's name or by a header; [Faults] lists them.
//
// It promises that the answer to a body is always the same, that usage figures
// do not depend on streaming, and that it stops as soon as the client leaves.
// One token is four bytes of text, rounded up. Listening on a socket and
// reading command lines are left to others.
package simulator

import (
	"crypto/subtle"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultTokens  = 64
	defaultMaxBody = 64 << 20
)

// Options are the settings of a simulator. The zero value works: no key is
// asked for, streams are not paced and nothing is recorded.
type Options struct {
	// Key must be carried by every request when it is not empty: as a bearer
	// token, in X-Api-Key, Api-Key or X-Goog-Api-Key, or as the query parameter key.
	Key string
	// Judge decides on every request whose body was read into memory, where it
	// is not nil; the body must not be changed or kept. An error is answered 403
	// with its text. Requests whose Authorization is an AWS signature need no
	// Key then. It is called by many requests at once.
	Judge func(r *http.Request, body []byte) error
	// Models are the names that the list of models shows. Any name is
	// answered, listed or not. Empty means sim-1, sim-1-mini and sim-embed-1.
	Models []string
	// Pace is the delay before every frame of a stream but the first. Zero
	// means none.
	Pace time.Duration
	// Tokens is the least length of an answer. Zero means 64. An answer holds
	// the whole last user message even where that is longer.
	Tokens int
	// Logger receives one line per request at debug level. Nil means silence.
	Logger *slog.Logger
	// Record is how many of the latest requests are kept. Zero means none.
	Record int
	// MaxBody is the largest body read into memory, in bytes; a larger one is
	// answered 413. Zero means 64 MiB. Uploads and unknown paths are read as a
	// stream and have no limit.
	MaxBody int64
	// MaxFiles is the room for uploaded files, in bytes; the oldest make way.
	// Zero means 64 MiB.
	MaxFiles int64
}

// Simulator is the providers. It is safe for concurrent use.
type Simulator struct {
	opts   Options
	routes routes
	number atomic.Int64
	pool   sync.Pool // of *exchange
	books  callRecords
	files  fileStore
}

// New returns a simulator. It starts no goroutine and needs no closing.
func New(opts Options) *Simulator {
	if opts.Tokens <= 0 {
		opts.Tokens = defaultTokens
	}
	if opts.MaxBody <= 0 {
		opts.MaxBody = defaultMaxBody
	}
	if opts.MaxFiles <= 0 {
		opts.MaxFiles = defaultMaxBody
	}
	if len(opts.Models) == 0 {
		opts.Models = []string{"sim-1", "sim-1-mini", "sim-embed-1"}
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Simulator{opts: opts, routes: newRoutes()}
	s.pool.New = func() any { return new(exchange) }
	s.files.limit = opts.MaxFiles
	return s
}

var _ http.Handler = (*Simulator)(nil)

// ServeHTTP answers one request.
func (s *Simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := s.pool.Get().(*exchange)
	x.start(s, w, r)
	defer x.finish()
	service := s.routes.find(r.Method, r.URL.Path)
	x.speech = service.speech
	x.headers()
	if !s.authorised(r) {
		x.refuse(http.StatusUnauthorized, badKey)
		return
	}
	service.answer(x)
}

// Reset forgets every request, count, total and file, as if the simulator were
// new. Requests in progress are counted when they finish.
func (s *Simulator) Reset() {
	s.books.reset()
	s.files.reset()
}

func (s *Simulator) authorised(r *http.Request) bool {
	if s.opts.Key == "" {
		return true
	}
	if s.opts.Judge != nil && strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ") {
		return true
	}
	return subtle.ConstantTimeCompare([]byte(offeredKey(r)), []byte(s.opts.Key)) == 1
}

func offeredKey(r *http.Request) string {
	const scheme = "Bearer "
	if a := r.Header.Get("Authorization"); len(a) > len(scheme) && a[:len(scheme)] == scheme {
		return a[len(scheme):]
	}
	for _, name := range []string{"X-Api-Key", "Api-Key", "X-Goog-Api-Key"} {
		if key := r.Header.Get(name); key != "" {
			return key
		}
	}
	return r.URL.Query().Get("key")
}
