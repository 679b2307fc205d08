package pipeline

import (
	"slices"
	"strconv"
	"strings"

	"modelgate/api"
	"modelgate/internal/apierr"
	"modelgate/internal/bytepool"
	"modelgate/internal/jsonedit"
	"modelgate/internal/provider"
)

// shaped returns the body that the target takes, held once: what the config
// asks for first, then the quirks of the provider's row, each announced in
// x.Params. It returns the exchange's own body, held once more, when nothing
// is to change.
func (l *Leaf) shaped(x *Exchange) (*bytepool.Buffer, error) {
	x.Params = x.Params[:0]
	if x.Doc == nil {
		x.Body.Retain()
		return x.Body, nil
	}
	doc, list := x.Doc, x.Edits
	if l.edited() {
		configured, err := l.configured(x)
		if err != nil {
			return nil, err
		}
		doc, list = configured, nil
	}
	if x.Operation != api.Proxy {
		list = l.quirks(x, doc, list)
	}
	if doc == x.Doc && len(list) == 0 {
		x.Body.Retain()
		return x.Body, nil
	}
	return l.splice(doc, list)
}

// edited reports whether the config changes bodies.
func (l *Leaf) edited() bool { return len(l.Defaults)+len(l.Override)+len(l.Drop) > 0 }

// configured returns the body as the config wants it, in the order defaults,
// overrides, drops. It is scanned anew, so that quirks see what is really sent.
func (l *Leaf) configured(x *Exchange) (*jsonedit.Doc, error) {
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
		return nil, apierr.New(apierr.Invalid, "%s: the config's parameters make the body unreadable: %v", l.Path, err)
	}
	return doc, nil
}

// quirks adds what the provider's row asks for to list.
func (l *Leaf) quirks(x *Exchange, doc *jsonedit.Doc, list []jsonedit.Edit) []jsonedit.Edit {
	q := quirks{doc: doc, list: slices.Clip(list)}
	rule := l.Target.Rule(x.Sent)
	q.drop(l.Target.Drop)
	q.drop(rule.Drop)
	q.rename(l.Target.Rename)
	q.rename(rule.Rename)
	q.clamp(l.Target.Limits)
	slices.Sort(q.said) // rows keep quirks in maps
	x.Params = append(x.Params, q.said...)
	return q.list
}

// quirks gathers edits and says what each does to a parameter, in the form of
// a structured header field (RFC 9651).
type quirks struct {
	doc  *jsonedit.Doc
	list []jsonedit.Edit
	said []string
}

func (q *quirks) drop(names []string) {
	for _, name := range names {
		if _, ok := q.doc.Find(name); ok {
			q.list = append(q.list, jsonedit.Edit{Name: name})
			q.said = append(q.said, name+";dropped")
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
		q.said = append(q.said, from+`;renamed="`+to+`"`)
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
		q.said = append(q.said, name+";clamped="+text)
	}
}

// splice returns a buffer with the body of doc after edits, held once.
func (l *Leaf) splice(doc *jsonedit.Doc, edits []jsonedit.Edit) (*bytepool.Buffer, error) {
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

// ParamsHeader joins what became of settings and parameters for
// x-gateway-params.
func (x *Exchange) ParamsHeader() string {
	return strings.Join(slices.Concat(x.Notes, x.Params), ", ")
}
