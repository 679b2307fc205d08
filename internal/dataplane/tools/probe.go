package tools

import (
	"context"
	"errors"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/provider/toolserver"
)

// Probe asks a server what it is and what it offers, whatever is remembered of it. What it
// returns is trusted in nothing. A server that each user signs in to is asked as one of them;
// an empty user is the gateway itself. An error is an *apierr.Error or a *peer.Failure.
func (p *Relay) Probe(ctx context.Context, s *toolserver.Server, user string) (*toolserver.Found, error) {
	if s.Fault != nil {
		return nil, s.Fault
	}
	cred, err := OwnCredential(ctx, p, s, user)
	if err != nil {
		return nil, err
	}
	found, err := p.probe(ctx, s, cred)
	return found, explainSignIn(s, err)
}

// explainSignIn returns the error of a caller who has to sign in as one that says how.
func explainSignIn(s *toolserver.Server, err error) error {
	if _, ok := errors.AsType[*SignInError](err); ok {
		return apierr.New(apierr.Conflict, "you have not signed in to the tool server %s; get a link with POST /v1/auth/tool-connections, open it and try again", s.Slug).
			WithCode("tool_server_needs_sign_in")
	}
	return err
}

func (p *Relay) probe(ctx context.Context, s *toolserver.Server, cred peer.Credential) (*toolserver.Found, error) {
	h, err := p.sessions.greet(ctx, s, cred)
	if err != nil {
		return nil, err
	}
	found := h.describe()
	found.Status = http.StatusOK
	for i := range listKinds {
		k := &listKinds[i]
		p.catalogue.forget(s, cred, k)
		l, err := p.catalogue.list(ctx, s, cred, k)
		if err != nil {
			return nil, err
		}
		for _, d := range l.items {
			found.Items = append(found.Items, toolserver.FoundItem{Item: toolserver.Item{Kind: k.kind, Name: d.name}, Definition: d.raw})
		}
	}
	return found, nil
}

// ErrNoSignIn returns the error for a server that needs a sign-in which this gateway lacks.
func ErrNoSignIn(s *toolserver.Server) *apierr.Error {
	return apierr.New(apierr.Unavailable, "the tool server %s needs a sign-in with OAuth, which this gateway does not offer", s.Slug).
		WithCode("tool_server_sign_in")
}

// describe returns what the server says of itself.
func (h *hello) describe() *toolserver.Found {
	f := &toolserver.Found{Protocol: peer.ModernVersion, Capabilities: h.capabilities}
	var doc jsonedit.Doc
	if doc.Scan(h.raw) != nil {
		return f
	}
	info, ok := doc.Find("serverInfo")
	if h.era == peer.Modern {
		meta, _ := doc.Find("_meta")
		info, ok = meta.Get(metaServer)
	} else if v, ok := doc.Find("protocolVersion"); ok {
		f.Protocol, _ = v.Text()
	}
	if !ok {
		return f
	}
	f.Name, f.Title, f.Version, f.Description = info.TextOf("name"), info.TextOf("title"), info.TextOf("version"), info.TextOf("description")
	icons, _ := info.Get("icons")
	for e := range icons.Elements() {
		i := toolserver.Icon{Source: e.TextOf("src"), Type: e.TextOf("mimeType")}
		sizes, _ := e.Get("sizes")
		for size := range sizes.Elements() {
			if text, ok := size.Text(); ok {
				i.Sizes = append(i.Sizes, text)
			}
		}
		f.Icons = append(f.Icons, i)
	}
	return f
}
