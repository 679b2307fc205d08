package store

import (
	"net/http"
	"net/url"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/model/catalog"
	"modelgate/internal/provider/toolserver"
)

// ToolTarget returns a tool server as requests see it, without the rules for its capabilities
// and the access of its users. Opened are the secrets of its integration. Whoever writes an
// integration chooses its address, so that it is always guarded.
func ToolTarget(i *ToolIntegration, s *ToolServer, opened Secrets) *toolserver.Server {
	set := &i.Settings
	t := &toolserver.Server{
		ID: s.ID, Slug: s.Slug, Workspace: s.Workspace, Organisation: i.Organisation, Name: s.Name, Description: s.Description,
		Transport: toolserver.Transport(i.Transport), Command: i.Command, Document: set.Document, Guarded: true,
		Revision: i.UpdatedAt.UnixNano(),
		Auth:     toolserver.Auth(i.Auth), Headers: make(map[string]secret.String, len(opened.Headers)), PassHeaders: set.PassHeaders,
		CallTimeout: time.Duration(set.CallTimeout) * time.Second, IdleTimeout: time.Duration(set.IdleTimeout) * time.Second,
		TrustAnnotations: set.Trust, SearchAbove: set.SearchAbove,
		Writes: strictest(set.Writes, s.Rules.Writes), Destroys: strictest(set.Destroys, s.Rules.Destroys),
		HoldChanged: set.HoldChanged || s.Rules.HoldChanged, UsersDenied: s.DefaultAccess == AccessDeny,
	}
	for name, v := range opened.Headers {
		t.Headers[http.CanonicalHeaderKey(name)] = v
	}
	if o := set.OAuth; o != nil {
		t.OAuth = &toolserver.OAuthClient{ID: o.ClientID, Secret: opened.Options[ClientSecret], Scopes: o.Scopes, TokenURL: o.TokenURL,
			AuthorizeURL: o.AuthorizeURL}
	}
	if i.URL == "" {
		return t
	}
	u, err := url.Parse(i.URL)
	if err != nil {
		t.Fault = apierr.New(apierr.Unavailable, "the address of the tool server %s cannot be read; set it again in its integration", s.Slug).
			WithCode("tool_server_unusable").WithCause(err)
	}
	t.URL = u
	return t
}

// strictest returns the stricter of two decisions, of which an empty one allows.
func strictest(a, b string) toolserver.Decision {
	for _, d := range [...]toolserver.Decision{toolserver.Deny, toolserver.Ask} {
		if a == string(d) || b == string(d) {
			return d
		}
	}
	return toolserver.Allow
}

// ToolItemRules returns the rules of an integration or a server for its capabilities.
func ToolItemRules(list []ToolCapability) (r toolserver.Rules) {
	if len(list) == 0 {
		return r
	}
	r = toolserver.Rules{Off: make(map[toolserver.Item]bool), Approved: make(map[toolserver.Item]string),
		Prices: make(map[string]catalog.NanoDollars)}
	for _, c := range list {
		item := c.Item()
		if !c.Enabled {
			r.Off[item] = true
		}
		if c.Approved != "" {
			r.Approved[item] = c.Approved
		}
		if c.Price != nil && item.Kind == toolserver.Tool {
			r.Prices[c.Name] = catalog.NanoDollars(*c.Price)
		}
	}
	return r
}

// Item returns what c is of.
func (c ToolCapability) Item() toolserver.Item {
	return toolserver.Item{Kind: toolserver.Kind(c.Kind), Name: c.Name}
}
