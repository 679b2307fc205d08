package secretref

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
)

// maxValue is the limit of a value, in bytes.
const maxValue = 64 << 10

// secretPayload is a secret returned by a manager.
type secretPayload struct {
	text   secret.String
	values bool // the manager stores several values per secret; text is a JSON object of them
}

// pick returns one value of a secret, or all of it. A secret with a single value needs
// no key.
func (f secretPayload) pick(key, format string) (secret.String, error) {
	text, plain, err := f.value(key)
	if err != nil {
		return secret.String{}, err
	}
	switch {
	case format == "json" && !json.Valid([]byte(text)):
		return secret.String{}, payloadError("the value is not JSON, as value_format asks for")
	case format != "json" && !plain:
		return secret.String{},
			payloadError("the value is an object or a list; name one of its values with secret_key, or take it as it is with value_format json")
	case strings.TrimSpace(text) == "":
		return secret.String{}, payloadError("the value is empty")
	case len(text) > maxValue:
		return secret.String{}, apierr.New(apierr.Invalid, "the value is longer than %d bytes", maxValue).WithCode("secret_too_large")
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return secret.String{}, payloadError("the value is not text")
	}
	s, err := secret.Parse(text)
	if err != nil {
		return secret.String{}, payloadError("the value " + err.Error())
	}
	return s, nil
}

// value returns a value as text, and whether it is a string, number or boolean.
func (f secretPayload) value(key string) (text string, plain bool, err error) {
	text = f.text.Reveal()
	if key == "" && !f.values {
		return text, true, nil
	}
	var values map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &values) != nil { // the error would quote it
		return "", false, payloadError("the secret is not an object of values; leave secret_key away")
	}
	if key == "" && len(values) != 1 {
		return text, false, nil
	}
	raw, ok := values[key]
	if key == "" {
		for _, raw = range values {
			ok = true
		}
	}
	if raw = bytes.TrimSpace(raw); !ok || len(raw) == 0 {
		return "", false,
			apierr.New(apierr.Invalid, "the secret has no value with the name in secret_key").WithParam("secret_key").WithCode("secret_not_found")
	}
	if raw[0] == '"' {
		if json.Unmarshal(raw, &text) != nil {
			return "", false, payloadError("the value is not text")
		}
		return text, true, nil
	}
	return string(raw), !bytes.ContainsAny(raw[:1], "{[n"), nil
}

func payloadError(what string) error {
	return apierr.New(apierr.Invalid, "%s", what).WithCode("secret_malformed")
}
