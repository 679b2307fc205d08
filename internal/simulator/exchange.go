package simulator

import (
	"errors"
	"hash/crc32"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"
)

// keepBuffer is the largest buffer that is returned to the pool.
const keepBuffer = 1 << 20

// An exchange is one request while it is handled. Handlers read the body, call
// begin, and then reply or stream.
type exchange struct {
	sim     *Simulator
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	number  int64
	began   time.Time

	protocol       *protocol // nil for the chat protocol
	plan           plan
	faulty         bool   // the plan has faults
	asked          bool   // the request asks for a stream
	parts          bool   // a stream is sent in binary messages with arbitrary parts of it
	model          []byte // as sent, decoded
	rawName        []byte // as sent, raw JSON
	name           string // id of the response, in hex; empty until needed
	prompt         int    // tokens
	cached         int    // tokens of the prompt that are read from the cache
	served         int    // tokens of text sent
	aborted        bool
	disconnectedAt time.Time // when the client was seen to have disconnected

	in, out, text, head []byte // buffers, reused between requests
}

func (x *exchange) start(s *Simulator, w http.ResponseWriter, r *http.Request) {
	*x = exchange{in: x.in[:0], out: x.out[:0], text: x.text[:0], head: x.head[:0]}
	x.sim, x.w, x.r = s, w, r
	x.control = http.NewResponseController(w)
	x.number = s.number.Add(1)
	x.began = time.Now()
}

// finish reports the end of the request. It also runs if the handler panics to
// abort a connection.
func (x *exchange) finish() {
	s := x.sim
	if s.opts.Logger.Enabled(x.r.Context(), slog.LevelDebug) {
		s.opts.Logger.Debug("simulated", "request", x.number, "method", x.r.Method, "path", x.r.URL.Path,
			"model", string(x.model), "aborted", x.aborted, "took", time.Since(x.began))
	}
	if s.opts.Observer != nil {
		s.opts.Observer.FinishRequest(Outcome{
			Request: x.r, Dialect: protocolNames[x.protocol.place()], Model: string(x.model),
			Prompt: x.prompt, Completion: x.served, Cached: x.cached,
			Aborted: x.aborted, Began: x.began, CanceledAt: x.disconnectedAt,
		})
	}
	x.release()
}

func (x *exchange) release() {
	s := x.sim
	for _, b := range []*[]byte{&x.in, &x.out, &x.text, &x.head} {
		if cap(*b) > keepBuffer {
			*b = nil
		}
	}
	*x = exchange{in: x.in, out: x.out, text: x.text, head: x.head}
	s.pool.Put(x)
}

// Values of headers that are the same for every request. net/http only reads
// them.
var (
	typeJSON   = []string{"application/json"}
	typeStream = []string{"text/event-stream; charset=utf-8"}
	noCache    = []string{"no-cache"}
	version    = []string{"2020-10-01"}
	took       = []string{"12"}
	manyCalls  = []string{"10000"}
	callsLeft  = []string{"9999"}
	callsReset = []string{"6ms"}
	manyTokens = []string{"2000000"}
	tokensLeft = []string{"1999000"}
	tokenReset = []string{"30ms"}
)

// headers sets the headers of every response.
func (x *exchange) headers() {
	values := new([2]string) // read after the handler has returned, so not pooled
	values[0] = strconv.FormatInt(x.number, 10)
	values[1] = "req_" + values[0]
	h := x.w.Header()
	h["X-Simulator-Request"] = values[0:1:1]
	h["X-Request-Id"] = values[1:2:2]
	h["Openai-Version"] = version
	h["Openai-Processing-Ms"] = took
	h["X-Ratelimit-Limit-Requests"] = manyCalls
	h["X-Ratelimit-Remaining-Requests"] = callsLeft
	h["X-Ratelimit-Reset-Requests"] = callsReset
	h["X-Ratelimit-Limit-Tokens"] = manyTokens
	h["X-Ratelimit-Remaining-Tokens"] = tokensLeft
	h["X-Ratelimit-Reset-Tokens"] = tokenReset
}

