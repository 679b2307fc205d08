package simulator

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
)

// HeaderResponse requests bytes from an unknown path instead of a description:
// SIZE[;seed=N][;type=T][;status=N][;chunked]. SIZE may have a unit. The bytes
// are those of [Bytes].
const HeaderResponse = "X-Simulator-Reply"

// An Echo is the response of an unknown path.
type Echo struct {
	Method     string      `json:"method"`
	URI        string      `json:"uri"`
	Headers    http.Header `json:"headers"`
	BodySHA256 string      `json:"body_sha256"`
	Size       int64       `json:"size"`
}

// Bytes returns a reader of size random-looking bytes, which depend only on the
// seed.
func Bytes(seed uint64, size int64) io.Reader {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	return io.LimitReader(rand.NewChaCha8(key), size)
}

// serveEcho describes the request. It reads the body as a stream.
func serveEcho(x *exchange) {
	digest := sha256.New()
	size, err := io.Copy(digest, x.r.Body)
	if err != nil {
		x.recordDisconnect()
		return
	}
	if !x.begin(nil) {
		return
	}
	if want := x.r.Header.Get(HeaderResponse); want != "" {
		x.sendBytes(want)
		return
	}
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false) // URLs stay readable
	err = enc.Encode(Echo{
		Method: x.r.Method, URI: x.r.RequestURI, Headers: x.r.Header,
		BodySHA256: hex.EncodeToString(digest.Sum(nil)), Size: size,
	})
	if err != nil {
		x.refuse(http.StatusInternalServerError, statusError(http.StatusInternalServerError))
		return
	}
	x.sendBody(http.StatusOK, typeJSON, body.Bytes())
}

// responseSpec is a parsed HeaderResponse.
type responseSpec struct {
	size    int64
	seed    uint64
	kind    string
	status  int
	chunked bool
}

func parseResponseSpec(value string) (w responseSpec, err error) {
	w = responseSpec{kind: "application/octet-stream", status: http.StatusOK}
	for i, item := range strings.Split(value, ";") {
		name, content, _ := strings.Cut(strings.TrimSpace(item), "=")
		switch {
		case i == 0:
			w.size, err = parseSize(name)
			if name == "0" {
				w.size, err = 0, nil
			}
		case name == "seed":
			w.seed, err = strconv.ParseUint(content, 10, 64)
		case name == "type":
			w.kind = content
		case name == "status":
			w.status, err = parseInteger(content, 200, 599)
		case name == "chunked":
			w.chunked = true
		default:
			err = fmt.Errorf("there is no setting %q", name)
		}
		if err != nil {
			return w, fmt.Errorf("%s: %w; write it as SIZE;seed=N;type=T;status=N;chunked", HeaderResponse, err)
		}
	}
	return w, nil
}

func (x *exchange) sendBytes(want string) {
	b, err := parseResponseSpec(want)
	if err != nil {
		x.refuse(http.StatusBadRequest, providerError{kind: invalidRequest, param: HeaderResponse, code: "unknown_reply", message: err.Error()})
		return
	}
	if x.faulty && b.size <= x.sim.opts.MaxBody {
		body, _ := io.ReadAll(Bytes(b.seed, b.size)) // the generator does not fail
		x.sendBody(b.status, []string{b.kind}, body)
		return
	}
	x.w.Header().Set("Content-Type", b.kind)
	if !b.chunked {
		x.w.Header().Set("Content-Length", strconv.FormatInt(b.size, 10))
	}
	x.w.WriteHeader(b.status)
	if b.chunked && !x.flush() {
		return
	}
	if _, err := io.Copy(x.w, Bytes(b.seed, b.size)); err != nil && x.r.Method != http.MethodHead {
		x.recordDisconnect()
	}
}
