package tools

import (
	"context"
	"slices"
	"time"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/provider/toolserver"
)

// awaitedSignIn is a sign-in that a client of the legacy era was asked for.
type awaitedSignIn struct {
	id     string // of the elicitation
	server *toolserver.Server
	key    string // of the credential that is not enough; empty if the user had none
	until  time.Time
}

// signInTime is how long a sign-in may take: the link is valid for ten minutes, and so is what
// opening it begins.
const signInTime = 20 * time.Minute

// maxSignIns is the limit of the sign-ins that a stream waits for.
const maxSignIns = 20

// signIns are the sign-ins that the client of a stream was asked for on this node. Nothing is
// remembered for clients without a stream: the protocol leaves it to servers whether they report
// that a page was used, and clients let their user repeat the call.
type signIns struct {
	begun   chan awaitedSignIn // nil for a stream that reports none
	timer   *time.Timer
	waiting []awaitedSignIn
}

// awaitSignIns returns the sign-ins of the session of the stream. The caller calls stop at the end. id is that
// of the request of the modern era, which has no such notification.
func (w *watch) awaitSignIns(id []byte) (s *signIns, stop func()) {
	s = &signIns{timer: time.NewTimer(time.Hour)}
	if id != nil || w.request.token == nil || !declaresURL(w.request) {
		return s, func() { s.timer.Stop() }
	}
	s.begun = make(chan awaitedSignIn, maxSignIns)
	r, holder := w.request.running, w.request.holder
	r.mu.Lock()
	defer r.mu.Unlock()
	r.signIns[holder] = s.begun // of several streams of a session, the last one reports
	return s, func() {
		s.timer.Stop()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.signIns[holder] == s.begun {
			delete(r.signIns, holder)
		}
	}
}

// announceSignIn makes the stream of a session report when the user has signed in, if one is open.
func (r *running) announceSignIn(holder string, s awaitedSignIn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case r.signIns[holder] <- s:
	default: // there is no stream, or too many wait
	}
}

func (s *signIns) add(a awaitedSignIn) {
	if len(s.waiting) < maxSignIns {
		s.waiting = append(s.waiting, a)
		s.timer.Reset(signInPoll)
	}
}

// reportSignIns reports the sign-ins that are complete.
// https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#completion-notifications-for-url-mode-elicitation
func (w *watch) reportSignIns(ctx context.Context, s *signIns) error {
	now := time.Now()
	s.waiting = slices.DeleteFunc(s.waiting, func(a awaitedSignIn) bool {
		return now.After(a.until) || w.request.view.server(a.server.Slug) == nil
	})
	ctx, cancel := context.WithTimeout(ctx, signInPoll)
	defer cancel()
	var done []awaitedSignIn
	s.waiting = slices.DeleteFunc(s.waiting, func(a awaitedSignIn) bool {
		if !w.hasSignedIn(ctx, &a) {
			return false
		}
		done = append(done, a)
		return true
	})
	if len(s.waiting) > 0 {
		s.timer.Reset(signInPoll)
	}
	for _, a := range done {
		params := append(jsonedit.AppendString([]byte(`{"elicitationId":`), a.id), '}')
		if err := w.notice("notifications/elicitation/complete", params, nil); err != nil {
			return err
		}
	}
	return nil
}

// hasSignedIn reports whether the user has another credential than before. What cannot be read now
// is read again.
func (w *watch) hasSignedIn(ctx context.Context, a *awaitedSignIn) bool {
	c, err := w.request.Credentials.Credential(ctx, a.server, w.request.tools.Identity)
	return err == nil && c.Key != a.key
}

// rejectForSignIn responds to a request of the legacy era with the page that the user has to open.
func (x *request) rejectForSignIn(e *SignInError) error {
	if s := x.view.server(e.Server); s != nil && x.token != nil {
		x.running.announceSignIn(x.holder, awaitedSignIn{e.ID, s, e.Key, time.Now().Add(signInTime)})
	}
	return x.reject(x.msg.id, e.required())
}
