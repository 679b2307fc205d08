package tools

import (
	"context"
	"crypto/rand"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/provider/toolserver"
)

// approvalKey is the key of the gateway's own question.
const approvalKey = "modelgate/approval"

// decide returns what the rules of the server do with the call.
func (r *relay) decide() toolserver.Decision {
	if r.operation != api.ToolCall {
		return toolserver.Allow
	}
	readOnly, destructive := false, true
	if r.server.TrustAnnotations && r.definition != nil {
		readOnly, destructive = r.definition.readOnly, r.definition.destructive
	}
	out := toolserver.Allow
	for _, rule := range [...]struct {
		applies  bool
		decision toolserver.Decision
	}{{!readOnly, r.server.Writes}, {!readOnly && destructive, r.server.Destroys}} {
		switch {
		case !rule.applies:
		case rule.decision == toolserver.Deny:
			return toolserver.Deny
		case rule.decision == toolserver.Ask:
			out = toolserver.Ask
		}
	}
	return out
}

// approve asks the user about a call that a rule does not allow by itself. answered is true
// if the client has its response, so that nothing is sent to the server.
func (r *relay) approve(ctx context.Context) (answered bool, err error) {
	switch r.decide() {
	case toolserver.Deny:
		return true, r.withhold("a rule of the tool server %s denies tools that change something", r.server.Slug)
	case toolserver.Ask:
	default:
		return false, nil
	}
	approval := r.state != nil && r.state.Approval != ""
	if approval && !r.request.running.markUsed(r.state.Approval) {
		return true, r.request.reject(r.request.msg.id, errState)
	}
	if approval && r.state.Approved {
		r.approved = true
		return false, nil
	}
	if !r.request.declares("elicitation") {
		return true, r.withhold("a rule of the tool server %s demands that the user approves this call, and the client cannot ask: it does not support elicitation",
			r.server.Slug)
	}
	if r.request.era == peer.Legacy {
		value, err := r.ask(ctx, "elicitation/create", r.approvalQuestion())
		if err != nil {
			return false, err
		}
		return r.refuseUnapproved(value)
	}
	responses, _ := r.request.msg.params.Find("inputResponses")
	value, ok := responses.Get(approvalKey)
	if !approval || !ok {
		return true, r.askApproval()
	}
	r.dropAnswer(responses, approvalKey)
	return r.refuseUnapproved(value.Raw())
}

// withhold responds to a call that is not made.
func (r *relay) withhold(format string, a ...any) error {
	return r.request.respondWith(r.request.toolError(apierr.New(apierr.Denied, format, a...)))
}

// refuseUnapproved responds to a call that the user did not approve.
func (r *relay) refuseUnapproved(value []byte) (answered bool, err error) {
	v, err := jsonedit.ParseValue(value)
	if err != nil {
		return false, err
	}
	action, _ := v.Get("action")
	content, _ := v.Get("content")
	approved, _ := content.Get("approve")
	if yes, ok := approved.Bool(); action.IsText("accept") && ok && yes {
		r.approved = true
		return false, nil
	}
	return true, r.withhold("the user did not approve this call")
}

// askApproval responds with the question whether the call may be made.
func (r *relay) askApproval() error {
	s := r.newState()
	s.Approval = rand.Text()
	if r.state != nil {
		s.Inner = r.state.Inner
	}
	return r.request.respondWith(question(approvalKey, "elicitation/create", r.approvalQuestion(), s.seal(r.request.Box)))
}

// maxShownArguments is how much of the arguments a question shows, in bytes.
const maxShownArguments = 2000

// approvalQuestion returns the parameters of the question. It shows the name that the server
// gives the tool, and the arguments: what the server says of itself could mislead.
func (r *relay) approvalQuestion() []byte {
	arguments, _ := r.request.msg.params.Find("arguments")
	shown := string(compact(arguments.Raw()))
	if len(shown) > maxShownArguments {
		shown = strings.ToValidUTF8(shown[:maxShownArguments], "") + " … (more is not shown)"
	}
	var b jsonedit.Builder
	b.Open('{')
	b.Name("mode")
	b.String("form")
	b.Name("message")
	b.String("Allow the tool " + r.item.Name + " of the server " + r.server.Slug + " to run with these arguments? " + shown)
	b.Name("requestedSchema")
	b.Raw([]byte(`{"type":"object","properties":{"approve":{"type":"boolean","title":"Allow this call","default":false}},"required":["approve"]}`))
	b.Close('}')
	return b.Bytes()
}

// dropAnswer removes the answer to a question of the gateway from what the server gets.
func (r *relay) dropAnswer(responses jsonedit.Value, key string) {
	var doc jsonedit.Doc
	edit := jsonedit.Edit{Name: "inputResponses"}
	if doc.Scan(responses.Raw()) == nil && doc.Len() > 1 {
		edit.Value = doc.Apply(nil, jsonedit.Edit{Name: key})
	}
	r.params = append(r.params, edit)
}
