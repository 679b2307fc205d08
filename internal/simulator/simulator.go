// Package simulator provides fake model providers: one [http.Handler] that
// responds like a real provider and misbehaves on request.
//
// It has the chat protocol (chat completions, completions, embeddings, images,
// audio, moderations, models, files, batches, fine-tuning) with or without /v1,
// and the protocols messages and gemini (with their files and batches),
// responses, converse, cohere and ollama on the paths of their providers, and the
// jobs of other vendors. It rejects what the real provider would reject, so that
// a wrong translation is noticed. It answers every other path with a description
// of the request, to test pass-through. Faults are chosen by the model's name or
// by a header; [Faults] lists them.
//
// What clients store is kept in memory, within limits. Nothing runs in the
// background: a job moves on when it is read.
//
// It guarantees that the response to a body is always the same, except ids of
// what is stored, that usage does not depend on streaming, and that it stops as
// soon as the client disconnects.
// One token is four bytes of text, rounded up. It does not listen on a socket
// or parse command lines.
package simulator

import (
	"crypto/subtle"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultTokens  = 64
	defaultMaxBody = 64 << 20
)

// Options are the settings of a simulator. The zero value works: no key is
// required and streams are not paced.
type Options struct {
	// Key, if not empty, is required in every request: as a bearer token, in
	// X-Api-Key, Api-Key or X-Goog-Api-Key, or as the query parameter key.
	Key string
	// Script, if not nil, chooses the response to a conversation whose content it
	// gets. If it returns nil, the response is the usual one. It may be called
	// concurrently.
	Script func(r *Report) *ScriptedResponse
	// Models are the names in the list of models. Other names work too. Empty
	// means sim-1, sim-1-mini and sim-embed-1.
	Models []string
	// Pace is the delay before every frame of a stream except the first. Zero
	// means none.
	Pace time.Duration
	// Tokens is the minimum length of a response. Zero means 64. A response
	// contains the complete last user message even if that is longer.
	Tokens int
	// Logger receives one line per request at debug level. Nil means silence.
	Logger *slog.Logger
	// Observer follows requests. Nil means none.
	Observer Observer
	// MaxBody is the maximum size in bytes of a body that is read into memory;
	// a larger one gets the response 413. Zero means 64 MiB. Uploads and
	// unknown paths are read as a stream and have no limit.
	MaxBody int64
	// MaxFiles is the limit of uploaded files in bytes, and as much again for all
	// other stored objects; the oldest are removed. Zero means 64 MiB.
	MaxFiles int64
	// Buckets is a folder with a folder for each bucket of S3, in which another server keeps
	// the objects. Jobs of Bedrock read and write them there. Empty means that the simulator
	// has the buckets itself.
	Buckets string
}

// Simulator serves the fake providers. It is safe for concurrent use.
type Simulator struct {
	opts   Options
	routes routes
	number atomic.Int64
	pool   sync.Pool // of *exchange
	calls  callCounts
	files  fileStore
	stored recordStore
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
	s.files.limit, s.stored.limit = opts.MaxFiles, opts.MaxFiles
	return s
}

var _ http.Handler = (*Simulator)(nil)

// ServeHTTP answers one request.
func (s *Simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.serve(w, r, false) }

// serve answers a request. A trusted one needs no key.
func (s *Simulator) serve(w http.ResponseWriter, r *http.Request, trusted bool) {
	x := s.pool.Get().(*exchange)
	x.start(s, w, r)
	defer x.finish()
	service := s.routes.find(r)
	x.protocol = service.protocol
	x.headers()
	if !trusted && !s.authorised(r) && !s.files.hasUpload(r) && !isSigned(r) {
		x.refuse(http.StatusUnauthorized, badKey)
		return
	}
	if isSigned(r) && r.Header.Get("Authorization") != "" {
		x.refuse(http.StatusBadRequest, twoKeys)
		return
	}
	service.serve(x)
}

// Reset removes every counter, file and other stored object, as if the simulator were new.
func (s *Simulator) Reset() {
	s.calls.reset()
	s.files.reset()
	s.stored.reset()
}

func (s *Simulator) authorised(r *http.Request) bool {
	if s.opts.Key == "" {
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
