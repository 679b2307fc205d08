package dataplane

import (
	"net/http"
	"net/url"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/urlpath"
	"modelgate/internal/dialect"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/exchange"
)

// addressHeaders are response headers with an address that client libraries ask next, with
// the headers of their first request: the gateway key.
//
//   - https://www.rfc-editor.org/rfc/rfc9110#field.location
//   - https://learn.microsoft.com/azure/architecture/patterns/asynchronous-request-reply
//   - https://www.rfc-editor.org/rfc/rfc8288
var addressHeaders = [...]string{"Location", "Operation-Location", "Azure-Asyncoperation", "Link"}

// ownAddresses returns the provider's addresses in headers of a response that passes through
// as addresses of the gateway, by header. Empty means that the client must not get the
// address, since it is at another host or the gateway's administration. A redirect without
// an address is an error.
func ownAddresses(p *Plane, r *http.Request, x *roundTrip, res *exchange.Response) (map[string]string, error) {
	if x.admission.request.Operation != api.Proxy || res.Attempt == nil || res.Raw == nil {
		return nil, nil
	}
	var own map[string]string
	for _, name := range addressHeaders {
		text := strings.Join(res.Header[name], ", ")
		if text == "" {
			continue
		}
		change := ownAddressOf
		if name == "Link" {
			change = ownLinks
		}
		address, lost := change(p, r, x, res, text)
		if lost {
			if to, err := attempt.ResolveAddress(res.Raw, text); err == nil && attempt.IsRedirect(res.Raw) && name == "Location" {
				return nil, attempt.RefuseRedirect(res.Attempt.Target, to, "the gateway has no route for that address")
			}
			x.trail.Note(dialect.ParamChange{Name: strings.ToLower(name), Outcome: dialect.Dropped})
		}
		if own == nil {
			own = make(map[string]string)
		}
		own[name] = address
	}
	return own, nil
}

// ownLinks returns the value of a header Link without the links to other hosts. Those to
// the provider are links to the gateway.
// https://www.rfc-editor.org/rfc/rfc8288#section-3
func ownLinks(p *Plane, r *http.Request, x *roundTrip, res *exchange.Response, text string) (links string, lost bool) {
	var kept []string
	for text != "" {
		_, rest, opens := strings.Cut(text, "<")
		address, rest, closes := strings.Cut(rest, ">")
		if !opens || !closes {
			break
		}
		end := len(rest)
		quoted := false
		for i, c := range rest {
			if c == '"' {
				quoted = !quoted
			}
			if c == ',' && !quoted {
				end = i
				break
			}
		}
		own, foreign := ownAddressOf(p, r, x, res, address)
		if lost = lost || foreign; !foreign {
			kept = append(kept, "<"+own+">"+rest[:end])
		}
		text = rest[end:]
	}
	return strings.Join(kept, ", "), lost
}

// ownAddressOf returns the address of the gateway at which a client gets what is at the
// provider's address in text. An address that names no host and is not below the
// provider's is returned as it is. One for which there is none is lost.
func ownAddressOf(p *Plane, r *http.Request, x *roundTrip, res *exchange.Response, text string) (address string, lost bool) {
	to, err := attempt.ResolveAddress(res.Raw, text)
	if err != nil {
		return "", true
	}
	path, below := res.Attempt.Target.PathBelow(to)
	if bare, err := url.Parse(text); !below && err == nil && bare.Scheme == "" && bare.Host == "" && !attempt.IsRedirect(res.Raw) {
		return text, false
	}
	own := p.ownAddress(r)
	if !below || own == "" {
		return "", true
	}
	base, ok := strings.CutSuffix(x.entry.Path, x.admission.request.Received.Path)
	if !ok {
		base = api.BasePath
	}
	target := base + path
	if to.RawQuery != "" {
		target += "?" + to.RawQuery
	}
	if !isModelAddress(p, r, target) {
		return "", true
	}
	if target = strings.TrimSuffix(own, "/") + target; to.Fragment != "" {
		target += "#" + to.EscapedFragment()
	}
	return target, false
}

// isModelAddress reports whether the client of r reaches a provider at a path and query of
// the gateway: with the method of r, and with GET, to which clients change it when they
// follow redirects.
func isModelAddress(p *Plane, r *http.Request, target string) bool {
	path, query, _ := strings.Cut(target, "?")
	path, err := urlpath.Canonical(path)
	if err != nil {
		return false
	}
	for _, method := range [...]string{http.MethodGet, r.Method} {
		next := &http.Request{Method: method, URL: &url.URL{Path: path}, Header: r.Header, RequestURI: path + "?" + query}
		if p.IsModelRoute != nil && !p.IsModelRoute(next) {
			return false
		}
	}
	return true
}

// setOrDelete sets a header, or deletes it if the value is empty.
func setOrDelete(h http.Header, name, value string) {
	if value == "" {
		delete(h, name)
		return
	}
	h[name] = []string{value}
}
