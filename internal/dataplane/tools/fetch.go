package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/jsonrpc"
	"modelgate/internal/provider/toolserver"
)

// fetch reads all pages of a list of a server.
func (c *catalogue) fetch(ctx context.Context, s *toolserver.Server, cred peer.Credential, o *offer, k *listKind) (*list, error) {
	h, err := c.hello(ctx, s, cred)
	if err != nil {
		return nil, err
	}
	l := &list{byName: make(map[string]*definition), ttl: -1}
	if h.capabilities != nil && !h.capabilities[k.limit] {
		l.ttl = unhintedTime
		l.until = c.now().Add(l.ttl)
		return l, nil
	}
	cursor := ""
	for page := range maxPages {
		raw, err := c.sessions.ask(ctx, s, cred, k.method, pageParams(cursor, page > 0))
		if err != nil {
			if refused, ok := errors.AsType[*answerError](err); ok && refused.code == jsonrpc.MethodNotFound {
				break // it has no such list
			}
			return nil, err
		}
		more := false
		if cursor, more, err = l.add(k, raw); err != nil {
			return nil, err
		}
		if !more {
			break
		}
	}
	if l.ttl < 0 {
		l.ttl = unhintedTime
	}
	l.until = c.now().Add(l.ttl)
	for i := range l.items {
		l.byName[l.items[i].name] = &l.items[i]
	}
	return l, nil
}

// pageParams returns the parameters of a request for a page.
func pageParams(cursor string, later bool) []byte {
	if !later {
		return []byte("{}")
	}
	return append(jsonedit.AppendString([]byte(`{"cursor":`), cursor), '}')
}

// add adds the items of a page, a result, to the list. An empty string is a valid cursor.
func (l *list) add(k *listKind, page []byte) (cursor string, more bool, err error) {
	var doc jsonedit.Doc
	if err := doc.Scan(page); err != nil {
		return "", false, fmt.Errorf("the server sent a %s that is not an object", k.method)
	}
	items, _ := doc.Find(k.member)
	if items.Kind() != jsonedit.Array {
		return "", false, fmt.Errorf("the server sent a result of %s without %s", k.method, k.member)
	}
	for e := range items.Elements() {
		if len(l.items) >= toolserver.MaxItems {
			l.skip("", "the server has more than 5,000 of them")
			return "", false, nil
		}
		if l.size += len(e.Raw()); l.size > toolserver.MaxDefinitions {
			l.skip("", "the definitions of the server have more than 16 MB")
			return "", false, nil
		}
		d, problem := parseDefinition(k, bytes.Clone(e.Raw())) // a page is not kept for it
		if problem == "" {
			if _, twice := l.byName[d.name]; twice {
				problem = "the server has two of this name"
			}
		}
		if problem != "" {
			l.skip(d.name, problem)
			continue
		}
		l.byName[d.name] = nil
		l.items = append(l.items, d)
	}
	l.hint(&doc)
	next, ok := doc.Find("nextCursor")
	cursor, more = next.Text()
	return cursor, ok && more, nil
}

// maxSkipped is how many skipped items a list remembers.
const maxSkipped = 20

func (l *list) skip(name, problem string) {
	if len(l.skipped) < maxSkipped {
		l.skipped = append(l.skipped, skipped{name, problem})
	}
}

// hint reads what a page says of its freshness.
// https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
func (l *list) hint(page *jsonedit.Doc) {
	if ttl, ok := page.Find("ttlMs"); ok {
		if ms, ok := ttl.Float(); ok && ms >= 0 {
			d := time.Duration(min(ms, float64(maxTTL/time.Millisecond))) * time.Millisecond
			if l.ttl < 0 || d < l.ttl {
				l.ttl = d
			}
		}
	}
	if scope, ok := page.Find("cacheScope"); ok && !scope.IsText("public") {
		l.private = true
	}
}

// answerError is an error that a server answered with.
type answerError struct {
	code int
	raw  []byte // the error object
}

// Error names the code: the text is the server's.
func (e *answerError) Error() string {
	return fmt.Sprintf("the server answered with the error %d", e.code)
}

// readResult returns the result of a reply, ignoring other messages.
func readResult(r peer.Reply) ([]byte, error) {
	defer r.Close()
	for {
		msg, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the server ended its answer without a response")
		}
		if err != nil {
			return nil, err
		}
		var doc jsonedit.Doc
		if err := doc.Scan(msg); err != nil {
			return nil, errors.New("the server sent something that is not a message")
		}
		if v, ok := doc.Find("result"); ok {
			return bytes.Clone(v.Raw()), nil
		}
		if v, ok := doc.Find("error"); ok {
			code, _ := v.Get("code")
			n, _ := code.Int()
			return nil, &answerError{int(n), bytes.Clone(v.Raw())}
		}
	}
}
