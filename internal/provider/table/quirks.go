package table

import (
	"net/http"
	"net/url"
	"strings"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/provider"
)

// setBearer sets token as the bearer token and removes the header drop, which
// would have held the credential.
func setBearer(req *http.Request, token, drop string) {
	req.Header.Del(drop)
	req.Header.Set("Authorization", "Bearer "+token)
}

// bodyFields returns the body members that are set by options: fields maps an
// option to its member.
func bodyFields(spec *provider.Spec, s *provider.Settings, fields map[string]string) map[string]string {
	set := map[string]string{}
	for option, field := range fields {
		if v := s.Option(spec, option); v != "" {
			set[field] = string(jsonedit.AppendString(nil, v))
		}
	}
	return set
}

// insert inserts segment between the base address of t and the path after it,
// in both forms of the path in u.
func insert(t *provider.Target, u *url.URL, segment string) {
	base := t.Base.EscapedPath()
	target := strings.TrimPrefix(u.Opaque, "//"+u.Host)
	u.Opaque = base + segment + strings.TrimPrefix(target, base)
	u.Path = t.Base.Path + segment + strings.TrimPrefix(u.Path, t.Base.Path)
}

// addQuery appends a parameter unless the query has it. The client's parameters
// keep their order and spelling.
func addQuery(u *url.URL, name, value string) {
	if u.Query().Has(name) {
		return
	}
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += name + "=" + url.QueryEscape(value)
}