// readBody reads the complete body into memory. It returns false after an error
// response, or if the client disconnected.
func (x *exchange) readBody() bool {
	limit := x.sim.opts.MaxBody
	if x.r.ContentLength > limit {
		x.refuse(http.StatusRequestEntityTooLarge, tooLarge)
		return false
	}
	if n := int(x.r.ContentLength) + 1; n > cap(x.in) {
		x.in = make([]byte, 0, n)
	}
	for {
		if len(x.in) == cap(x.in) {
			x.in = append(x.in, 0)[:len(x.in)]
		}
		n, err := x.r.Body.Read(x.in[len(x.in):cap(x.in)])
		x.in = x.in[:len(x.in)+n]
		if errors.Is(err, io.EOF) {
			return true
		}
		if err != nil {
			x.recordDisconnect()
			return false
		}
		if int64(len(x.in)) > limit {
			x.refuse(http.StatusRequestEntityTooLarge, tooLarge)
			return false
		}
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// id returns a hash of the body.
func (x *exchange) id() uint64 {
	return uint64(crc32.ChecksumIEEE(x.in))<<32 | uint64(crc32.Checksum(x.in, castagnoli))
}

// begin counts the call, chooses the faults and applies those that precede a
// response. name is the model as raw JSON; nil if the request has none. It
// returns false if the request is over.
func (x *exchange) begin(name []byte) bool {
	x.rawName, x.model = name, name
	if plainEnd(name, 0) < len(name) {
		x.model = []byte(plainText(name))
	}
	calls, first := 0, x.began
	if len(name) > 0 {
		calls, first = x.sim.calls.add(x.model)
		if o := x.sim.opts.Observer; o != nil {
			o.BeginCall(string(x.model))
		}
	}
	faults, param := x.r.Header.Get(HeaderFault), HeaderFault
	if faults != "" {
		calls, first = x.sim.calls.add([]byte(HeaderFault + " " + faults + " " + string(x.model)))
	} else if plus := indexByte(x.model, '+'); plus >= 0 {
		faults, param = string(x.model[plus+1:]), "model"
	}
	if faults == "" {
		return true
	}
	var err error
	if x.plan, err = parsePlan(faults); err != nil {
		x.refuse(http.StatusBadRequest, providerError{kind: invalidRequest, param: param, code: "unknown_fault", message: err.Error()})
		return false
	}
	x.applyLimits(calls, first)
	x.faulty = x.plan.faultEffect != faultEffect{}
	return !x.faulty || x.injectFault()
}

func indexByte(b []byte, c byte) int {
	for i := range b {
		if b[i] == c {
			return i
		}
	}
	return -1
}

// applyLimits disables the faults unless they apply to this call.
func (x *exchange) applyLimits(calls int, first time.Time) {
	p := &x.plan
	if p.times > 0 && calls > p.times || p.every > 0 && calls%p.every != 0 {
		p.clearFaults()
	}
	if p.flap > 0 && int64(time.Since(first)/p.flap)%2 == 1 {
		p.clearFaults()
	}
	if p.quota > 0 {
		if used, _ := x.sim.calls.add([]byte("quota " + p.quotaName)); used > p.quota {
			p.status = http.StatusTooManyRequests
		}
	}
}

// sleep waits. It returns false if the client disconnected first.
func (x *exchange) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	return x.await(timer)
}

func (x *exchange) await(timer *time.Timer) bool {
	select {
	case <-timer.C:
		return true
	case <-x.r.Context().Done():
		x.recordDisconnect()
		return false
	}
}

// recordDisconnect records that the client disconnected.
func (x *exchange) recordDisconnect() {
	x.aborted = true
	if x.disconnectedAt.IsZero() {
		x.disconnectedAt = time.Now()
	}
}
