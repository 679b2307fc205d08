package policy

import (
	"strings"
	"time"
)

// Facts are what conditions and group_by read of a request. Empty values are
// absent.
type Facts struct {
	Time time.Time

	Organisation, Workspace string // ids
	KeyID                   string
	User                    string // id of the owner of the gateway key
	Metadata                map[string]string
	// Model is as requested, with the prefix of a managed provider, or as a config or
	// saved prompt sets it. ModelInPath is true if it is the end of a path that passes
	// through, which begins with the name of the model.
	Model       string
	ModelInPath bool
	// Also are further models that the request names, such as fallbacks. Policies apply to
	// it as to a request for each of them.
	Also           []string
	Prompt, Config string // slugs
	EndpointType   string // the operation
	TraceID        string // only if the client sent one

	// Tools is true for a message to a tool server, which only policies of [TargetTools] limit.
	// Tool is empty unless a tool is called, and Call identifies the tool and its arguments;
	// see [CallDigest].
	Tools              bool
	Server, Tool, Call string

	// The target of an attempt; empty before one is chosen.
	Provider string // id
	Slug     string // of the managed provider, without @
}

// key is a parsed key of a condition or of group_by.
type key struct {
	name  string
	field string // of metadata; empty for other keys
}

func parseKey(name string) key {
	if name == KeySession {
		return key{name, SessionField}
	}
	field, ok := strings.CutPrefix(name, MetadataPrefix)
	if !ok {
		field = ""
	}
	return key{name, field}
}

// ofTarget reports whether values of the key are known only for an attempt.
func (k key) ofTarget() bool { return k.name == KeyProvider || k.name == KeyVirtualKey }

// ofClient reports whether clients choose values of the key freely.
func (k key) ofClient() bool {
	switch k.name {
	case KeyModel, KeyTrace, KeyPrompt, KeyConfig, KeyTool:
		return true
	}
	return k.field != ""
}

// value returns the request's value of a key, empty if it has none. That of the
// model has no prefix, and is in its canonical form.
func (f *Facts) value(k key) string {
	if k.field != "" {
		return f.Metadata[k.field]
	}
	switch k.name {
	case KeyServer:
		return f.Server
	case KeyTool:
		if f.Tool == "" {
			return ""
		}
		return f.Server + "/" + f.Tool
	case KeyAPIKey:
		return f.KeyID
	case KeyWorkspace:
		return f.Workspace
	case KeyOrganisation:
		return f.Organisation
	case KeyUser:
		return f.User
	case KeyVirtualKey:
		return f.Slug
	case KeyProvider:
		return f.Provider
	case KeyConfig:
		return f.Config
	case KeyPrompt:
		return f.Prompt
	case KeyModel:
		_, model := splitModel(f.Model)
		return canonicalModel(model)
	case KeyEndpoint:
		return f.EndpointType
	case KeyTrace:
		return f.TraceID
	}
	return ""
}

// splitModel splits "@provider/model". The provider is empty if there is no prefix.
func splitModel(text string) (provider, model string) {
	if !strings.HasPrefix(text, "@") {
		return "", text
	}
	provider, model, ok := strings.Cut(text[1:], "/")
	if !ok {
		return "", text
	}
	return provider, model
}
