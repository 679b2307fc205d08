package simulator

import (
	"encoding/json"
	"slices"
)

// chatTurn is a message of chat, as far as providers have rules about its place.
type chatTurn struct {
	Role   string
	Prefix bool
}

// misplaced returns the message of a provider's error about the roles and the order of
// messages, empty if a provider with the rule accepts them.
//
//   - https://api-docs.deepseek.com/api/create-chat-completion
//   - https://docs.mistral.ai/api/ and the validation of github.com/mistralai/mistral-common
//   - https://docs.perplexity.ai/api-reference/chat-completions-post
func misplaced(body []byte, rule string) string {
	var in struct{ Messages []chatTurn }
	if rule == "" || json.Unmarshal(body, &in) != nil || len(in.Messages) == 0 {
		return ""
	}
	turns := in.Messages
	if slices.ContainsFunc(turns, func(t chatTurn) bool { return t.Role == "developer" }) {
		return "unknown variant `developer`, expected one of `system`, `user`, `assistant`, `tool`"
	}
	last := turns[len(turns)-1]
	switch rule {
	case "reply":
		for i, t := range turns[1:] {
			if turns[i].Role == "tool" && t.Role != "tool" && t.Role != "assistant" {
				return "Unexpected role '" + t.Role + "' after role 'tool'"
			}
		}
		if last.Role == "assistant" && !last.Prefix {
			return "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"
		}
	case "alternate":
		before := "assistant"
		for _, t := range turns[leading(turns):] {
			if t.Role == "system" || t.Role == before {
				return "After the (optional) system message(s), user or tool message(s) should alternate with assistant message(s)."
			}
			before = t.Role
		}
	}
	return ""
}

// leading returns the number of system messages at the beginning.
func leading(turns []chatTurn) int {
	n := slices.IndexFunc(turns, func(t chatTurn) bool { return t.Role != "system" })
	if n < 0 {
		return len(turns)
	}
	return n
}
