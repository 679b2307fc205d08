package attempt

import (
	"io"
	"net/http"
)

// upstreamBody is a body whose errors are converted to failures and whose reads
// restart the idle timeout.
type upstreamBody struct {
	attempt *attempt
	res     *http.Response
	src     io.Reader
	read    int64 // bytes so far
	ended   bool  // after the last byte
}

func (b *upstreamBody) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	b.read += int64(n)
	b.ended = b.ended || err == io.EOF
	if n > 0 {
		b.attempt.plan.timers.eventReceived()
	}
	if err != nil && err != io.EOF {
		err = b.attempt.failure(b.res.Request, err)
		if b.attempt.usable {
			observeBroken(b.attempt, err)
		}
	}
	return n, err
}
