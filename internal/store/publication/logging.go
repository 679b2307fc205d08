package publication

import (
	"cmp"
	"context"

	"modelgate/internal/base/egress"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// readLogging reads the logging levels and egress policies.
func (l *loader) readLogging(ctx context.Context) error {
	l.state.Logging, l.state.Egress = make(map[string]access.Logging), make(map[string]*egress.Policy)
	limit := func(id string, e *egress.Policy) {
		if e = e.Strict(); e != nil {
			l.state.Egress[id] = e
		}
	}
	for id, s := range l.settings {
		l.state.Logging[id] = access.Logging{Organisation: access.ParseLogLevel(s.Logging), Override: s.LoggingOverridable}
		limit(id, s.Egress)
	}
	list, err := l.workspaces(ctx)
	if err != nil {
		return err
	}
	slugs := make(map[string]string, len(l.organisations))
	for _, o := range l.organisations {
		slugs[o.ID] = o.Slug
	}
	l.state.Workspaces = make(map[string]WorkspaceName, len(list))
	for i := range list {
		w := &list[i]
		l.state.Workspaces[w.ID] = WorkspaceName{w.Organisation, slugs[w.Organisation], w.Slug}
		s, err := decode[store.KeyDefaults](w, w.Settings)
		if err != nil {
			return err
		}
		logging := l.state.Logging[w.Organisation]
		logging.Workspace = access.ParseLogLevel(s.Logging)
		l.state.Logging[w.ID] = logging
		limit(w.ID, s.Egress)
	}
	return nil
}

// LoggingFor returns the logging level for id, whose own setting wins.
func (s *State) LoggingFor(id *access.Identity) access.Logging {
	l := s.Logging[cmp.Or(id.Workspace, id.Organisation)]
	l.Key = id.Logging.Key
	return l
}
