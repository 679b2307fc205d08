package attempt

import (
	"slices"
	"strconv"
	"strings"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
	"modelgate/internal/model/modeldata"
	"modelgate/internal/pipeline/exchange"
)

// outputLimits are the paths of the limit of output tokens in bodies by dialect.
var outputLimits = map[api.Dialect][]string{
	api.DialectChat:      {"max_tokens", "max_completion_tokens"},
	api.DialectResponses: {"max_output_tokens"},
	api.DialectMessages:  {"max_tokens"},
	api.DialectGemini:    {"generationConfig.maxOutputTokens"},
	api.DialectConverse:  {"inferenceConfig.maxTokens"},
}

// longOutput begins the beta flags that raise the limit of output tokens of a
// model.
// https://docs.claude.com/en/api/beta-headers
const longOutput = "output-"

// clampOutput appends the edits that reduce the limit of output tokens to the most
// that the model has, in a body that is forwarded: providers refuse more, and
// clients ask models that they do not know for as much as others have. Translated
// requests are clamped before; see [conversation].
func (p *plan) clampOutput(doc *jsonedit.Doc, list []jsonedit.Edit, rule *modeldata.Model) []jsonedit.Edit {
	if rule.MaxOutput == 0 || p.wire.translates() {
		return list
	}
	d := p.wire.dialect
	if p.wire.op == api.Completions {
		d = api.DialectChat
	}
	for _, path := range outputLimits[d] {
		edit, ok := clampedMember(doc, list, path, rule.MaxOutput)
		if !ok || d == api.DialectMessages && p.hasLongOutput(list) {
			continue
		}
		list = append(slices.Clip(list), edit)
		p.record.Params = append(p.record.Params, clamped(path, rule.MaxOutput))
	}
	return list
}

func clamped(name string, limit int64) dialect.ParamChange {
	return dialect.ParamChange{Name: name, Outcome: dialect.Clamped, Note: strconv.FormatInt(limit, 10)}
}

// clampMaxTokens reduces the limit of output tokens of a decoded request to the
// most that the model has. The limits of the messages dialect depend on thinking,
// so its codec clamps them.
func clampMaxTokens(r *llm.Request, limit int64) []dialect.ParamChange {
	if limit == 0 || r.MaxTokens == nil || *r.MaxTokens <= limit {
		return nil
	}
	r.MaxTokens = &limit
	return []dialect.ParamChange{clamped(r.NameOf(llm.FieldMaxTokens), limit)}
}

// hasLongOutput reports whether the request has a beta flag that raises the limit
// of output tokens, in its header or among the edits of the body.
func (p *plan) hasLongOutput(list []jsonedit.Edit) bool {
	for name, values := range p.call.Header {
		if strings.EqualFold(name, exchange.BetaHeader) && strings.Contains(strings.Join(values, ","), longOutput) {
			return true
		}
	}
	return slices.ContainsFunc(list, func(e jsonedit.Edit) bool {
		return e.Name == betaField && strings.Contains(string(e.Value), longOutput)
	})
}

// clampedMember returns the edit that sets a number to limit if it is larger. It is at
// path, which is in the document or in a member of it, after the edits in list.
func clampedMember(doc *jsonedit.Doc, list []jsonedit.Edit, path string, limit int64) (edit jsonedit.Edit, ok bool) {
	top, inner, nested := strings.Cut(path, ".")
	edit.Name = top
	v, _ := doc.Find(top)
	for _, e := range list {
		if e.Name == top {
			edit.Rename = e.Rename
			if e.Rename == "" || len(e.Value) > 0 {
				v, _ = jsonedit.ParseValue(e.Value)
			}
		}
	}
	number := v
	if nested {
		number, _ = v.Get(inner)
	}
	if n, isNumber := number.Float(); !isNumber || n <= float64(limit) {
		return edit, false
	}
	edit.Value = strconv.AppendInt(nil, limit, 10)
	if nested {
		var object jsonedit.Doc
		if object.Scan(v.Raw()) != nil {
			return edit, false
		}
		edit.Value = object.Apply(nil, jsonedit.Edit{Name: inner, Value: edit.Value})
	}
	return edit, true
}
