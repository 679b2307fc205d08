package attempt

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

// prepareBody returns the body for the target, retained once: it applies the
// config, then the target's dialect, then the quirks of the provider
// definition. Changes are recorded in a.Params. If nothing changes, it returns
// the request's own body, retained again. Headers that the target needs are
// added to h.
func (a *attempt) prepareBody(h http.Header) (*bytepool.Buffer, error) {
	a.record.Params = a.record.Params[:0]
	if a.request.Received.Doc == nil {
		a.request.Received.Body.Retain()
		return a.request.Received.Body, nil
	}
	doc, list := a.request.Received.Doc, a.request.Edits
	if a.editsBody() {
		configured, err := a.applyConfigParams()
		if err != nil {
			return nil, err
		}
		doc, list = configured, nil
	}
	if err := a.checkModels(doc, list); err != nil {
		return nil, err
	}
	if err := a.findModels(doc); err != nil {
		return nil, err
	}
	if a.wire.translates() {
		var err error
		if doc, err = a.translateBody(doc, list); err != nil {
			return nil, err
		}
		list = nil
	}
	if a.request.Operation != api.Proxy {
		if err := a.checkRefusedFields(doc); err != nil {
			return nil, err
		}
		list = append(slices.Clip(list), a.hostEdits(doc, h)...)
		list = a.providerEdits(doc, list)
		if err := a.applyOnUnsupported(); err != nil {
			return nil, err
		}
		list = a.markPrefix(doc, list)
		if edit, ask := a.usageRequest(doc, list); ask {
			list, a.wire.usageAsked = append(list, edit), true
		}
	}
	if doc == a.request.Received.Doc && len(list) == 0 {
		a.request.Received.Body.Retain()
		return a.request.Received.Body, nil
	}
	return a.splice(doc, list)
}

// editsBody reports whether the config changes the body, and has not done so yet.
func (a *attempt) editsBody() bool {
	return !a.request.Checking.Configured && (len(a.prompted) > 0 || !a.handler.Params.IsEmpty())
}

// applyConfigParams returns the body after the parameters of the config and of the saved
// prompt.
func (a *attempt) applyConfigParams() (*jsonedit.Doc, error) {
	return a.handler.Params.Apply(a.request, a.prompted)
}

// translateBody returns the body in the target's dialect. It is scanned, so
// that quirks see the body that is sent.
func (a *attempt) translateBody(doc *jsonedit.Doc, list []jsonedit.Edit) (*jsonedit.Doc, error) {
	body := doc.Bytes()
	if a.request.Dialect.ModelInPath() {
		list = append(slices.Clip(list), jsonedit.Edit{Name: "model"})
	}
	if len(list) > 0 {
		body = doc.Apply(nil, list...)
	}
	encoded, err := a.encode(body)
	if err != nil {
		return nil, err
	}
	out := new(jsonedit.Doc)
	if err := out.Scan(encoded); err != nil {
		return nil, fmt.Errorf("scanning a body for %s: %w", a.record.Target.ID, err)
	}
	return out, nil
}

// checkRefusedFields returns an error for a body with a field that the host
// does not accept.
func (a *attempt) checkRefusedFields(doc *jsonedit.Doc) error {
	for name, code := range a.record.Target.BodyRules[a.wire.op].Refuse {
		if v, ok := doc.Find(name); ok && !v.IsNull() {
			return dialect.Unsupported(name, a.wire.target, "the host does not support this field").WithCode(code)
		}
	}
	if limit, ok := a.record.Target.Limits[choices]; ok && limit.Max == 1 {
		if v, _ := doc.Find(choices); moreThanOne(v) {
			return dialect.Unsupported(choices, a.wire.target, "it gives one response to a request")
		}
	}
	return nil
}

// choices is the number of responses in the chat dialect. It is never clamped: a
// client that gets fewer responses than it asked for would not notice.
const choices = "n"

func moreThanOne(v jsonedit.Value) bool {
	n, ok := v.Int()
	return ok && n > 1
}

