package store

import (
	"cmp"
	"context"

	"modelgate/internal/access"
	"modelgate/internal/egress"
)

// publishLogging reads how much is kept of exchanges, and where requests may go.
func (q Queries) publishLogging(ctx context.Context, n *changedTables, p, before *RuntimeState) error {
	if !n.wrote("organisations", "workspaces") {
		p.Logging, p.Egress = before.Logging, before.Egress
		return nil
	}
	const (
		organisations = `
		SELECT id, settings
		FROM organisations`
		workspaces = `
		SELECT id, organisation_id, settings
		FROM workspaces
		WHERE status = 'active'`
	)
	p.Logging, p.Egress = make(map[string]access.Logging), make(map[string]*egress.Policy)
	_, err := rows(ctx, q.q, "organisations", organisations, func(r row) (none struct{}, err error) {
		var id string
		var s OrganisationSettings
		err = r.Scan(&id, jsonText{&s})
		p.Logging[id] = access.Logging{Organisation: access.ParseLogLevel(s.Logging), Override: s.LoggingOverridable}
		if e := s.Egress.Strict(); e != nil {
			p.Egress[id] = e
		}
		return none, err
	})
	if err != nil {
		return err
	}
	_, err = rows(ctx, q.q, "workspaces", workspaces, func(r row) (none struct{}, err error) {
		var id, organisation string
		var s KeyDefaults
		err = r.Scan(&id, &organisation, jsonText{&s})
		l := p.Logging[organisation]
		l.Workspace = access.ParseLogLevel(s.Logging)
		p.Logging[id] = l
		if e := s.Egress.Strict(); e != nil {
			p.Egress[id] = e
		}
		return none, err
	})
	return err
}

// LoggingFor returns how much is kept of the exchanges of id, whose own word stays.
func (p *RuntimeState) LoggingFor(id *access.Identity) access.Logging {
	l := p.Logging[cmp.Or(id.Workspace, id.Organisation)]
	l.Key = id.Logging.Key
	return l
}
