package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"os"
	"sync"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// secretUses records in the audit log which secret references this gateway resolves for
// which targets: the first use, a changed value and a failure, but not each request. It
// is safe for concurrent use.
type secretUses struct {
	mu      sync.Mutex
	states  map[secretUse]secretState // of the last built state; guarded by mu
	pending []*store.Audit            // guarded by mu
}

// secretUse is a reference and the destination of its value.
type secretUse struct{ reference, integration, field, host string }

// secretUser is the provider, or the partner, whose credential is filled, and the workspace
// that has it; empty is the organisation's.
type secretUser struct{ provider, workspace string }

// secretState is the result of a use. The zero value is none.
type secretState struct {
	value   [sha256.Size]byte // hash of the value in use
	failure string            // error code; empty if there is a value
}

// usePass collects the uses of a state being built.
type usePass struct {
	uses   *secretUses
	states map[secretUse]secretState
	now    time.Time
}

func (u *secretUses) begin() *usePass {
	return &usePass{u, make(map[secretUse]secretState), time.Now()}
}

// note adds a use. A reference that is still being read is not a use yet.
func (p *usePass) note(s store.SecretReference, by secretUser, use secretUse, v secret.String, err error) {
	var state secretState
	if err == nil {
		state.value = sha256.Sum256([]byte(v.Reveal()))
	} else if state.failure = apierr.From(err).CodeOrDefault(); state.failure == "secret_pending" {
		return
	}
	if _, ok := p.states[use]; ok {
		return
	}
	p.states[use] = state
	p.uses.mu.Lock()
	defer p.uses.mu.Unlock()
	before, known := p.uses.states[use]
	if known && before == state {
		return
	}
	row := p.row(s, by, use, state.failure)
	switch {
	case state.failure != "":
		row.Action, row.Status = "secret_failed", http.StatusServiceUnavailable
	case known && before.failure == "":
		row.Action = "secret_changed"
	}
	p.uses.pending = append(p.uses.pending, row)
}

// row returns the audit event of a successful use.
func (p *usePass) row(s store.SecretReference, by secretUser, use secretUse, failure string) *store.Audit {
	body, err := json.Marshal(map[string]string{
		"provider": by.provider, "host": use.host, "integration": use.integration, "target_field": use.field, "error": failure,
	})
	if err != nil {
		body = []byte("null")
	}
	node, err := os.Hostname()
	if err != nil {
		node = "unknown"
	}
	id := reqlog.NewID(p.now).String()
	return &store.Audit{
		ID: id, RequestID: id, Organisation: s.Organisation, Workspace: by.workspace, Time: p.now, Method: "GATEWAY", URI: "", QueryParams: "{}",
		RequestHeaders: "{}", RequestBody: string(body), UserID: node, UserType: "gateway", Status: http.StatusOK,
		ResourceType: "secret_reference", ResourceID: s.ID, Action: "secret_use",
	}
}

// end makes the pass the reference for later passes.
func (p *usePass) end() {
	p.uses.mu.Lock()
	defer p.uses.mu.Unlock()
	p.uses.states = p.states
}

// take returns the events not yet written.
func (u *secretUses) take() []*store.Audit {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := u.pending
	u.pending = nil
	return list
}

// writeUses writes the recorded uses. It keeps building a state from waiting for the
// database.
func (s *Server) writeUses(ctx context.Context) {
	list := s.uses.take()
	for i, row := range list {
		if err := s.store.AddAudit(ctx, row); err != nil {
			s.Logger.Error("audit log not written", "reference", row.ResourceID, "rows", len(list)-i, "err", err.Error())
			s.uses.putBack(list[i:])
			return
		}
	}
}

// maxPendingUses is the limit of events that wait while the database is unavailable.
const maxPendingUses = 1000

// putBack returns events that could not be written, oldest first, up to the limit.
func (u *secretUses) putBack(list []*store.Audit) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pending = append(list, u.pending...)
	u.pending = u.pending[:min(len(u.pending), maxPendingUses)]
}