// hostEdits returns the edits for the target's host in a body of its dialect:
// fields that are in the address are removed, fields that the host requires are
// added, and beta flags are moved to where it reads them. h is the attempt's
// header.
func (a *attempt) hostEdits(doc *jsonedit.Doc, h http.Header) []jsonedit.Edit {
	var list []jsonedit.Edit
	shape := a.record.Target.BodyRules[a.wire.op]
	for _, name := range shape.Drop {
		if _, ok := doc.Find(name); ok {
			list = append(list, jsonedit.Edit{Name: name})
		}
	}
	if len(shape.Set) > 0 { // sorting no keys allocates too, and most providers have none
		list = append(list, missing(doc, shape.Set)...)
	}
	if cleaner, ok := a.handler.Engine.Codecs[a.wire.dialect].(dialect.ForeignContentCleaner); ok && !a.wire.translates() {
		edits, changes := cleaner.Clean(doc, a.wire.target)
		list, a.record.Params = append(list, edits...), append(a.record.Params, changes...)
	}
	list = append(list, a.turnEdits(doc, list)...)
	if a.wire.dialect == api.DialectMessages {
		list = append(list, a.mergeBetaFlags(doc, h)...)
	}
	return append(list, a.modelEdit(doc, slices.Contains(shape.Drop, "model"))...)
}

// turnEdits returns the edits that give the messages the roles and the order that the
// target demands.
func (a *attempt) turnEdits(doc *jsonedit.Doc, earlier []jsonedit.Edit) []jsonedit.Edit {
	arranger, ok := a.handler.Engine.Codecs[a.wire.dialect].(dialect.TurnArranger)
	if !ok {
		return nil
	}
	edits, changes := arranger.ArrangeTurns(doc, earlier, a.wire.target)
	for _, c := range changes {
		if conversation, ok := a.wire.translator.(*conversation); ok {
			c.Name = conversation.decoded.NameOf(llm.FieldParts)
		}
		a.record.Params = append(a.record.Params, c)
	}
	return edits
}

// missing returns the edits that add the members of set that doc lacks.
func missing(doc *jsonedit.Doc, set map[string]string) []jsonedit.Edit {
	var list []jsonedit.Edit
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if _, ok := doc.Find(name); !ok {
			list = append(list, jsonedit.Edit{Name: name, Value: []byte(set[name])})
		}
	}
	return list
}

// modelEdit returns the edit that removes the model from a body if it is in the
// address (an earlier edit may have added it), or changes it to the upstream
// model.
func (a *attempt) modelEdit(doc *jsonedit.Doc, dropped bool) []jsonedit.Edit {
	if dropped || a.wire.dialect.ModelInPath() {
		return []jsonedit.Edit{{Name: "model"}}
	}
	named := a.record.Target.UpstreamModelName(a.record.Model)
	if _, ok := doc.Find("model"); !ok || named == a.record.Model {
		return nil
	}
	return []jsonedit.Edit{{Name: "model", Value: jsonedit.AppendString(nil, named)}}
}

// betaField holds the beta flags of the messages protocol, as exchange.BetaHeader does.
const betaField = "anthropic_beta"

// mergeBetaFlags merges the beta flags of header and body in the place where
// the host reads them.
func (a *attempt) mergeBetaFlags(doc *jsonedit.Doc, h http.Header) []jsonedit.Edit {
	var list []jsonedit.Edit
	if v, ok := doc.Find(betaField); ok {
		addFlags(h, v)
		list = append(list, jsonedit.Edit{Name: betaField})
	}
	field, taken, dropped := a.record.Target.BodyBetas(a.wire.op, h)
	for _, flag := range dropped {
		a.trail.Note(dialect.ParamChange{Name: "anthropic-beta", Outcome: dialect.Dropped, Note: flag})
	}
	if field == "" || len(taken) == 0 {
		return list
	}
	var b jsonedit.Builder
	b.Open('[')
	for _, flag := range taken {
		b.String(flag)
	}
	b.Close(']')
	return append(list, jsonedit.Edit{Name: field, Value: b.Bytes()})
}

// addFlags adds the beta flags of a body's field to the header without
// duplicates. A body may have any number of them, so they are looked up in a
// map.
func addFlags(h http.Header, field jsonedit.Value) {
	key, _ := provider.HeaderKey(h, exchange.BetaHeader)
	sent := strings.Join(h[key], ",")
	known := make(map[string]bool)
	for flag := range strings.SplitSeq(sent, ",") {
		known[strings.TrimSpace(flag)] = true
	}
	var all strings.Builder
	all.WriteString(sent)
	add := func(flag string) {
		if known[flag] {
			return
		}
		known[flag] = true
		if all.Len() > 0 {
			all.WriteByte(',')
		}
		all.WriteString(flag)
	}
	if flags, ok := field.Text(); ok {
		for flag := range strings.SplitSeq(flags, ",") {
			add(strings.TrimSpace(flag))
		}
	}
	for flag := range field.Elements() {
		if name, ok := flag.Text(); ok {
			add(name)
		}
	}
	if all.Len() > len(sent) {
		h[key] = []string{all.String()}
	}
}

