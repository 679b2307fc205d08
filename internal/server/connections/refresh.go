package connections

import (
	"context"
	"errors"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/provider/toolauth"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/store"
)

// refresh returns the connection with new tokens. One node refreshes, because a refresh token
// may be used once: the others wait for what it stores, or use the access token while it is
// valid. Forced means that the access token is of no use. The caller has the turn of the
// entry.
func (s *Service) refresh(ctx context.Context, server *toolserver.Server, v *view, forced bool) (*view, error) {
	if v.grant.Refresh.Empty() {
		if !hasEnded(v.grant, s.Now()) {
			v.renew = v.grant.Tokens.Ends
			return v, nil
		}
		return s.end(ctx, server, v)
	}
	valid := !forced && !hasEnded(v.grant, s.Now())
	for {
		now := s.Now()
		leased, err := s.DB.LeaseConnection(ctx, v.row, now, now.Add(leaseTime))
		if err != nil {
			return nil, s.DB.ClientError(err)
		}
		if leased {
			return s.refreshLeased(ctx, server, v, valid)
		}
		if valid {
			v.renew = now.Add(freshTime)
			return v, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(leasePoll):
		}
		next, err := s.read(ctx, server, v.row.User)
		if err != nil || next.grant == nil || next.row.Version != v.row.Version {
			return next, err
		}
		v = next
	}
}

// refreshLeased refreshes the tokens of a connection that no other node refreshes.
func (s *Service) refreshLeased(ctx context.Context, server *toolserver.Server, v *view, valid bool) (*view, error) {
	next, err := s.fetch(ctx, server, v)
	// What the authorization server gave is lost if nobody stores it, however late it came.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	if errors.Is(err, toolauth.ErrUnknownClient) {
		s.Logger.Error("the authorization server of a tool server refuses the gateway as a client",
			"server", server.ID, "issuer", v.row.Issuer, "error", err)
		if v.grant.IsRegistered(server) { // the registration is lost, and a new one is another client
			s.DB.DeleteToolClient(ctx, server.ID, v.row.Issuer, v.grant.Issued)
			return s.end(ctx, server, v)
		}
	}
	if errors.Is(err, toolauth.ErrRefused) {
		return s.end(ctx, server, v)
	}
	if err != nil {
		// A lease that cannot be released ends by itself.
		s.DB.ReleaseConnection(ctx, v.row)
		failed := *v
		next := s.Now().Add(failTime << min(v.fails, maxFails-1))
		failed.fails++
		switch failed.renew = next; {
		case !valid:
			failed.err, failed.until = err, next
		case !v.grant.Tokens.Ends.IsZero() && next.After(v.grant.Tokens.Ends):
			failed.renew = v.grant.Tokens.Ends
		}
		return &failed, nil
	}
	row := v.row
	if row.Sealed, err = s.Secrets.Seal(ctx, server.Organisation, next.Text()); err != nil {
		return nil, err
	}
	row.ExpiresAt, row.UpdatedAt = next.Tokens.Ends, s.Now()
	done, err := s.DB.ReplaceConnection(ctx, row)
	if err != nil {
		return nil, s.DB.ClientError(err)
	}
	if !done { // it was revoked, or the user has signed in again
		v, err := s.read(ctx, server, row.User)
		if err == nil && v.row.State != store.ConnectionActive { // nobody else knows of the new tokens
			s.revoke(ctx, server, row.Issuer, next)
		}
		return v, err
	}
	row.Version++
	return &view{row: row, grant: next, read: s.Now(), until: s.Now().Add(freshTime), renew: next.RenewAt(), fetched: true}, nil
}

// fetch asks the authorization server that gave the tokens for new ones.
func (s *Service) fetch(ctx context.Context, server *toolserver.Server, v *view) (*toolauth.Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	m, err := s.Client.Find(ctx, server, v.row.Issuer, s.allow(server))
	if errors.Is(err, toolauth.ErrRefused) {
		return nil, err
	}
	if err == nil {
		var g *toolauth.Grant
		if g, err = s.Client.Refresh(ctx, m, server, v.grant); err == nil || errors.Is(err, toolauth.ErrRefused) {
			return g, err
		}
	}
	if _, ok := errors.AsType[*apierr.Error](err); ok {
		return nil, err
	}
	return nil, apierr.New(apierr.UpstreamTimeout, "the authorization server of the tool server %s does not answer in time; try again shortly", server.Slug).
		WithCode("tool_server_sign_in_failed").WithCause(err)
}

// end makes the user sign in again.
func (s *Service) end(ctx context.Context, server *toolserver.Server, v *view) (*view, error) {
	row := v.row
	row.State, row.Sealed, row.UpdatedAt = store.ConnectionNeedsReauth, "", s.Now()
	done, err := s.DB.ReplaceConnection(ctx, row)
	if err != nil {
		return nil, s.DB.ClientError(err)
	}
	if !done {
		return s.read(ctx, server, row.User)
	}
	row.Version++
	return &view{row: row, read: s.Now(), until: s.Now().Add(freshTime)}, nil
}
