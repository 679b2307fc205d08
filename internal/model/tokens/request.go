package tokens

import (
	"bytes"
	"math"
)

// Tokens of parts of a request that are not text.
const (
	messageTokens = 4    // around each message
	mediaTokens   = 1000 // of an image, a recording or a file, at least
	mediaBytes    = 1000 // of one, per token
	sealedBytes   = 4    // of text that only its provider can read, per token
)

// maxText is the limit of the text that is read of a request, in bytes.
const maxText = 4 << 20

// EstimateRequest returns an estimate of the tokens of a JSON request: of its messages, of
// tools and what providers add for them, and of its media. A number in an array of input or
// prompt is a token. Body may be invalid JSON.
func EstimateRequest(provider, model string, body []byte) int64 {
	var read []byte
	other, rest := int64(0), int64(0)
	tools := walk(body, func(kind piece, part []byte) {
		switch {
		case kind != text:
			other += tokensOf(kind, part)
		case len(read) < maxText:
			read = append(append(read, unescape(part)...), '\n')
		default:
			rest += size(part)
		}
	})
	n := Estimate(provider, model, read)
	if rest > 0 { // the rest is like the beginning
		n = int64(math.Ceil(float64(n) * (1 + float64(rest)/float64(size(read)))))
	}
	if tools {
		n += familyOf(provider, model).tools
	}
	return n + other
}

// SizeRequest returns an estimate of the tokens of a JSON request by its bytes, which takes
// microseconds: a token for three bytes other than spaces. It is more than most providers
// count, and never less than a third of what a tokenizer can count, which has at most one
// token for each byte. Body may be invalid JSON.
func SizeRequest(provider, model string, body []byte) int64 {
	n, other := size(body), int64(0)
	tools := walk(body, func(kind piece, part []byte) {
		switch kind {
		case media:
			n -= size(part)
			other += tokensOf(kind, part)
		}
	})
	f := familyOf(provider, model)
	if tools {
		other += f.tools
	}
	return int64(math.Ceil(float64(n)*max(f.factor, 1)/perToken)) + other
}

// SizeText returns an estimate of the tokens of n bytes of unknown text, as [SizeRequest]
// does.
func SizeText(n int64) int64 { return (n + 2) / 3 }

// tokensOf returns the tokens of a part that is not text.
func tokensOf(kind piece, part []byte) int64 {
	switch n := int64(len(part)); kind {
	case media:
		return max(mediaTokens, n/mediaBytes)
	case sealed:
		return n / sealedBytes
	case message:
		return messageTokens
	}
	return 1
}

// The sizes of bytes of JSON text, of which perToken are a token. Tokenizers merge spaces
// with words and with each other.
const (
	perToken  = 48
	byteSize  = perToken / 3
	spaceSize = perToken / 16
)

// size returns the size of JSON text. An escaped character counts as three bytes, the
// longest that it stands for.
func size(b []byte) int64 {
	spaces, spelt := bytes.Count(b, []byte{' '}), 0
	for rest := b; ; {
		i := bytes.IndexByte(rest, '\\')
		if i < 0 || i+1 == len(rest) {
			return int64(len(b)-spaces-3*spelt)*byteSize + int64(spaces)*spaceSize
		}
		if rest[i+1] == 'u' {
			spelt++
		}
		rest = rest[i+2:]
	}
}