// applyOnUnsupported enforces on_unsupported for dropped parameters. With
// refuse it returns an error, with drop it removes their announcements.
func (a *attempt) applyOnUnsupported() error {
	switch a.handler.OnUnsupported {
	case config.Refuse:
		var names []string
		for i := range a.record.Params {
			if c := &a.record.Params[i]; c.Outcome == dialect.Dropped {
				names, c.Outcome = append(names, c.Name), dialect.Refused
			}
		}
		if len(names) > 0 {
			return a.errUnsupported(names)
		}
	case config.Drop:
		a.record.Params = slices.DeleteFunc(a.record.Params, func(c dialect.ParamChange) bool { return c.Outcome == dialect.Dropped })
	}
	return nil
}

// providerEdits appends the edits of the provider definition to list.
func (a *attempt) providerEdits(doc *jsonedit.Doc, list []jsonedit.Edit) []jsonedit.Edit {
	q := quirks{doc: doc, list: slices.Clip(list)}
	rule := a.record.Target.Rule(a.record.Model)
	q.drop(a.record.Target.Drop)
	q.drop(rule.Drop)
	q.rename(a.record.Target.Rename)
	q.rename(rule.Rename)
	q.clamp(a.record.Target.Limits)
	slices.SortFunc(q.changes, func(b, c dialect.ParamChange) int {
		return cmp.Or(cmp.Compare(b.Name, c.Name), cmp.Compare(b.Outcome, c.Outcome))
	}) // quirks are in maps
	for i := range q.changes {
		q.changes[i].Name = a.wire.clientName(q.changes[i].Name)
	}
	a.record.Params = append(a.record.Params, q.changes...)
	return a.withoutRefused(doc, a.clampOutput(doc, q.list, rule), rule)
}

// quirks collects edits and the parameter changes that they cause.
type quirks struct {
	doc     *jsonedit.Doc
	list    []jsonedit.Edit
	changes []dialect.ParamChange
}

func (q *quirks) drop(names []string) {
	for _, name := range names {
		if _, ok := q.doc.Find(name); ok {
			q.list = append(q.list, jsonedit.Edit{Name: name})
			q.changes = append(q.changes, dialect.ParamChange{Name: name, Outcome: dialect.Dropped})
		}
	}
}

// rename changes parameters to the provider's names. If the client sent both
// names, the provider's wins and the other is dropped.
func (q *quirks) rename(names map[string]string) {
	for from, to := range names {
		if _, ok := q.doc.Find(from); !ok {
			continue
		}
		if _, both := q.doc.Find(to); both {
			q.drop([]string{from})
			continue
		}
		q.list = append(q.list, jsonedit.Edit{Name: from, Rename: to})
		q.changes = append(q.changes, dialect.ParamChange{Name: from, Outcome: dialect.Renamed, Note: to})
	}
}

func (q *quirks) clamp(limits map[string]provider.Range) {
	for name, r := range limits {
		v, ok := q.doc.Find(name)
		if !ok {
			continue
		}
		f, ok := v.Float()
		if !ok || f >= r.Min && f <= r.Max {
			continue
		}
		text := strconv.FormatFloat(min(max(f, r.Min), r.Max), 'g', -1, 64)
		q.list = append(q.list, jsonedit.Edit{Name: name, Value: []byte(text)})
		q.changes = append(q.changes, dialect.ParamChange{Name: name, Outcome: dialect.Clamped, Note: text})
	}
}

// splice returns a buffer with the body of doc after edits, retained once.
func (a *attempt) splice(doc *jsonedit.Doc, edits []jsonedit.Edit) (*bytepool.Buffer, error) {
	size := len(doc.Bytes())
	for _, e := range edits {
		size += len(e.Name) + len(e.Value) + len(e.Rename) + len(`,"":`)
	}
	buf, err := a.handler.Engine.Bounds.Pool.GetShare(size, a.request.Memory)
	if err != nil {
		return nil, apierr.BodyMemoryFull(err)
	}
	buf.Fill(func(dst []byte) []byte { return doc.Apply(dst, edits...) })
	return buf, nil
}
