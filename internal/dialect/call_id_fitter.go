package dialect

import (
	"bytes"
	"strings"

	"modelgate/internal/format/jsonedit"
)

// CallIDFitter replaces the ids of calls that a target refuses in a body that is forwarded as
// received: a session holds the ids of each provider that it has been at. A call and its result
// get the same id, the one that a translation gives them. A nil fitter replaces none.
type CallIDFitter struct {
	rule     NameRule
	replaced bool
}

// NewCallIDFitter returns a fitter for body, nil if none of these members has an id that the
// rule rejects, wherever it is. It decodes nothing.
func NewCallIDFitter(rule NameRule, body []byte, members ...string) *CallIDFitter {
	if rule == AnyCallID {
		return nil
	}
	for _, name := range members {
		if rule.rejectsMember(body, name) {
			return &CallIDFitter{rule: rule}
		}
	}
	return nil
}

// rare are letters that are rare in JSON: a search for one is fast.
const rare = "_U"

// rejectsMember reports whether body may have a member of that name whose text the rule
// rejects. It searches for the end of the name, from a rare letter on.
func (r NameRule) rejectsMember(body []byte, name string) bool {
	quoted := `"` + name + `"`
	from := max(strings.LastIndexAny(quoted, rare), 0)
	begin, end := []byte(quoted[:from]), []byte(quoted[from:])
	for {
		i := bytes.Index(body, end)
		if i < 0 {
			return false
		}
		found := bytes.HasSuffix(body[:i], begin)
		body = body[i+len(end):]
		if found && r.rejectsNext(body) {
			return true
		}
	}
}

// rejectsNext reports whether body, after the name of a member, goes on with a text that the
// rule rejects. One with escapes may be.
func (r NameRule) rejectsNext(body []byte) bool {
	const blanks = " \t\r\n"
	body, isMember := bytes.CutPrefix(bytes.TrimLeft(body, blanks), []byte(":"))
	body, isText := bytes.CutPrefix(bytes.TrimLeft(body, blanks), []byte(`"`))
	end := bytes.IndexByte(body, '"')
	return isMember && isText && end > 0 && (!accepts(r, body[:end]) || bytes.IndexByte(body[:end], '\\') >= 0)
}

// Fit returns object with the ids in members, unchanged if the target accepts them.
func (f *CallIDFitter) Fit(object []byte, members ...string) []byte {
	if f == nil {
		return object
	}
	for _, name := range members {
		object = replaceMember(object, name, func(v jsonedit.Value) []byte {
			id, _ := v.Text()
			if fitted := f.rule.Fit(id); fitted != id {
				f.replaced = true
				return jsonedit.AppendString(nil, fitted)
			}
			return v.Raw()
		})
	}
	return object
}

// FitInner returns object with the ids in members of one of its members: of an object, or of
// each element of a list.
func (f *CallIDFitter) FitInner(object []byte, outer string, members ...string) []byte {
	if f == nil {
		return object
	}
	fit := func(v jsonedit.Value) []byte { return f.Fit(v.Raw(), members...) }
	return replaceMember(object, outer, func(v jsonedit.Value) []byte {
		if v.Kind() != jsonedit.Array {
			return fit(v)
		}
		fitted, _ := replaceElements(v, fit)
		return fitted
	})
}

// replaceMember returns object with what place returns for one of its members.
func replaceMember(object []byte, name string, place func(jsonedit.Value) []byte) []byte {
	var d jsonedit.Doc
	if d.Scan(object) != nil {
		return object
	}
	v, ok := d.Find(name)
	if !ok {
		return object
	}
	replaced := place(v)
	if bytes.Equal(replaced, v.Raw()) {
		return object
	}
	return d.Apply(nil, jsonedit.Edit{Name: name, Value: replaced})
}

// Changes returns what to announce: a change of the member that holds the conversation, if an
// id has been replaced.
func (f *CallIDFitter) Changes(member string) []ParamChange {
	if f == nil || !f.replaced {
		return nil
	}
	return []ParamChange{{Name: member, Outcome: Adapted, Note: CallIDsReplaced}}
}
