package simulator

import "net/http"

// respond sends a response as one body or as a stream, as requested and as the
// faults demand.
func (x *exchange) respond(asked bool, a *response, complete func(dst []byte) []byte, each func(t *stream)) {
	x.asked = asked
	if x.plan.huge > 0 || x.plan.gzipBomb {
		x.deliverHuge(complete, each)
		return
	}
	if !x.plan.streams(asked) {
		x.out = complete(x.out[:0])
		x.served = a.tokens
		x.sendBody(http.StatusOK, typeJSON, x.out)
		return
	}
	if t, ok := x.openStream(); ok {
		each(t)
		t.close()
	}
}
