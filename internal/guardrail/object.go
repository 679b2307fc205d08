package guardrail

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"

	"modelgate/config"
)

var plainName = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_-]*$`)

// property returns the path of a member, as config writes it.
func property(path, name string) string {
	if len(name) <= 64 && plainName.MatchString(name) {
		return path + "." + name
	}
	return path + "[" + strconv.Quote(name[:min(len(name), 64)]) + "]"
}

var errNotObject = errors.New("not an object")

// parseObject reads a JSON object with its members in order. Nothing is an empty
// object.
func parseObject(raw json.RawMessage) (config.Object, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return config.Object{}, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errNotObject
	}
	out := config.Object{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		out = append(out, config.Member{Name: name.(string), Value: value})
	}
	return out, nil
}
