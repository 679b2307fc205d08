package vendorbatch

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/dialect/cohere"
	"modelgate/internal/dialect/converse"
	"modelgate/internal/dialect/gemini"
	"modelgate/internal/dialect/messages"
	"modelgate/internal/dialect/responses"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
	"modelgate/internal/provider"
)

// Endpoints of lines.
const (
	chatEndpoint        = "/v1/chat/completions"
	completionsEndpoint = "/v1/completions"
	embeddingsEndpoint  = "/v1/embeddings"
	responsesEndpoint   = "/v1/responses"
	messagesEndpoint    = "/v1/messages"
	moderationsEndpoint = "/v1/moderations"
)

// endpoint is the format of the bodies at an endpoint.
type endpoint struct {
	client  dialect.ClientDialect
	dialect api.Dialect
	op      api.Operation
}

var endpoints = map[string]endpoint{
	chatEndpoint:        {chat.Dialect{}, api.DialectChat, api.Chat},
	completionsEndpoint: {chat.Dialect{}, api.DialectChat, api.Completions},
	embeddingsEndpoint:  {chat.Dialect{}, api.DialectChat, api.Embeddings},
	moderationsEndpoint: {chat.Dialect{}, api.DialectChat, api.Moderations},
	responsesEndpoint:   {responses.Dialect{}, api.DialectResponses, api.Responses},
	messagesEndpoint:    {messages.Dialect{}, api.DialectMessages, api.Messages},
}

var codecs = map[api.Dialect]dialect.ProviderCodec{
	api.DialectMessages: messages.Dialect{},
	api.DialectGemini:   gemini.Dialect{},
	api.DialectConverse: converse.Dialect{},
	api.DialectCohere:   cohere.Dialect{},
}

// lineCodec translates the bodies of lines and of their results.
type lineCodec struct {
	endpoint
	in     *Input
	spec   *provider.Spec
	speaks api.Dialect // of the vendor; empty if it is that of the endpoint
	// model is the upstream model of all lines; empty if each names its own.
	model string

	// One of the two is set, or none if bodies are forwarded with another model.
	provider dialect.ProviderCodec
	form     *dialect.Translator

	splits  bool  // a vendor's request has one input of embeddings
	created int64 // of responses without a time; Unix seconds
	seed    string
}

// newCodec returns the codec for an input. The vendor's own format is that of
// speaks, empty if it is that of the endpoint.
func newCodec(spec *provider.Spec, speaks api.Dialect, model string, in *Input) (*lineCodec, error) {
	e, ok := endpoints[in.Endpoint]
	if !ok && speaks != "" {
		return nil, endpointError(spec.Name, in.Endpoint)
	}
	c := &lineCodec{endpoint: e, in: in, spec: spec, speaks: speaks, model: model}
	switch {
	case speaks == "" || speaks == e.dialect:
	case e.op == e.dialect.ConversationOperation():
		c.provider = codecs[speaks]
	default:
		t, ok := codecs[speaks].(dialect.OperationTranslator)
		if !ok {
			return nil, endpointError(spec.Name, in.Endpoint)
		}
		form, ok := t.Translator(e.op, c.target(nil))
		if !ok {
			return nil, endpointError(spec.Name, in.Endpoint)
		}
		c.form = &form
	}
	return c, nil
}

func endpointError(vendor, endpoint string) error {
	return apierr.New(apierr.Invalid, "%s has no batches of %.60q; choose another endpoint or provider", vendor, endpoint).
		WithParam("endpoint").WithCode("unsupported_endpoint")
}

// target returns what bodies are translated for. line is the body of a line, nil if it
// is unknown.
func (c *lineCodec) target(line []byte) dialect.RequestTarget {
	model := c.model
	if model == "" && line != nil {
		model = modelOf(line)
	}
	to := c.spec.RequestTarget(model)
	to.BaseModel, to.Created = c.in.BaseModel, c.created
	return to
}

// check returns what the format of the endpoint forbids in a body that is translated.
func (c *lineCodec) check(body []byte) error {
	if c.provider == nil && c.form == nil {
		return nil
	}
	body, err := c.withModel(body)
	if err != nil {
		return err
	}
	var doc jsonedit.Doc
	if err := doc.Scan(body); err != nil {
		return apierr.New(apierr.Invalid, "body must be a JSON object: %v", err)
	}
	if e := c.client.Check(c.op, &doc); e != nil {
		return e
	}
	return nil
}

// request returns the vendor's body for a line's. An error is an [apierr.Error] that
// names the member of the body.
func (c *lineCodec) request(body []byte) ([]byte, error) {
	switch {
	case c.provider != nil:
		to := c.target(body)
		_, sent, _, err := c.decode(body, to)
		if err != nil {
			return nil, err
		}
		out, _, err := c.provider.EncodeRequest(make([]byte, 0, len(body)+len(body)/4+256), sent, to)
		return out, err
	case c.form != nil:
		out, _, err := c.form.Request(nil, body, c.target(body))
		return out, err
	}
	return c.forwarded(body)
}

// withModel returns body with the model of the input.
func (c *lineCodec) withModel(body []byte) ([]byte, error) { return c.edit(body, nil) }

