package route

import (
	"context"
	"encoding/json"
	"html/template"
	"net/http"
	"strings"

	"modelgate/internal/identity/access"
)

// Answer is what a route for browsers answers: a redirect, or a page.
type Answer struct {
	Status   int    // zero is 302 with a Location, 200 without
	Location string // where the browser goes
	Type     string // media type of Body; empty is HTML
	Body     []byte

	// Form makes the browser send a form; nothing else is set then.
	Form *Form
}

// Form is a form that a browser sends by itself, or, without scripts, by a button.
type Form struct {
	Address string
	Fields  map[string]string
}

var formTemplate = template.Must(template.New("form").Parse(`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Sign in · modelgate</title></head>
<body>
<form method="post" action="{{.Address}}">
{{range $name, $value := .Fields}}<input type="hidden" name="{{$name}}" value="{{$value}}">
{{end}}<noscript><button>Continue</button></noscript>
</form>
<script>document.forms[0].submit()</script>
</body>
</html>
`))

// write writes a page with the form. It may lead anywhere, since providers send browsers on.
func (f *Form) write(w http.ResponseWriter) {
	pageHeader(w.Header())
	policy := strings.Replace(w.Header().Get("Content-Security-Policy"), "form-action 'none'", "form-action http: https:", 1)
	w.Header().Set("Content-Security-Policy", policy)
	formTemplate.Execute(w, f)
}

// AddBrowser adds a route that browsers open, or that an identity provider calls. It has
// the limits and the audit log of other routes, but no place in the API's
// description and in [API.Routes]. The audit log stores neither query nor body, which have codes and tokens; what it must
// have is set with [Caller.SetAuditDetails].
func AddBrowser(a *API, r Route, f func(ctx context.Context, c *Caller, req *http.Request) *Answer) {
	r.UncheckedBody, r.browser = true, true
	a.addHandler(&r, func(w http.ResponseWriter, req *http.Request) {
		f(req.Context(), callerOf(req.Context()), req).write(w)
	})
}

func (a *Answer) write(w http.ResponseWriter) {
	if a.Form != nil {
		a.Form.write(w)
		return
	}
	h, status := w.Header(), a.Status
	pageHeader(h)
	if a.Type != "" {
		h.Set("Content-Type", a.Type)
	}
	if a.Location != "" {
		h.Set("Location", a.Location)
		h.Del("Content-Type")
	}
	if status == 0 {
		status = http.StatusOK
		if a.Location != "" {
			status = http.StatusFound
		}
	}
	w.WriteHeader(status)
	w.Write(a.Body)
}

// SetCookie adds a cookie to the response. It has HttpOnly, and Secure if the gateway is
// reached over HTTPS.
func (c *Caller) SetCookie(k *http.Cookie) {
	k.HttpOnly, k.Secure = true, c.IsSecure()
	c.header.Add("Set-Cookie", k.String())
}

// IsSecure reports whether browsers reach the gateway over HTTPS, by this request or by its
// public address.
func (c *Caller) IsSecure() bool {
	return c.request.TLS != nil || strings.HasPrefix(c.Link(""), "https://")
}

// Cookie returns the value of a cookie of the request, empty if there is none.
func (c *Caller) Cookie(name string) string {
	if k, err := c.request.Cookie(name); err == nil {
		return k.Value
	}
	return ""
}

// Identify records who a request to an open route turned out to be from.
func (c *Caller) Identify(id *access.Identity) { c.identify(id) }

// SetAuditDetails sets what the audit log stores as body of the request. It must have no
// secrets.
func (c *Caller) SetAuditDetails(details map[string]string) { c.details = details }

// AddAuditDetail adds to what the audit log stores as body of the request, instead of what was
// sent. The value must not be secret.
func (c *Caller) AddAuditDetail(name, value string) {
	if c.details == nil {
		c.details = make(map[string]string)
	}
	c.details[name] = value
}

// describeBrowser is [Caller.describe] for a route of browsers, and for details.
func (c *Caller) describeBrowser() {
	c.audit.QueryParams, c.audit.RequestHeaders, c.audit.RequestBody = "{}", maskHeader(c.request.Header), c.detailText()
}

// detailText returns the details as JSON text.
func (c *Caller) detailText() string {
	text, err := json.Marshal(c.details)
	if err != nil || c.details == nil {
		return "{}"
	}
	return string(text)
}
