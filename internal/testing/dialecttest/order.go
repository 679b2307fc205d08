package dialecttest

import (
	"fmt"

	"modelgate/internal/model/llm"
)

// CheckEventOrder returns what is wrong with the order of a stream's events, or
// an empty string. A stream begins with Start, parts of a choice start in order
// and end once, deltas are in between, and nothing follows Error and End.
func CheckEventOrder(events []llm.Event) string {
	type place struct{ choice, part int }
	open, next, finished := map[place]bool{}, map[int]int{}, map[int]bool{}
	for i, e := range events {
		at := place{e.Choice, e.Part}
		if (e.Kind == llm.EventStart) != (i == 0) && e.Kind != llm.EventError {
			return fmt.Sprintf("event %d is of kind %d; Start must be the first and stand once", i, e.Kind)
		}
		switch e.Kind {
		case llm.EventPartStart:
			if e.Part != next[e.Choice] || e.Opened == nil || finished[e.Choice] {
				return fmt.Sprintf("event %d opens part %d of choice %d (%T), want part %d", i, e.Part, e.Choice, e.Opened, next[e.Choice])
			}
			open[at] = true
			next[e.Choice]++
		case llm.EventDelta, llm.EventPartEnd:
			if !open[at] {
				return fmt.Sprintf("event %d is for part %d of choice %d, which is not open", i, e.Part, e.Choice)
			}
			open[at] = e.Kind == llm.EventDelta
		case llm.EventFinish:
			finished[e.Choice] = true
		case llm.EventError, llm.EventEnd:
			if i != len(events)-1 {
				return fmt.Sprintf("event %d ends the stream, and %d follow", i, len(events)-1-i)
			}
			for at, still := range open {
				if still && e.Kind == llm.EventEnd {
					return fmt.Sprintf("the stream ends with part %d of choice %d open", at.part, at.choice)
				}
			}
		}
	}
	return ""
}