// forwarded returns body for a vendor of the same dialect, without what the provider
// table knows it to reject, as single requests are sent.
func (c *lineCodec) forwarded(body []byte) ([]byte, error) {
	return c.edit(body, func(doc *jsonedit.Doc) (list []jsonedit.Edit) {
		to := c.target(body)
		rule := c.spec.Rule(to.KnownModel())
		for _, name := range slices.Concat(c.spec.Drop, rule.Drop) {
			list = append(list, jsonedit.Edit{Name: name})
		}
		for _, names := range []map[string]string{c.spec.Rename, rule.Rename} {
			for from, to := range names {
				list = append(list, jsonedit.Edit{Name: from, Rename: to})
			}
		}
		for name, r := range c.spec.Limits {
			v, _ := doc.Find(name)
			if f, ok := v.Float(); ok && (f < r.Min || f > r.Max) {
				list = append(list, jsonedit.Edit{Name: name, Value: strconv.AppendFloat(nil, min(max(f, r.Min), r.Max), 'g', -1, 64)})
			}
		}
		return list
	})
}

// edit returns body with the model of the input, and with further edits.
func (c *lineCodec) edit(body []byte, further func(*jsonedit.Doc) []jsonedit.Edit) ([]byte, error) {
	var doc jsonedit.Doc
	if err := doc.Scan(body); err != nil {
		return nil, apierr.New(apierr.Invalid, "body must be a JSON object: %v", err)
	}
	var list []jsonedit.Edit
	if further != nil {
		list = further(&doc)
	}
	if v, ok := doc.Find("model"); c.model != "" && !(ok && v.IsText(c.model)) {
		list = append(list, jsonedit.Edit{Name: "model", Value: jsonedit.AppendString(nil, c.model)})
	}
	if len(list) == 0 {
		return body, nil
	}
	return doc.Apply(nil, list...), nil
}

// decode returns a request as the client sent it and as the vendor gets it, and the
// names of tools by which the first is found from the second.
func (c *lineCodec) decode(body []byte, to dialect.RequestTarget) (decoded, sent *llm.Request, names dialect.SentNames, err error) {
	if decoded, err = c.client.DecodeRequest(body); err != nil {
		return nil, nil, nil, err
	}
	decoded.Model, decoded.Stream = to.Model, false
	if limit := c.spec.Rule(to.KnownModel()).MaxOutput; limit > 0 && decoded.MaxTokens != nil && *decoded.MaxTokens > limit {
		decoded.MaxTokens = &limit
	}
	sent = decoded
	if namer, ok := c.provider.(dialect.ToolNamer); ok {
		sent, names, _ = dialect.FitToolNames(decoded, namer.ToolNames(decoded, to))
	}
	return decoded, sent, names, nil
}

// response sets in r the client's body for a vendor's, its model and its usage. line
// is the body of the request, nil if it is unknown.
func (c *lineCodec) response(r *Result, body, line []byte) error {
	switch {
	case c.provider != nil:
		return c.conversation(r, body, line)
	case c.form != nil:
		out, err := c.form.Response(nil, body, line, c.target(line))
		if err != nil {
			return err
		}
		body = out
	}
	return c.setResponse(r, body)
}

// setResponse sets in r a body of the endpoint, its model and its usage.
func (c *lineCodec) setResponse(r *Result, body []byte) error {
	r.Body = body
	if c.client != nil {
		tap := c.client.NewTap(c.op)
		tap.Body(body)
		info := tap.Info()
		r.Usage, r.Model = info.Usage, info.Model
	}
	return nil
}

// conversation translates a complete response through the neutral model.
func (c *lineCodec) conversation(r *Result, body, line []byte) error {
	to := c.target(line)
	decoded := &llm.Request{Dialect: string(c.dialect), Model: to.Model}
	sent, names := decoded, dialect.SentNames(nil)
	if line != nil {
		var err error
		if decoded, sent, names, err = c.decode(line, to); err != nil {
			return err
		}
	}
	res, err := c.provider.DecodeResponse(body, sent, to)
	if err != nil {
		return err
	}
	r.Model, r.Usage = res.Model, res.Usage
	if err := finish(res, decoded, names); err != nil {
		return err
	}
	res.Model = cmp.Or(res.Model, to.Model)
	sum := sha256.Sum256([]byte(c.seed + "\x00" + r.CustomID))
	r.Body = c.client.EncodeResponse(nil, res, dialect.ResponseTarget{
		Request: decoded, Strict: !c.in.Lenient, Provider: c.spec.ID, ID: hex.EncodeToString(sum[:16]), Created: c.created,
	})
	return nil
}

// finish gives a response what clients need: the names of their tools, distinct ids of
// calls and finish reasons. It returns an error if the response failed.
func finish(r *llm.Response, asked *llm.Request, names dialect.SentNames) error {
	content := false
	for i := range r.Choices {
		choice := &r.Choices[i]
		if choice.Stop == llm.StopFailed {
			return errors.New(dialect.FinishError(choice.NativeFinishReason).Message)
		}
		content = content || len(choice.Parts) > 0 || choice.Stop != "" || choice.NativeFinishReason != ""
		ids, history := dialect.CallIDs{}, dialect.NewCallIDs(asked.Messages)
		for n, p := range choice.Parts {
			if call, ok := p.(llm.ToolCall); ok {
				call.Name = names.Original(call.Name)
				call.ID = ids.Distinct(dialect.ClientCallID(api.Dialect(asked.Dialect), call.ID), history)
				choice.Parts[n] = call
			}
		}
		if choice.Stop == "" && choice.NativeFinishReason == "" {
			choice.Stop = llm.StopEnd
		}
	}
	if !content {
		return fmt.Errorf("%s", dialect.NoContent)
	}
	return nil
}
