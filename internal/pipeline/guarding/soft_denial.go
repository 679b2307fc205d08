package guarding

import (
	"encoding/hex"
	"errors"
	"net/http"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
)

// softDenial is the cause of a denial whose hooks all have soft_deny_200.
type softDenial struct{ results exchange.HookResults }

// Error implements error.
func (*softDenial) Error() string { return "a guardrail with soft_deny_200 denied it" }

// SoftDenial returns the response that the client gets in place of err, with the
// message of the denial as its text and status 200. It returns nil for other errors and
// for requests other than conversations.
func SoftDenial(r *exchange.Request, err error) *exchange.Response {
	denial, ok := errors.AsType[*softDenial](err)
	if !ok || r.Received.Doc == nil || r.Operation != r.Dialect.ConversationOperation() {
		return nil
	}
	message := strings.TrimSuffix(apierr.From(err).Message, seeResults)
	decoded, err := r.Client.DecodeRequest(r.Received.Body.Bytes())
	if err != nil { // the variables of a saved prompt
		decoded = new(llm.Request)
	}
	decoded.Model, decoded.Stream = r.Received.RequestedModel, r.Stream
	completion := llm.Response{
		Model: r.Received.RequestedModel, Created: r.Time.Unix(),
		Choices: []llm.Choice{{Parts: []llm.Part{llm.Text{Text: message}}, Stop: llm.StopEnd}},
	}
	to := dialect.ResponseTarget{Request: decoded, Strict: true, ID: hex.EncodeToString(r.ID[:]), Created: completion.Created}
	out := &exchange.Response{Status: http.StatusOK, Header: http.Header{}, Hooks: denial.results, Length: -1}
	out.Tap = exchange.StoredTap{Read: &dialect.ResponseInfo{Model: r.Received.RequestedModel,
		Finish: string(llm.StopEnd), Begun: true, Finished: true, Terminated: true}}
	if !r.Stream {
		out.SetBytes(r.Client.EncodeResponse(nil, &completion, to))
		return out
	}
	enc := r.Client.NewEncoder(to)
	var stream []byte
	for e := range dialect.Replay(&completion) {
		stream = enc.Encode(stream, &e)
	}
	out.SetHead(r.Client.ContentType())
	out.Events = exchange.ReplayBytes(stream)
	return out
}
