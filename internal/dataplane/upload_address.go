package dataplane

import (
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/base/secret"
	"modelgate/internal/pipeline/exchange"
)

// uploadURL is the header with the address for the content of a file, to which
// clients of the gemini dialect send it, some of them without their key.
// https://ai.google.dev/api/files#method:-media.upload
const uploadURL = "X-Goog-Upload-Url"

const (
	// grantParameter is the query parameter with an uploadGrant, sealed.
	grantParameter = "gateway_grant"
	// grantLifetime is how long content can be sent to an address.
	grantLifetime = 24 * time.Hour
)

// uploadGrant is what the address of an upload lets its holder do: send content
// to this address, with the key and to the provider of the request that began
// the upload.
type uploadGrant struct {
	Key      string    `json:"key"`
	Provider string    `json:"provider"` // slug; empty if headers set the credentials
	Query    string    `json:"query"`    // of the address, without the grant
	Until    time.Time `json:"until"`
}

// ownUploadURL replaces the provider's address of an upload with the gateway's. An address
// that the gateway cannot have is removed: the client would send its key to it.
func (p *Plane) ownUploadURL(r *http.Request, x *roundTrip, h http.Header, res *exchange.Response) {
	address := h.Get(uploadURL)
	if address == "" || x.admission.route.api != geminiFiles || res.Attempt == nil {
		return
	}
	delete(h, uploadURL)
	t := res.Attempt.Target
	u, err := url.Parse(address)
	if err != nil {
		return
	}
	path, ok := t.PathBelow(u)
	if v, known := findVendorRoute(path); !ok || !known || v.api != geminiFiles {
		return
	}
	own := p.ownAddress(r)
	if own == "" {
		return
	}
	query := u.RawQuery
	if key := x.admission.request.Received.Key.Reveal(); key != "" {
		grant, _ := json.Marshal(uploadGrant{Key: key, Provider: t.Slug, Query: query,
			Until: x.admission.request.Time.Add(grantLifetime)}) // strings and a time
		query += "&" + grantParameter + "=" + url.QueryEscape(p.Box.Seal(secret.New(string(grant))))
	}
	h[uploadURL] = []string{strings.TrimSuffix(own, "/") + path + "?" + query}
}

// withoutGrants returns a query without the parameters that are named like a grant.
func withoutGrants(query string) string {
	if query == "" {
		return ""
	}
	kept := make([]string, 0, strings.Count(query, "&")+1)
	for part := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(name); err == nil && strings.EqualFold(plain, grantParameter) {
			continue
		}
		kept = append(kept, part)
	}
	return strings.Join(kept, "&")
}

// ownAddress returns the configured address of the gateway, otherwise the one at which the
// connection of the request arrived. The client's Host and headers do not matter: the
// address will hold a grant. Empty means unknown.
func (p *Plane) ownAddress(r *http.Request) string {
	if p.PublicURL != nil {
		if own := p.PublicURL(); own != "" {
			return own
		}
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	switch {
	case !ok:
		return ""
	case r.TLS != nil:
		return "https://" + local.String()
	}
	return "http://" + local.String()
}

// useUploadGrant takes a grant from the query of an upload. If it is valid and
// the request has no credential, it gives the request its key and provider. A grant in
// another place or spelling, or of another request, is removed: it is not the provider's.
func (a *admission) useUploadGrant() {
	defer func() { a.request.Received.Query = withoutGrants(a.request.Received.Query) }()
	if a.route.api != geminiFiles || a.request.Received.Method != http.MethodPost || !strings.HasPrefix(a.entry.Path, "/upload/") {
		return
	}
	query, sealed, ok := strings.Cut(a.request.Received.Query, "&"+grantParameter+"=")
	if !ok {
		return
	}
	sealed, rest, more := strings.Cut(sealed, "&")
	if a.request.Received.Query = query; more {
		a.request.Received.Query += "&" + rest
	}
	if key, _ := a.snap.Credential(a.request.Received.Header); key != "" {
		return
	}
	text, err := url.QueryUnescape(sealed)
	if err != nil {
		return
	}
	opened, err := a.plane.Box.Open(text)
	var grant uploadGrant
	if err != nil || json.Unmarshal([]byte(opened.Reveal()), &grant) != nil || grant.Query != query || !a.request.Time.Before(grant.Until) {
		return
	}
	a.request.Received.Header = maps.Clone(a.request.Received.Header)
	a.request.Received.Header[api.HeaderKey] = []string{grant.Key}
	if grant.Provider != "" {
		a.request.Received.Header[api.HeaderProvider] = []string{"@" + grant.Provider}
	}
}
