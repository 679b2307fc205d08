package pipelinetest

import (
	"net/http"
	"time"

	"modelgate/internal/base/apierr"
)

// Response is how a scripted target answers one call. The zero value is a
// success without delay.
type Response struct {
	Status int // 0 is 200
	header http.Header
	Err    error
	After  time.Duration
	Panics bool
	Final  bool // whether it responds like this even if it is cancelled before
}

// refusedCode is a code that the gateway itself does not have.
const refusedCode = "upstream_refused"

// Status returns a response with a status and headers, which are pairs of a name and a
// value.
func Status(status int, header ...string) Response {
	a := Response{Status: status, header: http.Header{}}
	for i := 0; i+1 < len(header); i += 2 {
		a.header.Set(header[i], header[i+1])
	}
	return a
}

// Refusal returns the error of a provider that refuses, with a code that only tests have.
func Refusal() Response {
	return Response{Err: apierr.New(apierr.UpstreamFailed, "refused").WithCode(refusedCode)}
}

// Error returns an error of a kind.
func Error(k apierr.Kind) Response { return Response{Err: apierr.New(k, "error of kind %d", k)} }

// script answers the calls of a target: call n, counted from 0, gets responses[n], and
// the last one serves all further calls.
func script(responses ...Response) func(n int) Response {
	return func(n int) Response { return responses[min(n, len(responses)-1)] }
}
