package server

import (
	"modelgate/internal/apierr"
	"modelgate/internal/datakey"
	"modelgate/internal/provider"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
)

// addStored adds what is stored to what a snapshot is built from. An entry that
// can't be used is added with its fault, so that it is told to who uses it and
// does not keep the rest from being published.
func (s *Server) addStored(in *snapshot.Input, p *store.Published) {
	in.Revision = p.Revision
	in.Keys = append(in.Keys, p.Identities...)
	in.Prompts, in.Partials = p.Prompts, p.Partials
	for _, c := range p.Configs {
		in.Configs = append(in.Configs, snapshot.Config{Workspace: c.Workspace, ID: c.ID, Slug: c.Slug, Text: c.Text, Stored: true})
	}
	open := opener{s.ring, p.DataKeys}
	for i := range p.Providers {
		in.Providers = append(in.Providers, storedProvider(&p.Providers[i], open))
	}
}

func storedProvider(p *store.PublishedProvider, open opener) snapshot.Managed {
	m := snapshot.Managed{Workspace: p.Workspace, Slug: p.Slug, Provider: p.Provider, ExpiresAt: p.ExpiresAt, Stored: true}
	if !p.AllModels {
		m.Models = append([]string{}, p.Models...)
	}
	if m.Fault = unfit(p); m.Fault != nil {
		return m
	}
	opened, err := open.secrets(p)
	if err != nil {
		m.Fault = apierr.New(apierr.Invalid, "the provider entry @%s can't be used: its credential does not open; enter it again in its integration", p.Slug).
			WithParam("x-gateway-provider").WithCode("provider_unusable").WithCause(err)
		return m
	}
	m.Settings = provider.Settings{Key: opened.Key, CustomHost: p.Configuration.CustomHost, Options: p.Configuration.TargetOptions(opened)}
	return m
}

// unfit returns why an entry can't be used by what its row says.
func unfit(p *store.PublishedProvider) *apierr.Error {
	switch {
	case p.Withdrawn:
		return apierr.New(apierr.Forbidden, "the integration of the provider entry @%s was taken from this workspace", p.Slug).
			WithParam("x-gateway-provider").WithCode("provider_withdrawn")
	case p.Status == store.Exhausted:
		return apierr.New(apierr.BudgetExhausted, "the provider entry @%s has used up its budget", p.Slug).
			WithParam("x-gateway-provider").WithCode("provider_exhausted")
	case p.Status == store.Expired:
		return snapshot.ErrExpired
	}
	return nil
}

// opener opens the stored credentials of one state.
type opener struct {
	ring *datakey.Ring
	keys map[string]string // wrapped, by organisation
}

func (o opener) secrets(p *store.PublishedProvider) (store.Secrets, error) {
	if p.Sealed == "" {
		return store.Secrets{}, nil
	}
	opened, err := o.ring.OpenWith(p.Organisation, o.keys[p.Organisation], p.Sealed)
	if err != nil {
		return store.Secrets{}, err
	}
	return store.ParseSecrets(opened)
}
