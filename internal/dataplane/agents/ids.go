package agents

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"modelgate/internal/base/secret"
	"modelgate/internal/format/jsonedit"
)

// idKind is what an id names.
type idKind byte

const (
	taskID    idKind = 't'
	contextID idKind = 'c'
)

// ids translates ids of tasks and contexts of an agent to those that a caller sees, which hold
// who may use them: the same id for the same caller each time, on every node. To an agent, all
// callers are the gateway, so that it cannot keep them apart.
type ids struct {
	box   *secret.Box
	owner string // the caller and the agent
}

// maxID is the limit of an id of an agent in bytes.
const maxID = 512

// outerPrefix begins the ids that callers see.
const outerPrefix = "mga_"

// sealedPrefix is how a box begins what it seals.
const sealedPrefix = "sealed:v1:"

// bound returns what is sealed with an id, in front of it.
func (i ids) bound(k idKind) string {
	sum := sha256.Sum256([]byte(i.owner))
	return string(rune(k)) + base64.RawStdEncoding.EncodeToString(sum[:16]) + ":"
}

// outer returns the id that the caller sees.
func (i ids) outer(k idKind, id string) string {
	text := i.box.SealDeterministic("a2a", secret.New(i.bound(k)+id))
	return outerPrefix + toURL.Replace(strings.TrimPrefix(text, sealedPrefix))
}

// inner returns the id that the agent knows. The error is the same for ids of other callers
// and for those that the gateway has not made.
func (i ids) inner(k idKind, id string) (string, error) {
	none := errNoTask
	if k == contextID {
		none = errForeignContext
	}
	text, ok := strings.CutPrefix(id, outerPrefix)
	if !ok || len(id) > 4*maxID || strings.ContainsAny(text, "+/") {
		return "", none
	}
	plain, err := i.box.Open(sealedPrefix + fromURL.Replace(text))
	if err != nil {
		return "", none
	}
	inner, ok := strings.CutPrefix(plain.Reveal(), i.bound(k))
	if !ok {
		return "", none
	}
	return inner, nil
}

// Ids are part of paths.
var (
	toURL   = strings.NewReplacer("+", "-", "/", "_")
	fromURL = strings.NewReplacer("-", "+", "_", "/")
)

var errForeignContext = invalid("contextId", "there is no such context of this key; leave contextId out to begin one, and use that of the answer")

// splice replaces bytes of a document.
type splice struct {
	from, to int
	with     []byte
}

// apply returns a document with splices, which are in order.
func apply(doc []byte, list []splice) []byte {
	if len(list) == 0 {
		return doc
	}
	out, at := make([]byte, 0, len(doc)+128*len(list)), 0
	for _, s := range list {
		out = append(append(out, doc[at:s.from]...), s.with...)
		at = s.to
	}
	return append(out, doc[at:]...)
}

// walk finds ids of tasks and contexts in a document, wherever A2A has them, in any spelling
// that a lenient parser takes for theirs.
type walk struct {
	doc    []byte
	change func(k idKind, id string) (string, error)
	inward bool // a request, in which duplicate ids and push notifications are refused
	edits  []splice
	known  map[string][]byte // the JSON of ids that were changed, by kind and id; nil for none
}

// Limits of documents. Messages of A2A have ids in fewer than 16 levels; each level is read once
// for those around it.
const (
	maxLevels = 32
	maxEdits  = 10_000
)

// opaque are members whose content is the client's or the agent's own.
var opaque = map[string]bool{"parts": true, "metadata": true, "data": true}

// problem returns the error for a document that has too much of something.
func (w *walk) problem(text string) error {
	if w.inward {
		return invalid("params", "the parameters have %s", text)
	}
	return invalidAnswer("sent a message that has " + text)
}

