package agents

import (
	"context"
	"errors"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane"
	"modelgate/internal/dataplane/tools/peer"
)

// invalid returns the error for a parameter that is not accepted.
func invalid(param, format string, args ...any) *apierr.Error {
	return apierr.New(apierr.Invalid, format, args...).WithParam(param).WithCode("a2a_invalid_params")
}

// errNoTask is the same for tasks that do not exist and for those of other callers.
var errNoTask = apierr.New(apierr.NotFound, "there is no such task of this key; tasks belong to the key that sent their message").
	WithCode("a2a_task_not_found")

// errPush is why nobody can make an agent call an address.
var errPush = apierr.New(apierr.Invalid, "push notifications are not relayed: they would pass by the limits, the guardrails and the log; subscribe to the task instead").
	WithCode("a2a_push_not_supported")

// invalidAnswer returns the failure of an agent that broke the protocol.
func invalidAnswer(reason string) *peer.Failure {
	return &peer.Failure{Kind: peer.Invalid, Reason: "the agent " + reason}
}

// writeError returns the error for a response that could not be written.
func writeError(cause error) error {
	return apierr.New(apierr.ClientGone, "the client has closed the connection").WithCause(cause)
}

// asAgentError returns an error that A2A has a code for.
func asAgentError(err error) (*apierr.Error, bool) {
	e, ok := errors.AsType[*apierr.Error](err)
	return e, ok && dataplane.IsAgentError(e)
}

// clientError returns the error for a client whose agent did not answer. Other errors stay as they
// are.
func clientError(err error) error {
	f, ok := errors.AsType[*peer.Failure](err)
	if !ok {
		return err
	}
	reason := reasonOf(f)
	var e *apierr.Error
	switch f.Kind {
	case peer.TimedOut:
		e = apierr.New(apierr.UpstreamTimeout, "%s", reason).WithCode("agent_timeout")
	case peer.Unavailable:
		e = apierr.New(apierr.Unavailable, "%s", reason).WithCode("agent_unavailable")
		e.RetryAfter = f.Wait
	case peer.Cancelled:
		return apierr.New(apierr.ClientGone, "%s", reason).WithCause(context.Canceled)
	default:
		e = apierr.New(apierr.UpstreamFailed, "%s", reason).WithCode("agent_failed")
	}
	return e.WithCause(f.Err)
}

// reasonOf returns the reason of a failure, which speaks of tool servers, for an agent.
func reasonOf(f *peer.Failure) string { return strings.ReplaceAll(f.Reason, "tool server", "agent") }
