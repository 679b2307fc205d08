package connections

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/provider/toolauth"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/store"
)

// Limits of revoking tokens that were deleted.
const (
	maxEnded     = 1000             // servers that wait
	maxRevokers  = 4                // servers at once
	revokeTime   = 5 * time.Minute  // for the tokens of one server
	revokeOnce   = 10 * time.Second // for one of them
	maxRevokeErr = 3                // failures one after another, after which a server is not asked again
)

// Revoke passes the tokens of connections that were deleted to [Service.Run], which revokes them at
// their authorization servers. It does not wait: if too many servers wait already, it logs that
// the tokens are not revoked.
func (s *Service) Revoke(list []store.EndedConnection) {
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].Server == list[0].Server {
			n++
		}
		select {
		case s.ended <- list[:n:n]:
		default:
			s.logNotRevoked(list[0].Server, n, errors.New("too many servers wait"))
		}
		list = list[n:]
	}
}

// Run revokes tokens until ctx ends. What waits then is lost: the gateway has deleted the tokens, and they
// end at the authorization server by themselves.
func (s *Service) Run(ctx context.Context) {
	var workers sync.WaitGroup
	for range maxRevokers {
		workers.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case list := <-s.ended:
					s.revokeAll(ctx, list)
				}
			}
		})
	}
	workers.Wait()
}

// revokeAll revokes the tokens for one server.
func (s *Service) revokeAll(ctx context.Context, list []store.EndedConnection) {
	ctx, cancel := context.WithTimeout(ctx, revokeTime)
	defer cancel()
	server, err := s.target(ctx, &list[0])
	if err != nil {
		s.logNotRevoked(list[0].Server, len(list), err)
		return
	}
	var last error
	failed, inARow := 0, 0
	for i := range list {
		if inARow == maxRevokeErr || ctx.Err() != nil {
			failed, last = failed+len(list)-i, cmp.Or(last, context.Cause(ctx))
			break
		}
		switch err := s.revokeEnded(ctx, server, &list[i]); {
		case err == nil:
			inARow = 0
		case errors.Is(err, errOtherAddress): // nobody was asked
			failed, last = failed+1, err
		default:
			failed, inARow, last = failed+1, inARow+1, err
		}
	}
	if failed > 0 {
		s.logNotRevoked(server.ID, failed, last)
	}
}

func (s *Service) logNotRevoked(server string, count int, err error) {
	s.Logger.Warn("deleted tokens of users were not revoked at the authorization server of a tool server", "server", server,
		"count", count, "error", err)
}

// target returns the server that tokens were for.
func (s *Service) target(ctx context.Context, c *store.EndedConnection) (*toolserver.Server, error) {
	if s.Secrets == nil {
		return nil, errNoMasterKey
	}
	var opened store.Secrets
	if c.Integration.Sealed != "" {
		text, err := s.Secrets.Open(ctx, c.Integration.Organisation, c.Integration.Sealed)
		if err != nil {
			return nil, err
		}
		if opened, err = store.ParseSecrets(text); err != nil {
			return nil, err
		}
	}
	t := store.ToolTarget(c.Integration, c.Tool, opened)
	switch {
	case t.Fault != nil:
		return nil, t.Fault
	case t.URL == nil:
		return nil, errOtherAddress
	}
	return t, nil
}

var errOtherAddress = apierr.New(apierr.Conflict, "the tokens were for another address or client than the integration has now")

// revokeEnded revokes the tokens of one connection.
func (s *Service) revokeEnded(ctx context.Context, server *toolserver.Server, c *store.EndedConnection) error {
	text, err := s.Secrets.Open(ctx, server.Organisation, c.Sealed)
	if err != nil {
		return err
	}
	g, err := toolauth.ParseGrant(text)
	if err != nil {
		return err
	}
	if !g.Fits(server) {
		return errOtherAddress
	}
	return s.revoke(ctx, server, c.Issuer, g)
}

// revoke asks the authorization server with an issuer to end a grant.
func (s *Service) revoke(ctx context.Context, server *toolserver.Server, issuer string, g *toolauth.Grant) error {
	ctx, cancel := context.WithTimeout(ctx, revokeOnce)
	defer cancel()
	m, err := s.Client.Find(ctx, server, issuer, s.allow(server))
	if err != nil {
		return err
	}
	return s.Client.Revoke(ctx, m, server, g)
}
