package tools

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/jsonrpc"
)

// state is what a client returns with the answers to questions: it belongs to one caller and
// one call with its arguments, for ten minutes.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow
type state struct {
	Caller    string `json:"c"`
	Server    string `json:"s"` // id
	Item      string `json:"i"`
	Arguments string `json:"a"` // digest
	Until     int64  `json:"e"` // Unix time in seconds

	Inner    *string `json:"u,omitempty"` // the server's own state; nil for none
	Parked   string  `json:"k,omitempty"` // id of the call that waits on a node; empty for none
	Approval string  `json:"q,omitempty"` // random; empty unless a rule demands approval
	Approved bool    `json:"y,omitempty"` // the user has approved the call
}

const (
	statePrefix = "mgq_"
	stateTime   = 10 * time.Minute
	maxState    = 256 << 10 // bytes
)

// newState returns a state of the call.
func (r *relay) newState() *state {
	s := &state{Caller: callerOf(r.request.tools.Identity), Server: r.server.ID, Item: string(r.item.Kind) + " " + r.item.Name,
		Arguments: r.argumentsDigest(), Until: time.Now().Add(stateTime).Unix()}
	if r.approved {
		s.Approval, s.Approved = rand.Text(), true
	}
	return s
}

// argumentsDigest identifies what the client asks for.
func (r *relay) argumentsDigest() string {
	arguments, _ := r.request.msg.params.Find("arguments")
	sum := sha256.Sum256(arguments.Raw())
	return hex.EncodeToString(sum[:])
}

// seal returns the state as text.
func (s *state) seal(box *secret.Box) string { return sealJSON(box, statePrefix, s) }

// errState is the error for a state that was altered, has expired, or belongs to another
// caller or call.
var errState = newError(jsonrpc.InvalidParams, "the requestState is invalid or has expired; send the request again without it")

// openState returns the state that the client returns, nil for none.
func (r *relay) openState() (*state, *rpcError) {
	v, ok := r.request.msg.params.Find("requestState")
	if !ok {
		return nil, nil
	}
	text, _ := v.Text()
	got, want := new(state), r.newState()
	if !openJSON(r.request.Box, statePrefix, text, maxState, got) ||
		got.Caller != want.Caller || got.Server != want.Server || got.Item != want.Item ||
		got.Arguments != want.Arguments || time.Now().Unix() > got.Until {
		return nil, errState
	}
	return got, nil
}

// resume reads the state that the client returns, and puts that of the server in its place.
func (r *relay) resume() *rpcError {
	s, problem := r.openState()
	if s == nil || problem != nil {
		return problem
	}
	r.state = s
	edit := jsonedit.Edit{Name: "requestState"}
	if s.Inner != nil {
		edit = setText("requestState", *s.Inner)
	}
	r.params = append(r.params, edit)
	return nil
}

// errNotParked is the error for a call that no longer waits for an answer, or on another node.
var errNotParked = &peer.Failure{Kind: peer.Invalid, Unsent: true,
	Reason: "the call no longer waits for an answer on this node; send the request again without requestState"}
