package converse

import (
	"net/url"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
	"modelgate/internal/model/modeldata"
)

// model is what the id of a target's model reveals.
type model struct {
	vendor string // prefix of the id, such as anthropic; empty if it has none
	id     string // the rest of the id
	*modeldata.Model
}

// newModel returns the model of a vendor.
func newModel(vendor, id string) model {
	vendor, id = strings.ToLower(vendor), strings.ToLower(id)
	return model{vendor, id, modeldata.Bedrock.Of(vendor + "-" + strings.ReplaceAll(id, "/", "-"))}
}

// regions are the prefixes of inference profiles.
// https://docs.aws.amazon.com/bedrock/latest/userguide/inference-profiles-support.html
var regions = []string{"us-gov.", "us.", "eu.", "apac.", "au.", "ca.", "jp.", "global.", "sa.", "me.", "af.", "uk.", "in."}

// modelOf parses an id, or the ARN of a model or of a profile that AWS defines.
// The ARN of an application's own profile does not reveal the model.
func modelOf(id string) model {
	if strings.HasPrefix(id, "arn%3A") || strings.HasPrefix(id, "arn%3a") { // as in a path
		if plain, err := url.PathUnescape(id); err == nil {
			id = plain
		}
	}
	if strings.HasPrefix(id, "arn:") {
		kind, last, _ := strings.Cut(id[strings.LastIndexByte(id, ':')+1:], "/")
		if _, resource, ok := strings.Cut(id, "/"); ok {
			last = resource
			kind = id[:strings.IndexByte(id, '/')]
		}
		if !strings.HasSuffix(kind, ":foundation-model") && !strings.HasSuffix(kind, ":inference-profile") {
			return newModel("", "")
		}
		id = last
	}
	for _, region := range regions {
		if rest, ok := strings.CutPrefix(id, region); ok {
			id = rest
			break
		}
	}
	vendor, rest, ok := strings.Cut(id, ".")
	if !ok {
		return newModel("", id)
	}
	return newModel(vendor, rest)
}

func (m model) claude() bool { return m.vendor == "anthropic" }

// nova reports whether the model is one of Amazon's that converse; those before
// took no tools.
func (m model) nova() bool  { return m.vendor == "amazon" && m.NamedTool }
func (m model) nova2() bool { return m.nova() && m.Thinks() }

// signs returns the vendor whose signatures the model makes and accepts.
func (m model) signs() llm.Vendor {
	if m.claude() {
		return llm.Anthropic
	}
	return llm.Amazon
}

// accepts reports whether the model takes thinking back.
func (m model) accepts(t llm.Thinking) bool {
	return t.Signature.Vendor == m.signs() && t.Signature.Value != ""
}

// forces reports whether the model accepts toolChoice any.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolChoice.html
func (m model) forces() bool { return m.NamedTool || m.ForcedTool }

// caches reports whether the model accepts cache points.
// https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html
func (m model) caches() bool { return m.claude() || m.nova() }

// callIDs returns which ids of calls the model accepts.
func (m model) callIDs() dialect.NameRule {
	if m.vendor == "mistral" {
		return dialect.NineCallID
	}
	return dialect.PlainShortCallID
}

// Rule returns what is known of a model by its id or ARN. What is known of Claude
// is in the table of its vendor.
func Rule(id string) *modeldata.Model {
	m := modelOf(id)
	if m.claude() {
		return modeldata.Anthropic.Of(m.id)
	}
	return m.Model
}
