package pipeline

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/apierr"
	"modelgate/internal/bytepool"
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/provider"
)

// prepareBody returns the body that the target takes, held once: what the config
// asks for first, then the target's dialect, then the quirks of the provider's
// row, each announced in x.Params. It returns the exchange's own body, held
// again, when nothing is to change. h gets what the target wants in
// headers.
func (l *TargetHandler) prepareBody(x *Exchange, w *wirePlan, h http.Header) (*bytepool.Buffer, error) {
	x.Params = x.Params[:0]
	if x.Doc == nil {
		x.Body.Retain()
		return x.Body, nil
	}
	doc, list := x.Doc, x.Edits
	if l.editsBody() {
		configured, err := l.applyConfigParams(x)
		if err != nil {
			return nil, err
		}
		doc, list = configured, nil
	}
	if err := l.checkModels(x, doc, list); err != nil {
		return nil, err
	}
	if w.translates() {
		var err error
		if doc, err = l.translateBody(x, w, doc, list); err != nil {
			return nil, err
		}
		list = nil
	}
	if x.Operation != api.Proxy {
		if err := l.checkRefusedFields(w, doc); err != nil {
			return nil, err
		}
		list = append(slices.Clip(list), l.hostEdits(x, w, doc, h)...)
		list = l.providerEdits(x, doc, list)
		if err := l.applyOnUnsupported(x); err != nil {
			return nil, err
		}
		if edit, ask := l.usageRequest(x, w, doc, list); ask {
			list, w.usageAsked = append(list, edit), true
		}
	}
	if doc == x.Doc && len(list) == 0 {
		x.Body.Retain()
		return x.Body, nil
	}
	return l.splice(doc, list)
}

// editsBody reports whether the config changes bodies.
func (l *TargetHandler) editsBody() bool { return len(l.Defaults)+len(l.Override)+len(l.Drop) > 0 }

// applyConfigParams returns the body as the config wants it, in the order defaults,
// overrides, drops. It is scanned again, so that quirks see what is really sent.
func (l *TargetHandler) applyConfigParams(x *Exchange) (*jsonedit.Doc, error) {
	list := slices.Clip(x.Edits)
	for _, e := range l.Defaults {
		if _, ok := x.Doc.Find(e.Name); !ok {
			list = append(list, e)
		}
	}
	list = append(list, l.Override...)
	body := x.Doc.Apply(nil, list...)
	for _, p := range l.Drop {
		dropped, err := jsonedit.Delete(nil, body, p)
		if err != nil {
			return nil, apierr.New(apierr.Invalid, "AB01: %s: drop_params: %v", l.Path, err).WithCode("AB01")
		}
		body = dropped
	}
	doc := new(jsonedit.Doc)
	if err := doc.Scan(body); err != nil {
		return nil, apierr.New(apierr.Invalid, "%s: override_params, default_params or drop_params produce an invalid body: %v", l.Path, err)
	}
	return doc, nil
}

// translateBody returns the body in the target's dialect. It is scanned, so that the
// quirks of the row apply to what is really sent.
func (l *TargetHandler) translateBody(x *Exchange, w *wirePlan, doc *jsonedit.Doc, list []jsonedit.Edit) (*jsonedit.Doc, error) {
	body := doc.Bytes()
	if x.Dialect.ModelInPath() {
		list = append(slices.Clip(list), jsonedit.Edit{Name: "model"})
	}
	if len(list) > 0 {
		body = doc.Apply(nil, list...)
	}
	encoded, err := l.encode(x, w, body)
	if err != nil {
		return nil, err
	}
	out := new(jsonedit.Doc)
	if err := out.Scan(encoded); err != nil {
		return nil, fmt.Errorf("scanning a body for %s: %w", l.Target.ID, err)
	}
	return out, nil
}

// checkRefusedFields refuses a body with a field that the host can't take.
func (l *TargetHandler) checkRefusedFields(w *wirePlan, doc *jsonedit.Doc) error {
	for name, code := range l.Target.BodyRules[w.op].Refuse {
		if v, ok := doc.Find(name); ok && !v.IsNull() {
			return dialect.Unsupported(name, w.target, "the host does not support this field").WithCode(code)
		}
	}
	return nil
}

// hostEdits returns the edits that the host of the target wants in a body of its
// dialect: what the address says already goes, what the host wants besides
// comes, and beta flags stand where it reads them. h is the attempt's header.
func (l *TargetHandler) hostEdits(x *Exchange, w *wirePlan, doc *jsonedit.Doc, h http.Header) []jsonedit.Edit {
	var list []jsonedit.Edit
	shape := l.Target.BodyRules[w.op]
	for _, name := range shape.Drop {
		if _, ok := doc.Find(name); ok {
			list = append(list, jsonedit.Edit{Name: name})
		}
	}
	if len(shape.Set) > 0 { // sorting no keys allocates too, and most rows have none
		list = append(list, missing(doc, shape.Set)...)
	}
	if cleaner, ok := l.Codecs[w.dialect].(dialect.ForeignContentCleaner); ok && !w.translates() {
		list = append(list, cleaner.Clean(doc)...)
	}
	if w.dialect == api.DialectMessages {
		list = append(list, l.mergeBetaFlags(x, w, doc, h)...)
	}
	return append(list, l.modelEdit(x, w, doc, slices.Contains(shape.Drop, "model"))...)
}

// missing returns the edits that write the members of set that doc lacks.
func missing(doc *jsonedit.Doc, set map[string]string) []jsonedit.Edit {
	var list []jsonedit.Edit
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if _, ok := doc.Find(name); !ok {
			list = append(list, jsonedit.Edit{Name: name, Value: []byte(set[name])})
		}
	}
	return list
}

