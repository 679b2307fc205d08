package telemetry

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"

	"modelgate/internal/records/reqlog"
)

// traceID returns the trace id of an exchange as 16 bytes. A UUID or W3C trace id is
// used directly; other strings are hashed.
func traceID(id reqlog.ID, trace string) []byte {
	if b, ok := hexID(strings.ReplaceAll(trace, "-", ""), 16); ok {
		return b
	}
	if trace == "" {
		return id[:]
	}
	sum := sha256.Sum256([]byte(trace))
	return sum[:16]
}

// spanID returns the span id of an exchange, 8 bytes.
func spanID(e *reqlog.Entry) []byte {
	if id, ok := hexID(e.SpanID, 8); ok {
		return id
	}
	return e.ID[8:]
}

// parentID returns the id of the parent span, nil for none.
func parentID(e *reqlog.Entry) []byte {
	id, ok := hexID(e.ParentSpanID, 8)
	if !ok {
		return nil
	}
	return id
}

// attemptID returns the span id of an attempt: the one sent to its provider, otherwise
// one derived from the exchange and the attempt's number.
func attemptID(e *reqlog.Entry, i int) []byte {
	if id, ok := hexID(e.Attempts[i].SpanID, 8); ok {
		return id
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint32(e.ID[:], uint32(i)))
	return sum[:8]
}

// hexID decodes an id of size bytes that is not all zero.
func hexID(s string, size int) ([]byte, bool) {
	if len(s) != 2*size || strings.Trim(s, "0") == "" {
		return nil, false
	}
	id, err := hex.DecodeString(s)
	return id, err == nil
}

// sampled reports whether the trace of an exchange is sent: by the client's
// traceparent, otherwise by its id, so that all gateways of a trace agree.
func (x *Exporter) sampled(id reqlog.ID, trace, flags string) bool {
	if len(flags) == 2 {
		return strings.IndexByte("13579bdf", flags[1]) >= 0
	}
	const all = 1 << 56 // the random part of a W3C trace id; a UUID has fixed bits before it
	return binary.BigEndian.Uint64(traceID(id, trace)[8:])%all < uint64(x.o.Sample*all)
}

// Traceparent returns a new span id for an attempt of the request id, and the W3C Trace
// Context header for its provider. Trace and flags are those of the request, empty
// without one.
func (x *Exporter) Traceparent(id reqlog.ID, trace, flags string) (span, header string) {
	span = hex.EncodeToString(binary.BigEndian.AppendUint64(nil, rand.Uint64()|1))
	sampled := "-00"
	if x != nil && x.upload != nil && x.sampled(id, trace, flags) {
		sampled = "-01"
	}
	return span, "00-" + hex.EncodeToString(traceID(id, trace)) + "-" + span + sampled
}
