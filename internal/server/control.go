package server

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/access"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/sessions"
	"modelgate/internal/inbound"
	"modelgate/internal/secret"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
)

// authenticate finds who sends a request to the control plane: the holder of a
// gateway key or of a token, or a person who signed in.
func (s *Server) authenticate(r *http.Request) (*access.Identity, error) {
	token := r.Header.Get(api.HeaderKey)
	if token == "" {
		token = snapshot.Bearer(r.Header)
	}
	var id *access.Identity
	var err error
	if token = strings.TrimSpace(token); access.IsSessionToken(token) {
		id, err = sessions.Identify(r.Context(), s.store, sessions.Use{
			Token: token, Address: clientHost(r), Now: time.Now(), Lifetimes: s.sessionLifetimes(), Logger: s.Logger,
		})
	} else {
		id, _, err = s.holder.Load().Authenticate(r.Header, time.Now())
	}
	if err == nil {
		err = id.CheckAddress(r.RemoteAddr)
	}
	if err != nil {
		s.countKeyless(err)
		return nil, err
	}
	inbound.MarkAuthenticated(r.Context())
	return id, nil
}

// clientHost returns the address of a request's client without its port.
func clientHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// sessionLifetimes returns how long sessions are valid by the current settings.
func (s *Server) sessionLifetimes() route.Lifetimes {
	if l := s.lifetimes.Load(); l != nil {
		return *l
	}
	return route.Lifetimes{}
}

// token returns what a token of an organisation's own issuer proves.
func (s *Server) token(text string) (*access.Identity, error) {
	return s.holder.Load().Token(text, time.Now())
}

// claimLife is how long the link counts by which an installation is claimed.
const claimLife = 24 * time.Hour

// ensureClaim makes a link for the first owner of an installation that has none.
// Each start makes another instead of the one before.
func (s *Server) ensureClaim(ctx context.Context) error {
	if !s.store.Ready() || !s.BootstrapKey.Empty() {
		return nil
	}
	o, err := s.store.Organisation(ctx, store.DefaultOrganisation)
	if err != nil || o.OwnerID != "" {
		return err
	}
	token, now := access.NewLinkToken(), time.Now()
	err = s.store.Update(ctx, nil, func(tx *store.Tx) error {
		return tx.ReplaceClaim(ctx, o.ID, access.HashKey(token.Reveal()).String(), now, now.Add(claimLife))
	})
	s.claim = token
	return err
}

// Claim returns the secret of the link by which the installation's first owner
// claims it, empty when there is one already. It can't be shown again.
func (s *Server) Claim() secret.String { return s.claim }
