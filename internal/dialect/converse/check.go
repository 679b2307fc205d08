package converse

import (
	"modelgate/api"
	"modelgate/internal/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
)

// Check validates a request body of the converse routes; other operations have
// no rules here. It refuses only what the protocol's own model of requests
// refuses whatever the target. Messages may be missing: a prompt of the provider
// can stand in for them.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
func (Dialect) Check(op api.Operation, body *jsonedit.Doc) *apierr.Error {
	if op != api.Converse {
		return nil
	}
	c := checker{}
	if v, ok := body.Find("messages"); ok {
		c.elements("messages", v, c.message)
	}
	if v, ok := body.Find("system"); ok {
		c.elements("system", v, c.block)
	}
	if v, ok := body.Find("inferenceConfig"); ok {
		c.object("inferenceConfig", v, c.inference)
	}
	if v, ok := body.Find("toolConfig"); ok {
		c.object("toolConfig", v, c.toolConfig)
	}
	for _, name := range [...]string{"guardrailConfig", "promptVariables", "requestMetadata", "performanceConfig", "serviceTier", "outputConfig"} {
		if v, ok := body.Find(name); ok {
			c.object(name, v, func(string, string, jsonedit.Value) {})
		}
	}
	return c.err
}

// Defaults are none: the protocol's nulls are absent members.
func (Dialect) Defaults(api.Operation, *jsonedit.Doc) []jsonedit.Edit { return nil }

// checker looks at the outline of a request.
type checker struct{ fieldReader }

func (c *checker) message(path string, v jsonedit.Value) {
	role, content := false, false
	c.object(path, v, func(key, path string, v jsonedit.Value) {
		switch key {
		case "role":
			role = true
			if s := c.text(path, v); s != "user" && s != "assistant" {
				c.fail(path, dialect.CodeValue, "must be user or assistant")
			}
		case "content":
			content = true
			c.elements(path, v, c.block)
		}
	})
	switch {
	case !role:
		c.fail(path+".role", dialect.CodeMissing, "is required: send user or assistant")
	case !content:
		c.fail(path+".content", dialect.CodeMissing, "is required: send an array of content blocks")
	}
}

func (c *checker) block(path string, v jsonedit.Value) {
	if v.Kind() != jsonedit.Object {
		c.fail(path, dialect.CodeType, "must be an object")
	}
}

func (c *checker) inference(key, path string, v jsonedit.Value) {
	switch key {
	case "maxTokens":
		if n := c.count(path, v); n != nil && *n < 1 {
			c.fail(path, dialect.CodeValue, "must be at least 1")
		}
	case "temperature", "topP":
		if f := c.number(path, v); f != nil && (*f < 0 || *f > 1) {
			c.fail(path, dialect.CodeValue, "must be between 0 and 1")
		}
	case "stopSequences":
		c.texts(path, v)
	}
}

func (c *checker) toolConfig(key, path string, v jsonedit.Value) {
	switch key {
	case "tools":
		c.elements(path, v, c.block)
	case "toolChoice":
		c.object(path, v, func(string, string, jsonedit.Value) {})
	}
}
