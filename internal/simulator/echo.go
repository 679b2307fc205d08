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

// HeaderReply asks an unknown path for bytes instead of a description:
// SIZE[;seed=N][;type=T][;status=N][;chunked]. SIZE may have a unit. The bytes
// are those of [Bytes].
const HeaderReply = "X-Simulator-Reply"

// An Echo is what an unknown path is answered with.
type Echo struct {
	Method     string      `json:"method"`
	URI        string      `json:"uri"`
	Headers    http.Header `json:"headers"`
	BodySHA256 string      `json:"body_sha256"`
	Size       int64       `json:"size"`
}

// Bytes returns a reader of size bytes that look random and are always the
// same for a seed.
func Bytes(seed uint64, size int64) io.Reader {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	return io.LimitReader(rand.NewChaCha8(key), size)
}

// answerEcho describes the request, whose body it reads as a stream.
func answerEcho(x *exchange) {
	digest := sha256.New()
	size, err := io.Copy(digest, x.r.Body)
	if err != nil {
		x.lost()
		return
	}
	if !x.begin(nil) {
		return
	}
	if want := x.r.Header.Get(HeaderReply); want != "" {
		x.answerBytes(want)
		return
	}
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false) // the address is shown as it came
	err = enc.Encode(Echo{
		Method: x.r.Method, URI: x.r.RequestURI, Headers: x.r.Header,
		BodySHA256: hex.EncodeToString(digest.Sum(nil)), Size: size,
	})
	if err != nil {
		x.refuse(http.StatusInternalServerError, statusError(http.StatusInternalServerError))
		return
	}
	x.reply(http.StatusOK, typeJSON, body.Bytes())
}

// bytesWanted is what HeaderReply asks for.
type bytesWanted struct {
	size    int64
	seed    uint64
	kind    string
	status  int
	chunked bool
}

func parseReply(value string) (w bytesWanted, err error) {
	w = bytesWanted{kind: "application/octet-stream", status: http.StatusOK}
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
			w.status, err = parseWhole(content, 200, 599)
		case name == "chunked":
			w.chunked = true
		default:
			err = fmt.Errorf("there is no setting %q", name)
		}
		if err != nil {
			return w, fmt.Errorf("%s: %w; write it as SIZE;seed=N;type=T;status=N;chunked", HeaderReply, err)
		}
	}
	return w, nil
}

func (x *exchange) answerBytes(want string) {
	b, err := parseReply(want)
	if err != nil {
		x.refuse(http.StatusBadRequest, providerError{kind: invalidRequest, param: HeaderReply, code: "unknown_reply", message: err.Error()})
		return
	}
	if x.faulty && b.size <= x.sim.opts.MaxBody {
		body, _ := io.ReadAll(Bytes(b.seed, b.size)) // the generator does not fail
		x.reply(b.status, []string{b.kind}, body)
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
		x.lost()
	}
}
