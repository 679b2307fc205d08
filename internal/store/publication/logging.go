package publication

import (
	"cmp"
	"context"

	"modelgate/internal/base/egress"
	"modelgate/internal/identity/access"
	"modelgate/internal/storage/sqlrow"
	"modelgate/internal/store"
)

// readLogging reads the logging levels and egress policies.
func (l *loader) readLogging(ctx context.Context) error {
	const (
		organisations = `
		SELECT id, settings
		FROM organisations`
		workspaces = `
		SELECT id, organisation_id, settings
		FROM workspaces
		WHERE status = 'active'`
	)
	l.state.Logging, l.state.Egress = make(map[string]access.Logging), make(map[string]*egress.Policy)
	_, err := sqlrow.List(ctx, l.q.Reader, "organisations", organisations, func(r sqlrow.Scanner) (none struct{}, err error) {
		var id string
		var s store.OrganisationSettings
		err = r.Scan(&id, sqlrow.JSON(&s))
		l.state.Logging[id] = access.Logging{Organisation: access.ParseLogLevel(s.Logging), Override: s.LoggingOverridable}
		if e := s.Egress.Strict(); e != nil {
			l.state.Egress[id] = e
		}
		return none, err
	})
	if err != nil {
		return err
	}
	_, err = sqlrow.List(ctx, l.q.Reader, "workspaces", workspaces, func(r sqlrow.Scanner) (none struct{}, err error) {
		var id, organisation string
		var s store.KeyDefaults
		err = r.Scan(&id, &organisation, sqlrow.JSON(&s))
		logging := l.state.Logging[organisation]
		logging.Workspace = access.ParseLogLevel(s.Logging)
		l.state.Logging[id] = logging
		if e := s.Egress.Strict(); e != nil {
			l.state.Egress[id] = e
		}
		return none, err
	})
	return err
}

// LoggingFor returns the logging level for id, whose own setting wins.
func (s *State) LoggingFor(id *access.Identity) access.Logging {
	l := s.Logging[cmp.Or(id.Workspace, id.Organisation)]
	l.Key = id.Logging.Key
	return l
}
