package responses

import (
	"encoding/json"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
)

// conversationBody is the body of a request that creates or changes a conversation, or adds
// items to one.
type conversationBody struct {
	Metadata map[string]string
	Items    []json.RawMessage
}

// parseConversation reads a body with these members.
func parseConversation(b []byte, members ...string) (c conversationBody, err error) {
	if len(b) == 0 {
		return c, nil
	}
	var doc jsonedit.Doc
	if err := doc.Scan(b); err != nil {
		return c, apierr.New(apierr.Invalid, "the request body is not a JSON object: %v", err).WithCode("invalid_json")
	}
	for key, v := range doc.Members() {
		known := false
		for _, name := range members {
			known = known || key.Is(name)
		}
		switch {
		case !known:
			return c, apierr.New(apierr.Invalid, "unknown parameter %.60q", key.String()).WithParam(key.String()).WithCode("unknown_parameter")
		case v.IsNull():
		case key.Is("metadata"):
			c.Metadata, err = parseMetadata(v)
		case key.Is("items"):
			c.Items, err = parseItems(v)
		}
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

// Limits of metadata.
const (
	maxPairs = 16
	maxKey   = 64
	maxValue = 512
)

func parseMetadata(v jsonedit.Value) (map[string]string, error) {
	refused := apierr.New(apierr.Invalid, "metadata must be an object of at most %d strings, with keys of at most %d and values of at most %d characters",
		maxPairs, maxKey, maxValue).WithParam("metadata").WithCode("invalid_value")
	if v.Kind() != jsonedit.Object {
		return nil, refused
	}
	list := make(map[string]string)
	for key, field := range v.Fields() {
		name := key.String()
		text, ok := field.Text()
		if !ok || len([]rune(name)) > maxKey || len([]rune(text)) > maxValue {
			return nil, refused
		}
		if list[name] = text; len(list) > maxPairs {
			return nil, refused
		}
	}
	return list, nil
}

func parseItems(v jsonedit.Value) (list []json.RawMessage, err error) {
	refused := apierr.New(apierr.Invalid, "items must be a list of at most %d items, each an object", maxAdded).
		WithParam("items").WithCode("invalid_value")
	if v.Kind() != jsonedit.Array {
		return nil, refused
	}
	for e := range v.Elements() {
		if e.Kind() != jsonedit.Object || len(list) == maxAdded {
			return nil, refused
		}
		list = append(list, json.RawMessage(e.Raw()))
	}
	return list, nil
}
