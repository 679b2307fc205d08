package exchange

import (
	"cmp"

	"modelgate/internal/base/bytepool"
)

// Bounds limit what one request may take.
type Bounds struct {
	Pool *bytepool.Pool

	// MaxEvent limits one event of a stream, and MaxDecoded a compressed
	// response after decompression, in bytes.
	MaxEvent   int
	MaxDecoded int64

	// MaxAttempts is the limit of requests to providers for one request,
	// including retries, fallbacks, hedges, continuations and pieces. Zero
	// means 32.
	MaxAttempts int
}

// defaultAttempts is the limit of attempts of a request without a limit.
const defaultAttempts = 32

// AttemptLimit returns the maximum number of attempts of one request. The limit of nil
// is the default.
func (b *Bounds) AttemptLimit() int {
	if b == nil { // of a tree without targets
		return defaultAttempts
	}
	return cmp.Or(b.MaxAttempts, defaultAttempts)
}

// MaxTranslated is the limit in bytes of a complete response that is decoded.
const MaxTranslated = 64 << 20
