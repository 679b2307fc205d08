package publication

import (
	"context"

	"modelgate/internal/store"
)

// ToolServer is a tool server that its workspace may use.
type ToolServer struct {
	Row         store.ToolServer
	Integration *store.ToolIntegration // shared by its servers

	// Own and Above are the capabilities that rules of the server and of its integration
	// apply to.
	Own, Above []store.ToolCapability

	Users map[string]bool // access by id of the user; nil for none
}

// readToolServers reads the tool servers that are active, whose integration is active and
// granted to their workspace. Others do not exist for requests.
func (l *loader) readToolServers(ctx context.Context) error {
	rows, err := l.q.ActiveToolServers(ctx)
	if err != nil || len(rows) == 0 {
		l.state.ToolServers = nil
		return err
	}
	integrations, err := l.toolIntegrations(ctx)
	if err != nil {
		return err
	}
	grants, err := l.toolGrants(ctx)
	if err != nil {
		return err
	}
	rules, users, err := l.toolRules(ctx)
	if err != nil {
		return err
	}
	l.state.ToolServers = make([]ToolServer, 0, len(rows))
	for _, row := range rows {
		i, ok := integrations[row.Integration]
		if !ok || i.Organisation != row.Organisation || i.Workspace != "" && i.Workspace != row.Workspace {
			continue
		}
		enabled, granted := grants[store.GrantID(row.Integration, row.Workspace)]
		if granted && enabled || !granted && i.GlobalEnabled {
			l.state.ToolServers = append(l.state.ToolServers,
				ToolServer{Row: row, Integration: i, Own: rules[row.ID], Above: rules[i.ID], Users: users[row.ID]})
		}
	}
	return nil
}

// toolIntegrations returns the active integrations of tool servers, by id.
func (l *loader) toolIntegrations(ctx context.Context) (map[string]*store.ToolIntegration, error) {
	list, err := l.q.ActiveToolIntegrations(ctx)
	byID := make(map[string]*store.ToolIntegration, len(list))
	for i := range list {
		byID[list[i].ID] = &list[i]
	}
	return byID, err
}

// toolGrants returns the access of workspaces to integrations of tool servers, by
// [store.GrantID].
func (l *loader) toolGrants(ctx context.Context) (map[string]bool, error) {
	list, err := l.q.AllToolGrants(ctx)
	byID := make(map[string]bool, len(list))
	for _, g := range list {
		byID[store.GrantID(g.Integration, g.Workspace)] = g.Enabled
	}
	return byID, err
}

// toolRules returns the capabilities with rules by their owner, and the access of users by
// server and user.
func (l *loader) toolRules(ctx context.Context) (rules map[string][]store.ToolCapability, users map[string]map[string]bool, err error) {
	capabilities, err := l.q.ToolCapabilityRules(ctx)
	if err != nil {
		return nil, nil, err
	}
	rules = make(map[string][]store.ToolCapability)
	for _, c := range capabilities {
		rules[c.Owner] = append(rules[c.Owner], c)
	}
	access, err := l.q.AllToolUserAccess(ctx)
	users = make(map[string]map[string]bool)
	for _, a := range access {
		if users[a.Server] == nil {
			users[a.Server] = make(map[string]bool)
		}
		users[a.Server][a.User] = a.Enabled
	}
	return rules, users, err
}

func (l *loader) readToolBundles(ctx context.Context) (err error) {
	l.state.ToolBundles, err = l.q.ActiveToolBundles(ctx)
	return err
}
