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
func (p *plan) prepareBody(h http.Header) (*bytepool.Buffer, error) {
	p.record.Params = p.record.Params[:0]
	if p.request.Received.Doc == nil {
		p.request.Received.Body.Retain()
		return p.request.Received.Body, nil
	}
	doc, list := p.request.Received.Doc, p.request.Edits
	if p.editsBody() {
		configured, err := p.applyConfigParams()
		if err != nil {
			return nil, err
		}
		doc, list = configured, nil
	}
	if err := p.checkModels(doc, list); err != nil {
		return nil, err
	}
	if err := p.findModels(doc); err != nil {
		return nil, err
	}
	if p.wire.translates() {
		var err error
		if doc, err = p.translateBody(doc, list); err != nil {
			return nil, err
		}
		list = nil
	}
	if p.request.Operation != api.Proxy {
		if err := p.checkRefusedFields(doc); err != nil {
			return nil, err
		}
		list = append(slices.Clip(list), p.hostEdits(doc, h)...)
		list = p.providerEdits(doc, list)
		if err := p.applyOnUnsupported(); err != nil {
			return nil, err
		}
		list = p.markPrefix(doc, list)
		if edit, ask := p.usageRequest(doc, list); ask {
			list, p.wire.usageAsked = append(list, edit), true
		}
		var err error
		if list, err = p.nameServers(doc, list); err != nil {
			return nil, err
		}
	}
	if doc == p.request.Received.Doc && len(list) == 0 {
		p.request.Received.Body.Retain()
		return p.request.Received.Body, nil
	}
	return p.splice(doc, list)
}

// editsBody reports whether the config changes the body, and has not done so yet.
func (p *plan) editsBody() bool {
	return !p.request.Checking.Configured && (len(p.prompted) > 0 || !p.handler.Params.IsEmpty())
}

// applyConfigParams returns the body after the parameters of the config and of the saved
// prompt.
func (p *plan) applyConfigParams() (*jsonedit.Doc, error) {
	return p.handler.Params.Apply(p.request, p.prompted)
}

// translateBody returns the body in the target's dialect. It is scanned, so
// that quirks see the body that is sent.
func (p *plan) translateBody(doc *jsonedit.Doc, list []jsonedit.Edit) (*jsonedit.Doc, error) {
	body := doc.Bytes()
	if p.request.Dialect.ModelInPath() {
		list = append(slices.Clip(list), jsonedit.Edit{Name: "model"})
	}
	if len(list) > 0 {
		body = doc.Apply(nil, list...)
	}
	encoded, err := p.encode(body)
	if err != nil {
		return nil, err
	}
	out := new(jsonedit.Doc)
	if err := out.Scan(encoded); err != nil {
		return nil, fmt.Errorf("scanning a body for %s: %w", p.record.Target.ID, err)
	}
	return out, nil
}

