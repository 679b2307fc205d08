package pipeline

import (
	"slices"
	"strconv"
	"strings"

	"modelgate/api"
	"modelgate/internal/bytepool"
	"modelgate/internal/jsonedit"
	"modelgate/internal/provider"
)

// edits returns the splices that make the exchange's body one that the target
// takes: what the route asked for, then the config's overrides, then the
// quirks of the provider's row. Each quirk is announced in x.Params.
func (l *Leaf) edits(x *Exchange) []jsonedit.Edit {
	x.Params = x.Params[:0]
	if x.Doc == nil {
		return nil
	}
	list := slices.Clip(x.Edits)
	list = append(list, l.Override...)
	if x.Operation == api.Proxy {
		return list
	}
	q := quirks{doc: x.Doc, list: list}
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

// edited returns a buffer with the body of doc after edits, held once.
func (l *Leaf) edited(doc *jsonedit.Doc, edits []jsonedit.Edit) (*bytepool.Buffer, error) {
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

// ParamsHeader joins what became of parameters for x-gateway-params.
func (x *Exchange) ParamsHeader() string { return strings.Join(x.Params, ", ") }
