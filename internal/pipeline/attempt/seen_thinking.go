package attempt

import (
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
)

// thinkingMemory is how long it is remembered where a model has its thinking:
// longer than the pauses of most conversations.
const thinkingMemory = 24 * time.Hour

// thinkingMember is a member of messages in which a model sends its thinking.
type thinkingMember struct {
	endpoint
	name string
}

// thinkingMembers are the members for thinking, the usual one first.
var thinkingMembers = [...]string{"reasoning_content", "reasoning"}

// learnsThinking reports whether the thinking of earlier turns is sent to the target
// in the way in which it sends its own.
func (p *plan) learnsThinking() bool {
	chat := p.record.Target.Profile.Chat
	return p.wire.dialect == api.DialectChat && chat != nil && chat.History == dialect.ThinkingAsSeen
}

// memberForThinking returns the member for the thinking of earlier turns, and
// whether every turn has it: by the option reasoning of the target, otherwise the
// one in which the model was seen to send its own, empty if in none.
func (p *plan) memberForThinking() (name string, all bool) {
	option := p.record.Target.Option("reasoning")
	if option == "drop" {
		return "", false
	}
	if !p.handler.Engine.seenThinking.isEmpty() {
		e := p.endpoint(api.DialectChat)
		for _, name := range thinkingMembers {
			if p.handler.Engine.seenThinking.has(thinkingMember{e, name}) {
				return name, option == "keep"
			}
		}
	}
	if option == "keep" {
		return thinkingMembers[0], true
	}
	return "", false
}

// learnThinking remembers the member in which a response, or a frame of one, has
// thinking, unless the name of the model is long: clients choose it.
func (p *plan) learnThinking(body []byte) {
	if len(p.record.Model) > exchange.MaxModelName {
		return
	}
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return
	}
	choices, _ := v.Get("choices")
	for choice := range choices.Elements() {
		message, ok := choice.Get("message")
		if !ok {
			message, _ = choice.Get("delta")
		}
		for _, name := range thinkingMembers {
			member, _ := message.Get(name)
			if text, _ := member.Text(); text != "" {
				e := p.endpoint(api.DialectChat)
				e.model = strings.Clone(e.model) // which may be part of a body
				p.handler.Engine.seenThinking.renew(thinkingMember{e, name}, thinkingMemory)
				return
			}
		}
	}
}

// beginsThinking reports whether a part of thinking begins among events.
func beginsThinking(events []llm.Event) bool {
	for i := range events {
		if _, ok := events[i].Opened.(llm.Thinking); ok && events[i].Kind == llm.EventPartStart {
			return true
		}
	}
	return false
}
