package route

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// secretName matches the names of fields and headers that hold secrets, in snake
// and camel case.
var secretName = regexp.MustCompile(`(?i)key|secret|token|password|credential|authorization|cookie|service_?account|private|signature|assertion|custom_?headers`)

// plainName matches names that look so and hold none.
var plainName = regexp.MustCompile(`(?i)^(api_?key_?id|key_?id|user_?api_?key_|access_?key_?id_?ref|max_tokens|tokens|token_type|.*_tokens|secret_mappings|secret_reference_id|secret_key|secret_path|keys|metadataKeys)$`)

// keyPart matches the members of a JSON Web Key that only its owner may know.
var keyPart = regexp.MustCompile(`(?i)^(d|p|q|dp|dq|qi|oth|k)$`)

const masked = "***"

func secretly(name string) bool { return secretName.MatchString(name) && !plainName.MatchString(name) }

// maskBody returns a body as JSON text without its secrets.
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

func maskValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
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

func maskHeader(h http.Header) string {
	out := make(map[string]string, len(h))
	for name, values := range h {
		out[name] = strings.Join(values, ", ")
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
