package server

import (
	"encoding/json"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

// files returns the control-plane objects declared in the running settings.
func (s *Server) files() route.Declared { return declaredObjects(s.current().settings) }

func declaredObjects(set *settings.Settings) (f route.Declared) {
	for _, c := range set.Configs {
		f.Configs = append(f.Configs, store.ConfigText{
			Config: store.Config{
				ID: route.FileID(c.Slug), Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace,
				Slug: c.Slug, Name: c.Slug, Status: store.Active,
			},
			Text: c.Text().Reveal(),
		})
	}
	for _, p := range set.Providers {
		f.Providers = append(f.Providers, store.Provider{
			ID: route.FileID(p.Slug), Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace,
			Slug: p.Slug, Name: p.Slug, Status: store.Active,
		})
	}
	for _, k := range set.Keys {
		f.Keys = append(f.Keys, fileKey(k))
	}
	return f
}

func fileKey(k settings.Key) store.Key {
	hash, _ := access.ParseHash(k.SHA256) // checked by settings
	defaults, err := json.Marshal(store.KeyDefaults{Config: k.Config})
	if err != nil {
		panic(err) // cannot fail for strings
	}
	return store.Key{
		ID: route.FileID(k.Name), Type: access.WorkspaceService, Name: k.Name, Hash: hash, Mask: "***", Organisation: store.DefaultOrganisation,
		Workspace: store.DefaultWorkspace, Scopes: scopes(k.Scopes), Providers: k.Providers, Tools: k.Tools, Defaults: defaults,
		AlertEmails:  json.RawMessage("[]"),
		CreationMode: "auto", Status: store.KeyActive,
	}
}
