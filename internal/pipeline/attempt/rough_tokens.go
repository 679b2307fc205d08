package attempt

import (
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
)

// assumedOutput is the number of output tokens assumed for a request without a
// limit. It only weighs the price of output against the price of input.
const assumedOutput = 500

// EstimateTokens returns a rough number of the tokens of the request: one input
// token for four bytes of its body, and the requested limit of output tokens.
func EstimateTokens(r *exchange.Request) llm.Usage {
	u := llm.Usage{Output: assumedOutput}
	if writesNothing(r.Operation) {
		u.Output = 0
	}
	if r.Received.Body != nil {
		u.Input = llm.RoughTokens(r.Received.Body.Len())
	}
	if n, known := outputFieldsOf(r, r.Operation).limit(r.Received.Doc); known {
		u.Output = n
	}
	return u
}
