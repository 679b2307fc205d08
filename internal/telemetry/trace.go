package telemetry

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"

	"modelgate/internal/reqlog"
)

// traceID returns the trace of an exchange as collectors want it: 16 bytes. A
// UUID and a trace id of W3C are themselves; another text becomes its hash.
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

// spanID returns the span of an exchange: 8 bytes.
func spanID(e *reqlog.Entry) []byte {
	if id, ok := hexID(e.SpanID, 8); ok {
		return id
	}
	return e.ID[8:]
}

// parentID returns the span above an exchange, nil for none.
func parentID(e *reqlog.Entry) []byte {
	id, ok := hexID(e.ParentSpanID, 8)
	if !ok {
		return nil
	}
	return id
}

// attemptID returns the span of an attempt: what its provider was told, else
// one that follows from the exchange and the attempt's number.
func attemptID(e *reqlog.Entry, i int) []byte {
	if id, ok := hexID(e.Attempts[i].SpanID, 8); ok {
		return id
	}
	sum := sha256.Sum256(binary.BigEndian.AppendUint32(e.ID[:], uint32(i)))
	return sum[:8]
}

// hexID reads an id of size bytes that is not all zero.
func hexID(s string, size int) ([]byte, bool) {
	if len(s) != 2*size || strings.Trim(s, "0") == "" {
		return nil, false
	}
	id, err := hex.DecodeString(s)
	return id, err == nil
}

// sampled reports whether the trace of an exchange is sent: as the client's
// traceparent says, else by its id, so that all gateways of a trace agree.
func (x *Exporter) sampled(id reqlog.ID, trace, flags string) bool {
	if len(flags) == 2 {
		return strings.IndexByte("13579bdf", flags[1]) >= 0
	}
	const all = 1 << 56 // the part of a trace id that W3C wants to be random; a UUID has fixed bits before it
	return binary.BigEndian.Uint64(traceID(id, trace)[8:])%all < uint64(x.o.Sample*all)
}

// Traceparent returns a fresh span id for an attempt of the request id, and the
// header of W3C Trace Context that tells its provider of it. trace and flags are
// those of the request, empty without one.
func (x *Exporter) Traceparent(id reqlog.ID, trace, flags string) (span, header string) {
	span = hex.EncodeToString(binary.BigEndian.AppendUint64(nil, rand.Uint64()|1))
	sampled := "-00"
	if x != nil && x.upload != nil && x.sampled(id, trace, flags) {
		sampled = "-01"
	}
	return span, "00-" + hex.EncodeToString(traceID(id, trace)) + "-" + span + sampled
}
