package peer

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"modelgate/internal/base/oserr"
	"modelgate/internal/provider/health"
	"modelgate/internal/upstream"
)

// lostReason is the reason of a failure of a session that the server does not know.
const lostReason = "the tool server does not know the session any more"

// maxChallenge bounds the WWW-Authenticate of a failure, and maxWait what a server may ask to
// wait.
const (
	maxChallenge = 8 << 10
	maxWait      = time.Hour
)

// connectionFailures are the kinds of failures of upstream, and their texts for clients.
var connectionFailures = [...]struct {
	kind FailureKind
	text string
}{
	upstream.BadResponse:       {Invalid, "the response of the tool server is not valid HTTP"},
	upstream.Dial:              {Unreachable, "the tool server cannot be connected to"},
	upstream.DNS:               {Unreachable, "the name of the tool server cannot be resolved"},
	upstream.TLS:               {Unreachable, "the TLS handshake with the tool server failed"},
	upstream.Refused:           {Refused, "the address of the tool server is not allowed; an administrator can list it in upstream.trusted_hosts"},
	upstream.Reset:             {Unreachable, "the connection to the tool server ended early"},
	upstream.HeaderTimeout:     {TimedOut, "the tool server did not respond in time"},
	upstream.FirstEventTimeout: {TimedOut, "the tool server did not respond in time"},
	upstream.IdleTimeout:       {TimedOut, "the tool server was silent for too long"},
	upstream.TotalTimeout:      {TimedOut, "the call took longer than the tool server may take"},
	upstream.Canceled:          {Cancelled, "the call was cancelled"},
	upstream.Upload:            {Cancelled, "the call was cancelled"},
	upstream.BadRequest:        {Refused, "the address or a header of the tool server is malformed"},
}

// connectionFailure returns the failure of a request that was not, or not completely,
// answered. ctx is that of the caller.
func connectionFailure(ctx context.Context, req *http.Request, err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	f := upstream.Classify(req, err)
	row := connectionFailures[f.Kind]
	out := &Failure{Kind: row.kind, Unsent: f.Unsent || f.Kind == upstream.BadRequest, Reason: row.text, Err: f}
	if out.Kind == Cancelled && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		out.Kind, out.Reason = TimedOut, connectionFailures[upstream.TotalTimeout].text
	}
	if detail := oserr.ConnectionReason(f.Err); detail != "" && out.Kind == Unreachable {
		out.Reason += " (" + detail + ")"
	}
	return out
}

// invalid returns the failure of a server that broke the protocol.
func invalid(status int, reason string, cause error) *Failure {
	return &Failure{Kind: Invalid, Status: status, Reason: reason, Err: cause}
}

// statusFailure returns the failure that a status and the headers of a response mean, or nil
// if the response may be a message. hasSession says that the request named a session.
func statusFailure(resp *http.Response, hasSession bool) *Failure {
	status := resp.StatusCode
	f := &Failure{Status: status}
	switch {
	case status >= 200 && status < 300:
		return nil
	case status < 400:
		f.Kind, f.Reason = Refused, "the tool server redirects, which is not followed; set its final address"
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		f.Kind, f.Reason = Unauthorized, "the tool server refused the credential"
		f.Challenge = strings.Join(resp.Header["Www-Authenticate"], ", ")
		if len(f.Challenge) > maxChallenge {
			f.Challenge = ""
		}
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		wait, ok := health.RetryAfter(resp.Header, time.Now())
		f.Kind, f.Wait, f.Reason = Unavailable, min(max(wait, 0), maxWait), "the tool server asks to wait before further calls"
		if !ok && status == http.StatusServiceUnavailable {
			f.Kind, f.Reason = Unreachable, "the tool server is unavailable (status 503)"
		}
	case status >= 500:
		f.Kind, f.Reason = Unreachable, "the tool server failed with a status of 5xx"
	case status == http.StatusNotFound && hasSession:
		f.Kind, f.Reason = SessionLost, lostReason
	default:
		return nil
	}
	return f
}

// refusal returns the failure that a response with a status of 4xx means, or nil if its body
// is a message for the caller.
func refusal(status int, body []byte, s Session) *Failure {
	e, ok := parseEnvelope(body)
	isError := ok && has(e.failure) && !has(e.method)
	if status == http.StatusBadRequest && s.ID != "" && isError && isSessionError(e) {
		return &Failure{Kind: SessionLost, Status: status, Reason: lostReason}
	}
	if isError {
		return nil
	}
	switch status {
	case http.StatusNotFound:
		return invalid(status, "the tool server serves nothing at its address (status 404)", nil)
	case http.StatusMethodNotAllowed:
		return invalid(status, "the tool server does not accept this kind of request (status 405)", nil)
	}
	return invalid(status, "the tool server refused the message without an error of JSON-RPC", nil)
}

// streamRefusal returns the failure of a server that refuses to open a stream. Servers
// without such streams should answer with 405, and some do with 404, which is also that of a
// session they do not know.
func streamRefusal(status int, body []byte) *Failure {
	if status == http.StatusNotFound || status == http.StatusBadRequest {
		if bytes.Contains(bytes.ToLower(body), []byte("session")) {
			return &Failure{Kind: SessionLost, Status: status, Reason: lostReason}
		}
	}
	if status == http.StatusNotFound || status == http.StatusMethodNotAllowed {
		return muteFailure()
	}
	return invalid(status, "the tool server refused to open a stream", nil)
}

// isSessionError reports whether an error means that a session is unknown. Servers have no
// code for it in common.
func isSessionError(e envelope) bool {
	return codeOf(e) == -32001 || strings.Contains(strings.ToLower(textOf(findMember(e.failure, "message"))), "session")
}