// value looks for ids in a value. ownsID reports whether the member id of an object is that of
// a task, and level how many values are around it.
func (w *walk) value(v jsonedit.Value, ownsID bool, level int) error {
	if level++; level > maxLevels {
		return w.problem("more than 32 levels outside of parts and metadata")
	}
	for e := range v.Elements() {
		if err := w.value(e, !w.inward && isTask(e), level); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	for key, value := range v.Fields() {
		name := key.String()
		known := plainName(name)
		if w.inward && seen[known] {
			return invalid(name, "the member %.60q occurs twice, also in another spelling", name)
		}
		seen[known] = true
		var err error
		switch {
		case known == "taskid" || known == "id" && ownsID:
			err = w.id(taskID, name, value)
		case known == "contextid":
			err = w.id(contextID, name, value)
		case known == "referencetaskids":
			for e := range value.Elements() {
				if err = w.id(taskID, name, e); err != nil {
					break
				}
			}
			if err == nil && w.inward && value.Kind() != jsonedit.Array && !value.IsNull() {
				err = invalid(name, "%.60q must be a list of ids", name)
			}
		case w.inward && strings.Contains(known, "pushnotification") && !value.IsNull():
			err = errPush
		case opaque[name]:
		default:
			err = w.value(value, !w.inward && isTask(value), level)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// id replaces an id.
func (w *walk) id(k idKind, name string, v jsonedit.Value) error {
	text, ok := v.Text()
	if v.IsNull() || ok && text == "" {
		return nil
	}
	if !ok && w.inward {
		return invalid(name, "%.60q must be a string", name)
	}
	if !ok || len(text) > maxID && !w.inward || text == "." || text == ".." {
		return invalidAnswer("names a task or a context by an id that is not a text of at most 512 bytes")
	}
	key := string(rune(k)) + text
	with, ok := w.known[key]
	if !ok {
		out, err := w.change(k, text)
		if err != nil {
			return err
		}
		if w.known == nil {
			w.known = map[string][]byte{}
		}
		with = jsonedit.AppendString(nil, out)
		w.known[key] = with
	}
	if len(w.edits) == maxEdits {
		return w.problem("more than 10000 ids of tasks and contexts")
	}
	from := cap(w.doc) - cap(v.Raw())
	w.edits = append(w.edits, splice{from, from + len(v.Raw()), with})
	return nil
}

// isTask reports whether an object of an answer is a task: it has a state, and an id of its
// own.
func isTask(v jsonedit.Value) bool {
	status, ok := v.Get("status")
	return ok && status.Kind() == jsonedit.Object
}

// plainName returns the name of a member or a parameter as lenient parsers compare it: without
// case and underscores, also in letters that fold to those of ASCII.
func plainName(name string) string {
	return folded.Replace(strings.ToLower(name))
}

var folded = strings.NewReplacer("_", "", "-", "", "ſ", "s")

// rewrite puts the ids of the agent in place of those of the caller.
func (x *request) rewrite(c *call) error {
	if c.kind.push {
		return errPush
	}
	if c.params.Kind() != jsonedit.Object {
		if c.kind.card == extendedCard && c.params.IsNull() {
			return nil
		}
		return invalid("params", "the parameters must be an object")
	}
	w := walk{doc: c.body, inward: true, change: func(k idKind, id string) (string, error) {
		inner, err := x.ids.inner(k, id)
		if err == nil && k == contextID {
			c.context = inner
		}
		return inner, err
	}}
	if err := w.value(c.params, true, 0); err != nil {
		return err
	}
	c.edits = w.edits
	var task, listed string // what agents read, which is not below another member
	for key, value := range c.params.Fields() {
		name := key.String()
		switch name {
		case "id":
			task, _ = value.Text()
		case "contextId", "context_id":
			listed, _ = value.Text()
		}
		switch plainName(name) {
		case "tenant":
			var ok bool
			if c.tenant, ok = value.Text(); !ok && !value.IsNull() {
				return errTenant
			}
		case "name", "parent": // of a task, in bindings of 0.3
			return invalid(name, "the member %.60q has no meaning here; remove it", name)
		}
	}
	switch {
	case c.kind.task && task == "" && !x.rest:
		return errNoTask
	case c.kind.lists && listed == "":
		return errNoContext
	case x.rest && c.tenant != "":
		return errTenant
	case c.kind.lists:
		var err error
		c.context, err = x.ids.inner(contextID, listed)
		return err
	}
	return nil
}

// errTenant is why a request names no tenant but that of the card.
var errTenant = invalid("tenant", "the tenant is not the one in the card of the agent")

// outward puts the ids that the caller sees in place of those of the agent. Of a list, every
// task must belong to its context.
func (x *request) outward(c *call, doc []byte, v jsonedit.Value) ([]splice, error) {
	other := false
	w := walk{doc: doc, change: func(k idKind, id string) (string, error) {
		other = other || c.kind.lists && k == contextID && id != c.context
		return x.ids.outer(k, id), nil
	}}
	if err := w.value(v, isTask(v), 0); err != nil {
		return nil, err
	}
	if c.kind.lists {
		tasks, _ := v.Get("tasks")
		for e := range tasks.Elements() {
			other = other || e.TextOf("contextId") != c.context
		}
	}
	if other {
		return nil, invalidAnswer("listed tasks of another context")
	}
	return w.edits, nil
}
