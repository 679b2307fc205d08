package guardrail

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"

	"modelgate/config"
	"modelgate/internal/format/jsonedit"
)

var plainName = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_-]*$`)

// property returns the path of a member, as config writes it.
func property(path, name string) string {
	if len(name) <= 64 && plainName.MatchString(name) {
		return path + "." + name
	}
	return path + "[" + strconv.Quote(name[:min(len(name), 64)]) + "]"
}

// parseObject reads a JSON object with its members in order. Nothing is an empty
// object.
func parseObject(raw json.RawMessage) (config.Object, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return config.Object{}, nil
	}
	var doc jsonedit.Doc
	if err := doc.Scan(raw); err != nil {
		if d, ok := errors.AsType[*jsonedit.DuplicateKeyError](err); ok {
			return nil, d
		}
		return nil, errNotObject
	}
	out := make(config.Object, 0, doc.Len())
	for key, value := range doc.Members() {
		out = append(out, config.Member{Name: key.String(), Value: value.Raw()})
	}
	return out, nil
}

var errNotObject = errors.New("must be an object")
