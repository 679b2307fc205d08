package pipeline

import (
	"bytes"

	"modelgate/internal/bytepool"
)

// What a request body takes in memory while it is translated, in bytes: decoded
// and encoded again it takes its size twice more, an object or array becomes a struct
// of the neutral model, and each further value has a place in one. Measured with
// bodies of 900,000 messages of one word.
const (
	bytesPerStructure = 512
	bytesPerValue     = 48
)

// smallTranslation is the size up to which the structures of a body are counted
// without telling apart those that are text in a string.
const smallTranslation = 1 << 20

// reserveTranslation counts what the translation of the request of x will take
// against the limit of body memory. The caller releases the buffer. It is nil
// where nothing is translated.
func (l *Leaf) reserveTranslation(x *Exchange, w *wire) (*bytepool.Buffer, error) {
	if x.Doc == nil || !w.translates() {
		return nil, nil
	}
	counted, err := l.Pool.Get(0)
	if err != nil {
		return nil, outOfMemory(err)
	}
	if err := counted.Reserve(translationSize(x.Doc.Bytes())); err != nil {
		counted.Release()
		return nil, outOfMemory(err)
	}
	return counted, nil
}

// translationSize estimates the memory of the translation of a JSON body.
func translationSize(body []byte) int {
	structures := bytes.Count(body, []byte("{")) + bytes.Count(body, []byte("["))
	values := bytes.Count(body, []byte(","))
	if structures*bytesPerStructure+values*bytesPerValue > smallTranslation {
		structures, values = countStructures(body)
	}
	return 2*len(body) + structures*bytesPerStructure + values*bytesPerValue
}

// countStructures counts objects and arrays, and commas between values, outside
// of strings. body is valid JSON.
func countStructures(body []byte) (structures, values int) {
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '{', '[':
			structures++
		case ',':
			values++
		case '"':
			i += stringLength(body[i+1:])
		}
	}
	return structures, values
}

// stringLength returns the length of a string after its opening quote, with the
// closing one.
func stringLength(b []byte) int {
	for at := 0; ; {
		end := bytes.IndexByte(b[at:], '"')
		if end < 0 {
			return len(b)
		}
		end += at
		escapes := 0
		for end-escapes > 0 && b[end-escapes-1] == '\\' {
			escapes++
		}
		if at = end + 1; escapes%2 == 0 {
			return at
		}
	}
}
