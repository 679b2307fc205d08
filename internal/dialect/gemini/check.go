package gemini

import (
	"strconv"

	"modelgate/api"
	"modelgate/internal/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
)

// Check validates a request. It refuses what is no request of the protocol, and
// leaves the rest to the provider and to DecodeRequest.
func (Dialect) Check(op api.Operation, body *jsonedit.Doc) *apierr.Error {
	if op != api.Generate && op != api.GenerateCount {
		return nil
	}
	sent := false
	for key, v := range body.Members() {
		name := camel(key)
		sent = sent || op == api.GenerateCount && name == wholeRequest
		want, ok := members[name]
		if !ok || v.IsNull() {
			continue
		}
		if !want.takes(v) {
			return dialect.Invalid(key.String(), dialect.CodeType, "must be %s", want.said)
		}
		switch name {
		case "contents":
			sent = true
			if err := checkContents(v, key.String()); err != nil {
				return err
			}
		case "generationConfig":
			if err := checkConfig(v, key.String()); err != nil {
				return err
			}
		}
	}
	if !sent {
		return dialect.Invalid("contents", dialect.CodeMissing, "is required: send an array of contents with role and parts")
	}
	return nil
}

// Defaults are none: null is the same as absent.
func (Dialect) Defaults(api.Operation, *jsonedit.Doc) []jsonedit.Edit { return nil }

// form is what a member must be.
type form struct {
	said  string
	kinds []jsonedit.Kind
}

func (f form) takes(v jsonedit.Value) bool {
	for _, kind := range f.kinds {
		if v.Kind() == kind {
			return true
		}
	}
	return false
}

var (
	anObject = form{"an object", []jsonedit.Kind{jsonedit.Object}}
	aList    = form{"an array", []jsonedit.Kind{jsonedit.Array, jsonedit.Object}}
	aNumber  = form{"a number", []jsonedit.Kind{jsonedit.Number, jsonedit.String}}
	aText    = form{"a string", []jsonedit.Kind{jsonedit.String}}
	aBool    = form{"true or false", []jsonedit.Kind{jsonedit.Bool}}
)

var members = map[string]form{
	"contents": aList, "tools": aList, "safetySettings": aList,
	"systemInstruction": {"a content", []jsonedit.Kind{jsonedit.Object, jsonedit.String}},
	"generationConfig":  anObject, "toolConfig": anObject, "labels": anObject,
	"cachedContent": aText,
}

var configMembers = map[string]form{
	"temperature": aNumber, "topP": aNumber, "topK": aNumber, "candidateCount": aNumber, "maxOutputTokens": aNumber,
	"seed": aNumber, "presencePenalty": aNumber, "frequencyPenalty": aNumber, "logprobs": aNumber,
	"responseLogprobs": aBool, "responseMimeType": aText, "thinkingConfig": anObject, "speechConfig": anObject,
}

func checkConfig(v jsonedit.Value, path string) *apierr.Error {
	for key, v := range v.Fields() {
		if want, ok := configMembers[camel(key)]; ok && !v.IsNull() && !want.takes(v) {
			return dialect.Invalid(path+"."+key.String(), dialect.CodeType, "must be %s", want.said)
		}
	}
	return nil
}

func checkContents(v jsonedit.Value, path string) *apierr.Error {
	n := 0
	for e := range v.Elements() {
		if e.Kind() != jsonedit.Object {
			return dialect.Invalid(path+"["+strconv.Itoa(n)+"]", dialect.CodeType, "must be a content with role and parts")
		}
		n++
	}
	if n == 0 && v.Kind() == jsonedit.Array {
		return dialect.Invalid(path, dialect.CodeValue, "must hold at least one content")
	}
	return nil
}
