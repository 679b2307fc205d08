package simulator

import "strconv"

// appendLogprobs appends the log probabilities of a text in raw JSON, one for
// each token, or null if not requested.
func (q *chatRequest) appendLogprobs(dst, raw []byte) []byte {
	if !q.logprobs {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"content":[`...)
	for at := 0; at < len(raw); {
		to, _ := advance(raw, at, bytesPerToken)
		if at > 0 {
			dst = append(dst, ',')
		}
		dst = appendToken(dst, raw[at:to], "-0.01")
		dst = append(dst, `,"top_logprobs":[`...)
		for i := range q.topLogprobs {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendToken(dst, raw[at:to], "-0.0"+strconv.Itoa(i+1)), '}')
		}
		dst = append(dst, `]}`...)
		at = to
	}
	return append(dst, `],"refusal":null}`...)
}

// appendToken appends the object of a token without its closing brace.
func appendToken(dst, raw []byte, logprob string) []byte {
	dst = append(append(append(dst, `{"token":"`...), raw...), `","logprob":`...)
	dst = append(append(dst, logprob...), `,"bytes":[`...)
	for i, c := range []byte(plainText(raw)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(c), 10)
	}
	return append(dst, ']')
}
