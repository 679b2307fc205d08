package attempt

import (
	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

// responseCalls makes the ids of the calls in a response distinct from each other
// and from those of the conversation: clients find the call of a result by its id.
// Choices are alternatives, and may have the same ids.
type responseCalls struct {
	asked   *llm.Request
	history dialect.CallIDs // nil until there is a call
	choices map[int]dialect.CallIDs
}

// distinct returns the id that the client gets for a call.
func (c *responseCalls) distinct(choice int, id string) string {
	if c.asked != nil {
		id = dialect.ClientCallID(api.Dialect(c.asked.Dialect), id)
	}
	if c.choices == nil {
		c.choices = map[int]dialect.CallIDs{}
		if c.asked != nil {
			c.history = dialect.NewCallIDs(c.asked.Messages)
		}
	}
	if c.choices[choice] == nil {
		c.choices[choice] = dialect.CallIDs{}
	}
	return c.choices[choice].Distinct(id, c.history)
}

// distinctCalls makes the ids of the calls in r distinct.
func distinctCalls(r *llm.Response, asked *llm.Request) {
	ids := responseCalls{asked: asked}
	for i := range r.Choices {
		for n, p := range r.Choices[i].Parts {
			if call, ok := p.(llm.ToolCall); ok {
				call.ID = ids.distinct(i, call.ID)
				r.Choices[i].Parts[n] = call
			}
		}
	}
}