// checkRefusedFields returns an error for a body with a field that the host
// does not accept.
func (p *plan) checkRefusedFields(doc *jsonedit.Doc) error {
	for name, code := range p.record.Target.BodyRules[p.wire.op].Refuse {
		if v, ok := doc.Find(name); ok && !v.IsNull() {
			return dialect.Unsupported(name, p.wire.target, "the host does not support this field").WithCode(code)
		}
	}
	if limit, ok := p.record.Target.Limits[choices]; ok && limit.Max == 1 {
		if v, _ := doc.Find(choices); moreThanOne(v) {
			return dialect.Unsupported(choices, p.wire.target, "it gives one response to a request")
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
func (p *plan) hostEdits(doc *jsonedit.Doc, h http.Header) []jsonedit.Edit {
	var list []jsonedit.Edit
	shape := p.record.Target.BodyRules[p.wire.op]
	for _, name := range shape.Drop {
		if _, ok := doc.Find(name); ok {
			list = append(list, jsonedit.Edit{Name: name})
		}
	}
	if len(shape.Set) > 0 { // sorting no keys allocates too, and most providers have none
		list = append(list, missing(doc, shape.Set)...)
	}
	if cleaner, ok := p.handler.Engine.Codecs[p.wire.dialect].(dialect.ForeignContentCleaner); ok && !p.wire.translates() {
		edits, changes := cleaner.Clean(doc, p.wire.target)
		list, p.record.Params = append(list, edits...), append(p.record.Params, changes...)
	}
	list = append(list, p.turnEdits(doc, list)...)
	if p.wire.dialect == api.DialectMessages {
		list = append(list, p.mergeBetaFlags(doc, h)...)
	}
	return append(list, p.modelEdit(doc, slices.Contains(shape.Drop, "model"))...)
}

// turnEdits returns the edits that give the messages the roles and the order that the
// target demands.
func (p *plan) turnEdits(doc *jsonedit.Doc, earlier []jsonedit.Edit) []jsonedit.Edit {
	arranger, ok := p.handler.Engine.Codecs[p.wire.dialect].(dialect.TurnArranger)
	if !ok {
		return nil
	}
	edits, changes := arranger.ArrangeTurns(doc, earlier, p.wire.target)
	for _, c := range changes {
		if conversation, ok := p.wire.translator.(*conversation); ok {
			c.Name = conversation.decoded.NameOf(llm.FieldParts)
		}
		p.record.Params = append(p.record.Params, c)
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
func (p *plan) modelEdit(doc *jsonedit.Doc, dropped bool) []jsonedit.Edit {
	if dropped || p.wire.dialect.ModelInPath() {
		return []jsonedit.Edit{{Name: "model"}}
	}
	named := p.record.Target.UpstreamModelName(p.record.Model)
	if _, ok := doc.Find("model"); !ok || named == p.record.Model {
		return nil
	}
	return []jsonedit.Edit{{Name: "model", Value: jsonedit.AppendString(nil, named)}}
}

// betaField holds the beta flags of the messages protocol, as exchange.BetaHeader does.
const betaField = "anthropic_beta"

// mergeBetaFlags merges the beta flags of header and body in the place where
// the host reads them.
func (p *plan) mergeBetaFlags(doc *jsonedit.Doc, h http.Header) []jsonedit.Edit {
	var list []jsonedit.Edit
	if v, ok := doc.Find(betaField); ok {
		addFlags(h, v)
		list = append(list, jsonedit.Edit{Name: betaField})
	}
	field, taken, dropped := p.record.Target.BodyBetas(p.wire.op, h)
	for _, flag := range dropped {
		p.trail.Note(dialect.ParamChange{Name: "anthropic-beta", Outcome: dialect.Dropped, Note: flag})
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
func (p *plan) applyOnUnsupported() error {
	switch p.handler.OnUnsupported {
	case config.Refuse:
		var names []string
		for i := range p.record.Params {
			if c := &p.record.Params[i]; c.Outcome == dialect.Dropped {
				names, c.Outcome = append(names, c.Name), dialect.Refused
			}
		}
		if len(names) > 0 {
			return p.errUnsupported(names)
		}
	case config.Drop:
		p.record.Params = slices.DeleteFunc(p.record.Params, func(c dialect.ParamChange) bool { return c.Outcome == dialect.Dropped })
	}
	return nil
}

// providerEdits appends the edits of the provider definition to list.
func (p *plan) providerEdits(doc *jsonedit.Doc, list []jsonedit.Edit) []jsonedit.Edit {
	q := quirks{doc: doc, list: slices.Clip(list)}
	rule := p.record.Target.Rule(p.record.Model)
	q.drop(p.record.Target.Drop)
	q.drop(rule.Drop)
	q.rename(p.record.Target.Rename)
	q.rename(rule.Rename)
	q.clamp(p.record.Target.Limits)
	slices.SortFunc(q.changes, func(b, c dialect.ParamChange) int {
		return cmp.Or(cmp.Compare(b.Name, c.Name), cmp.Compare(b.Outcome, c.Outcome))
	}) // quirks are in maps
	for i := range q.changes {
		q.changes[i].Name = p.wire.clientName(q.changes[i].Name)
	}
	p.record.Params = append(p.record.Params, q.changes...)
	return p.withoutRefused(doc, p.clampOutput(doc, q.list, rule), rule)
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
func (p *plan) splice(doc *jsonedit.Doc, edits []jsonedit.Edit) (*bytepool.Buffer, error) {
	size := len(doc.Bytes())
	for _, e := range edits {
		size += len(e.Name) + len(e.Value) + len(e.Rename) + len(`,"":`)
	}
	buf, err := p.handler.Engine.Bounds.Pool.GetShare(size, p.request.Memory)
	if err != nil {
		return nil, apierr.BodyMemoryFull(err)
	}
	buf.Fill(func(dst []byte) []byte { return doc.Apply(dst, edits...) })
	return buf, nil
}
