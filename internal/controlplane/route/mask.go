package route

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"modelgate/config"
	"modelgate/internal/records/reqlog"
)

// secretName matches names of fields and headers that hold secrets, in snake and camel
// case.
var secretName = regexp.MustCompile(`(?i)key|secret|token|password|credential|authorization|cookie|service_?account|private|signature|assertion|custom_?headers`)

// plainName matches names that look like secretName but hold no secrets.
var plainName = regexp.MustCompile(`(?i)^(api_?key_?id|key_?id|user_?api_?key_|access_?key_?id_?ref|max_tokens|tokens|token_type|.*_tokens|secret_mappings|secret_reference_id|secret_key|secret_path|keys|metadataKeys)$`)

// keyPart matches the private members of a JSON Web Key.
var keyPart = regexp.MustCompile(`(?i)^(d|p|q|dp|dq|qi|oth|k)$`)

const masked = "***"

func secretly(name string) bool { return secretName.MatchString(name) && !plainName.MatchString(name) }

// maskBody returns a body as JSON text with its secrets masked.
func maskBody(body []byte) string {
	if len(body) == 0 {
		return "null"
	}
	var v any
	if json.Unmarshal(body, &v) != nil {
		return `"(not JSON)"`
	}
	out, err := json.Marshal(maskValue(v))
	if err != nil {
		return "null"
	}
	return string(out)
}

// maskValue returns v with its secrets masked. A string that contains JSON is masked by
// its content, because a config may be sent as a string.
func maskValue(v any) any {
	switch v := v.(type) {
	case string:
		return maskText(v)
	case map[string]any:
		for name, inner := range v {
			if name == "config" {
				inner = maskGivenConfig(inner)
			}
			if (secretly(name) || v["kty"] != nil && keyPart.MatchString(name)) && inner != nil {
				v[name] = masked
				continue
			}
			v[name] = maskValue(inner)
		}
	case []any:
		for i := range v {
			v[i] = maskValue(v[i])
		}
	}
	return v
}

// maskText masks a string that contains a JSON object or array, or an address, and
// returns others unchanged.
func maskText(text string) string {
	if isAddress(text) {
		return maskAddress(text)
	}
	if t := strings.TrimSpace(text); t == "" || t[0] != '{' && t[0] != '[' {
		return text
	}
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	out, err := json.Marshal(maskValue(maskConfig([]byte(text), v)))
	if err != nil {
		return masked
	}
	return string(out)
}

// isAddress reports whether a string is an address with a host.
func isAddress(text string) bool {
	scheme, rest, ok := strings.Cut(text, "://")
	return ok && scheme != "" && rest != "" && !strings.ContainsAny(text, " \t\r\n{\"")
}

// channelHosts are ends of hosts whose addresses let anybody who knows their path post to a channel.
var channelHosts = []string{"hooks.slack.com", "hooks.slack-gov.com", ".webhook.office.com"}

// maskAddress returns an address without what may be a credential: a user and password,
// the path of a channel, the values of a query, and a fragment.
func maskAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return masked
	}
	user, query, fragment := u.User, u.RawQuery, u.Fragment
	u.User, u.RawQuery, u.Fragment, u.RawFragment = nil, "", "", ""
	host := strings.ToLower(u.Hostname())
	channel := slices.ContainsFunc(channelHosts, func(end string) bool { return strings.HasSuffix(host, end) })
	if user == nil && query == "" && fragment == "" && !channel {
		return address
	}
	if channel {
		u.Path, u.RawPath = "/", ""
	}
	out := u.String()
	if channel {
		out += masked
	}
	if user != nil {
		out = strings.Replace(out, "://", "://"+masked+"@", 1)
	}
	if query != "" {
		var pairs []string
		for pair := range strings.SplitSeq(query, "&") {
			if name, _, named := strings.Cut(pair, "="); named {
				pairs = append(pairs, name+"="+masked)
			} else {
				pairs = append(pairs, masked)
			}
		}
		out += "?" + strings.Join(pairs, "&")
	}
	if fragment != "" {
		out += "#" + masked
	}
	return out
}

// maskGivenConfig returns a config in a body with its credentials masked. A string that
// is neither JSON nor a name is replaced.
func maskGivenConfig(v any) any {
	switch v := v.(type) {
	case string:
		if !json.Valid([]byte(v)) && strings.ContainsAny(v, `{":`) {
			return "(not JSON)"
		}
	case map[string]any:
		if text, err := json.Marshal(v); err == nil {
			return maskConfig(text, v)
		}
	}
	return v
}

// maskConfig returns v, the decoded text, with credentials masked if text is a config,
// in which more names hold credentials.
func maskConfig(text []byte, v any) any {
	hidden, err := config.ReplaceCredentials(text, func(config.Credential) (string, error) { return masked, nil })
	if err != nil {
		return v
	}
	var out any
	if json.Unmarshal(hidden, &out) != nil {
		return v
	}
	return out
}

// maxHeaderText is the length in bytes to which the audit log shortens a header.
const maxHeaderText = 1 << 10

func maskHeader(h http.Header) string {
	out := make(map[string]string, len(h))
	for name, values := range h {
		out[name] = reqlog.Cut(strings.Join(values, ", "), maxHeaderText)
		if secretly(name) || strings.Contains(strings.ToLower(name), "config") {
			out[name] = masked
		}
	}
	return object(out)
}

func maskQuery(q url.Values) string {
	out := make(map[string]string, len(q))
	for name, values := range q {
		out[name] = strings.Join(values, ", ")
		if secretly(name) {
			out[name] = masked
		}
	}
	return object(out)
}

func object(m map[string]string) string {
	b, err := json.Marshal(m)
	if err != nil {
		return "{}"
	}
	return string(b)
}

// maxBulkBody is the length in bytes up to which the audit log stores the body of a
// route with [Route.Bulk], without that member.
const maxBulkBody = 64 << 10

// shortenBulk returns body with the length of a member instead of its text.
func shortenBulk(body, member string) string {
	var v map[string]any
	if json.Unmarshal([]byte(body), &v) == nil {
		if text, ok := v[member].(string); ok {
			v[member] = fmt.Sprintf("(%d bytes)", len(text))
			if short, err := json.Marshal(v); err == nil {
				body = string(short)
			}
		}
	}
	if len(body) > maxBulkBody {
		return `"(too long)"`
	}
	return body
}