// modelEdit returns the edit that leaves the model out of a body where the address
// says it (an edit before may have brought it), or spells it as the provider
// does.
func (l *TargetHandler) modelEdit(x *Exchange, w *wirePlan, doc *jsonedit.Doc, dropped bool) []jsonedit.Edit {
	if dropped || w.dialect.ModelInPath() {
		return []jsonedit.Edit{{Name: "model"}}
	}
	named := l.Target.UpstreamModelName(x.UpstreamModel)
	if _, ok := doc.Find("model"); !ok || named == x.UpstreamModel {
		return nil
	}
	return []jsonedit.Edit{{Name: "model", Value: jsonedit.AppendString(nil, named)}}
}

// betaHeader and betaField are where beta flags of the messages protocol stand.
const (
	betaHeader = "Anthropic-Beta"
	betaField  = "anthropic_beta"
)

// mergeBetaFlags brings the beta flags of header and body together, where the host
// reads them.
func (l *TargetHandler) mergeBetaFlags(x *Exchange, w *wirePlan, doc *jsonedit.Doc, h http.Header) []jsonedit.Edit {
	var list []jsonedit.Edit
	if v, ok := doc.Find(betaField); ok {
		if flags, ok := v.Text(); ok {
			for flag := range strings.SplitSeq(flags, ",") {
				addFlag(h, strings.TrimSpace(flag))
			}
		}
		for flag := range v.Elements() {
			if name, ok := flag.Text(); ok {
				addFlag(h, name)
			}
		}
		list = append(list, jsonedit.Edit{Name: betaField})
	}
	field, taken, dropped := l.Target.BodyBetas(w.op, h)
	for _, flag := range dropped {
		x.note("anthropic-beta;dropped=" + strconv.Quote(flag))
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

// addFlag adds a beta flag to the header unless it stands there.
func addFlag(h http.Header, flag string) {
	sent := strings.Join(h[betaHeader], ",")
	for known := range strings.SplitSeq(sent, ",") {
		if strings.TrimSpace(known) == flag {
			return
		}
	}
	if sent != "" {
		flag = sent + "," + flag
	}
	h[betaHeader] = []string{flag}
}

// applyOnUnsupported does with the parameters that are not carried what the config asks.
func (l *TargetHandler) applyOnUnsupported(x *Exchange) error {
	if l.OnUnsupported == "" || l.OnUnsupported == config.Announce {
		return nil
	}
	var dropped, kept []string
	for _, p := range x.Params {
		if name, ok := strings.CutSuffix(p, ";dropped"); ok {
			dropped = append(dropped, name)
			continue
		}
		kept = append(kept, p)
	}
	if len(dropped) > 0 && l.OnUnsupported == config.Refuse {
		for i, p := range x.Params {
			if name, ok := strings.CutSuffix(p, ";dropped"); ok {
				x.Params[i] = name + ";refused"
			}
		}
		return l.unsupported(dropped)
	}
	x.Params = append(x.Params[:0], kept...)
	return nil
}

// providerEdits adds what the provider's row asks for to list.
func (l *TargetHandler) providerEdits(x *Exchange, doc *jsonedit.Doc, list []jsonedit.Edit) []jsonedit.Edit {
	q := quirks{doc: doc, list: slices.Clip(list)}
	rule := l.Target.Rule(x.UpstreamModel)
	q.drop(l.Target.Drop)
	q.drop(rule.Drop)
	q.rename(l.Target.Rename)
	q.rename(rule.Rename)
	q.clamp(l.Target.Limits)
	slices.Sort(q.items) // rows keep quirks in maps
	x.Params = append(x.Params, q.items...)
	return q.list
}

// quirks gathers edits and says what each does to a parameter, in the form of
// a structured header field (RFC 9651).
type quirks struct {
	doc   *jsonedit.Doc
	list  []jsonedit.Edit
	items []string
}

func (q *quirks) drop(names []string) {
	for _, name := range names {
		if _, ok := q.doc.Find(name); ok {
			q.list = append(q.list, jsonedit.Edit{Name: name})
			q.items = append(q.items, name+";dropped")
		}
	}
}

// rename gives a parameter the provider's name. Where the client sent both,
// the provider's own name wins and the other is dropped.
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
		q.items = append(q.items, from+`;renamed="`+to+`"`)
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
		q.items = append(q.items, name+";clamped="+text)
	}
}

// splice returns a buffer with the body of doc after edits, held once.
func (l *TargetHandler) splice(doc *jsonedit.Doc, edits []jsonedit.Edit) (*bytepool.Buffer, error) {
	size := len(doc.Bytes())
	for _, e := range edits {
		size += len(e.Name) + len(e.Value) + len(e.Rename) + len(`,"":`)
	}
	buf, err := l.Pool.Get(size)
	if err != nil {
		return nil, outOfMemory(err)
	}
	buf.Fill(func(dst []byte) []byte { return doc.Apply(dst, edits...) })
	return buf, nil
}

// maxParams is how much of what happened to parameters is told, in bytes: clients
// and proxies refuse long headers, and a request may have any number of them.
const maxParams = 4 << 10

// ParamsHeader joins what happened to settings and parameters for
// x-gateway-params.
func (x *Exchange) ParamsHeader() string { return strings.Join(x.ParamItems(), ", ") }

// ParamItems returns what happened to settings and parameters, each as an item of a
// structured header field. What does not fit is counted in the last.
func (x *Exchange) ParamItems() []string {
	list := slices.Concat(x.Notes, x.Params)
	size := 0
	for i, item := range list {
		if size += len(item); size > maxParams {
			return append(list[:i], "more;count="+strconv.Itoa(len(list)-i))
		}
	}
	return list
}
