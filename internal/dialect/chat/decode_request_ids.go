package chat

import (
	"strconv"

	"modelgate/internal/model/llm"
)

// numberedCalls are the calls of one turn that came without ids, as Google's
// endpoint for this dialect has made them. The zero value is empty.
type numberedCalls struct {
	calls     []llm.ToolCall
	hasResult []bool
	next      int              // the calls before it have results
	byName    map[string][]int // the calls of a name, some of which may have results
}

func (n *numberedCalls) add(call llm.ToolCall) {
	if n.byName == nil {
		n.byName = map[string][]int{}
	}
	n.byName[call.Name] = append(n.byName[call.Name], len(n.calls))
	n.calls, n.hasResult = append(n.calls, call), append(n.hasResult, false)
}

// take returns the call of the next result: the first one without a result, of
// this tool if the result names one. It returns nil if there is none.
func (n *numberedCalls) take(tool string) *llm.ToolCall {
	for n.next < len(n.calls) && n.hasResult[n.next] {
		n.next++
	}
	i := n.next
	if tool != "" {
		list, called := n.byName[tool]
		if !called {
			return nil
		}
		for len(list) > 0 && n.hasResult[list[0]] {
			list = list[1:]
		}
		if n.byName[tool] = list; len(list) == 0 {
			return nil
		}
		i = list[0]
	}
	if i == len(n.calls) {
		return nil
	}
	n.hasResult[i] = true
	return &n.calls[i]
}

// numberedID returns an id that no call before has.
func (d *requestDecoder) numberedID() string {
	for {
		id := "call_numbered_" + strconv.Itoa(d.lastNumber)
		d.lastNumber++
		if _, known := d.calls[id]; !known {
			return id
		}
	}
}
