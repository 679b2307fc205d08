package tools

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/jsonrpc"
	"modelgate/internal/provider/toolserver"
)

// Limits of a page that clients get.
const (
	pageItems = 1000
	pageBytes = 4 << 20

	// listTime is how long a client waits for the lists of servers.
	listTime = 5 * time.Second
)

// serverList is the list of one server, or why there is none.
type serverList struct {
	server *toolserver.Server
	list   *list
	err    error
}

// gather returns a list of each server of the view. It waits for listTime at most.
func (x *request) gather(k *listKind) []serverList {
	out := make([]serverList, len(x.view.servers))
	ctx, cancel := context.WithTimeout(x.http.Context(), listTime)
	defer cancel()
	var all sync.WaitGroup
	for i, s := range x.view.servers {
		out[i].server = s
		if s.Auth != toolserver.AuthUser && s.Auth != toolserver.AuthClientCredentials { // there is nobody to ask
			if cred, err := x.credential(ctx, s); err == nil {
				if l, ok := x.catalogue.fresh(s, cred, k); ok {
					out[i].list = l
					continue
				}
			}
		}
		all.Go(func() {
			cred, err := x.credential(ctx, s) // which may ask an authorization server
			if err == nil {
				out[i].list, err = x.catalogue.list(ctx, s, cred, k)
			}
			if _, waits := errors.AsType[*SignInError](err); waits { // there are no tokens, or the server refused them
				out[i].list, err = storedList(ctx, x, s, k, err)
			}
			out[i].err = err
		})
	}
	all.Wait()
	return out
}

// outer is an item as the client sees it.
type outer struct {
	server *toolserver.Server
	*definition
	name string // that the client uses
}

// visible returns the items that the caller may use, in the order of servers and then of
// their lists.
func (x *request) visible(k *listKind, lists []serverList) []outer {
	n := 0
	for _, l := range lists {
		if l.list != nil {
			n += len(l.list.items)
		}
	}
	out := make([]outer, 0, n)
	for _, l := range lists {
		if l.list == nil {
			continue
		}
		for i := range l.list.items {
			d := &l.list.items[i]
			if x.view.allows(l.server, toolserver.Item{Kind: k.kind, Name: d.name}, d.digest) {
				out = append(out, outer{l.server, d, d.name})
			}
		}
	}
	x.rename(k, out)
	return out
}

// rename sets the names that clients use. Tools and prompts have the slug of their server in
// front where there are several; resources only if two have the same address.
func (x *request) rename(k *listKind, items []outer) {
	if k.kind == toolserver.Tool || k.kind == toolserver.Prompt {
		for i := range items {
			items[i].name = toolserver.OuterName(items[i].server.Slug, items[i].definition.name, x.view.prefixed)
		}
		return
	}
	if !x.view.prefixed {
		return
	}
	first := make(map[string]*toolserver.Server, len(items))
	shared := make(map[string]bool)
	for _, i := range items {
		if of, ok := first[i.definition.name]; ok && of != i.server {
			shared[i.definition.name] = true
		}
		first[i.definition.name] = i.server
	}
	for i := range items {
		if shared[items[i].name] {
			items[i].name = items[i].server.Slug + addressSeparator + items[i].name
		}
	}
}

// addressSeparator is between the slug of a server and a URI that several servers have.
const addressSeparator = "+"

// list responds with a page of a list.
func (x *request) list(k *listKind) error {
	from, problem := x.position(k)
	if problem != nil {
		return x.reject(x.msg.id, problem)
	}
	lists := x.gather(k)
	if err := allFailed(lists); err != nil {
		if e, waits := errors.AsType[*SignInError](err); !waits || x.era == peer.Legacy && declaresURL(x) {
			return failList(x, e, err)
		}
	}
	items := x.visible(k, lists)
	if k.kind == toolserver.Tool && x.view.searches(len(items)) {
		return listSearch(x, lists)
	}
	size := 1024
	for _, i := range items {
		size += len(i.raw) + len(i.name)
	}
	out := make([]byte, 0, min(size, pageBytes+toolserver.MaxDefinition))
	out = append(out, '{', '"')
	out = append(out, k.member...)
	out = append(out, `":[`...)
	n := min(from, len(items))
	begin := len(out)
	for ; n < len(items) && n-from < pageItems && len(out)-begin < pageBytes; n++ {
		if n > from {
			out = append(out, ',')
		}
		out = items[n].appendTo(out, items[n].name)
	}
	out = append(out, ']')
	if n < len(items) {
		out = append(out, `,"nextCursor":`...)
		out = jsonedit.AppendString(out, x.cursor(k, n))
	}
	if about := x.describeList(lists); len(about) > 2 {
		out = append(append(out, ','), about[1:]...)
	} else {
		out = append(out, '}')
	}
	return x.respondWith(out)
}

// allFailed returns the error of the first server if no server has a list.
func allFailed(lists []serverList) error {
	for _, l := range lists {
		if l.err == nil {
			return nil
		}
	}
	if len(lists) == 0 {
		return nil
	}
	return lists[0].err
}

// metaMissing names the servers whose items are missing in a list, with the reason.
const metaMissing = "modelgate/missing"

// describeList returns an object of what a list says of itself: how long it is fresh, and
// which servers are missing.
func (x *request) describeList(lists []serverList) []byte {
	ttl, missing := maxTTL, 0
	for _, l := range lists {
		if l.list == nil {
			missing++
			ttl = 0
			continue
		}
		ttl = min(ttl, max(0, l.list.until.Sub(x.catalogue.now())))
	}
	var b jsonedit.Builder
	b.Open('{')
	if x.era == peer.Modern {
		b.Name("resultType")
		b.String("complete")
		b.Name("ttlMs")
		b.Int(ttl.Milliseconds())
		b.Name("cacheScope")
		b.String("private") // what callers may use differs
	}
	if missing == 0 {
		x.ownMeta(&b)
		b.Close('}')
		return b.Bytes()
	}
	b.Name("_meta")
	b.Open('{')
	if x.era == peer.Modern {
		b.Name(metaServer)
		x.serverInfo(&b)
	}
	b.Name(metaMissing)
	b.Open('{')
	for _, l := range lists {
		if l.list == nil {
			b.Key(l.server.Slug)
			b.String(explainMissing(l.err))
		}
	}
	b.Close('}')
	b.Close('}')
	b.Close('}')
	return b.Bytes()
}

// explain returns why a server is missing, for clients.
func explain(err error) string {
	if f, ok := errors.AsType[*peer.Failure](err); ok {
		return f.Reason
	}
	if e, ok := errors.AsType[*apierr.Error](err); ok {
		return e.Message
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "it does not answer in time"
	}
	return "it cannot be used"
}

// cursor returns the cursor of the item with an index.
func (x *request) cursor(k *listKind, n int) string {
	return x.Box.Seal(secret.New(strings.Join([]string{callerOf(x.tools.Identity), x.tools.Slug, k.method, strconv.Itoa(n)}, "\n")))
}

// position returns the index of the first item of the page that the client asks for.
func (x *request) position(k *listKind) (int, *rpcError) {
	v, ok := x.msg.params.Find("cursor")
	if !ok || v.IsNull() {
		return 0, nil
	}
	text, _ := v.Text()
	raw, err := x.Box.Open(text)
	if err == nil {
		rest, mine := strings.CutPrefix(raw.Reveal(), strings.Join([]string{callerOf(x.tools.Identity), x.tools.Slug, k.method}, "\n")+"\n")
		if n, err := strconv.Atoi(rest); mine && err == nil {
			return n, nil
		}
	}
	return 0, newError(jsonrpc.InvalidParams, "the cursor is invalid; begin again without one")
}

// find returns the item that a client names, and false if there is none that it may use.
// Names that are not those of a list are decided by their form, so that a call need not wait
// for lists.
func (x *request) find(k *listKind, name string) (s *toolserver.Server, item string, ok bool) {
	for _, s := range x.view.servers {
		inner, has := name, true
		if x.view.prefixed {
			inner, has = toolserver.CutPrefix(s.Slug, name)
		}
		if has && !toolserver.MayBeReplaced(name) && toolserver.OuterName(s.Slug, inner, x.view.prefixed) == name {
			return s, inner, true
		}
	}
	for _, i := range x.visible(k, x.gather(k)) {
		if i.name == name {
			return i.server, i.definition.name, true
		}
	}
	return nil, "", false
}

// findResource returns the server of a resource: the one with it in its list, or else the only
// one with a template that fits.
func (x *request) findResource(uri string) (s *toolserver.Server, inner string, ok bool) {
	if !x.view.prefixed {
		return x.view.servers[0], uri, true
	}
	for _, s := range x.view.servers {
		if rest, ok := strings.CutPrefix(uri, s.Slug+addressSeparator); ok {
			return s, rest, true
		}
	}
	for _, i := range x.visible(kindOf(toolserver.Resource), x.gather(kindOf(toolserver.Resource))) {
		switch {
		case i.name == uri:
			return i.server, uri, true
		case i.definition.name == uri: // of several servers, so that it must have the slug of one
			return nil, "", false
		}
	}
	best := -1
	for _, i := range x.visible(kindOf(toolserver.Template), x.gather(kindOf(toolserver.Template))) {
		before, _, _ := strings.Cut(i.definition.name, "{")
		if !strings.HasPrefix(uri, before) {
			continue
		}
		if best >= 0 && s != i.server { // nobody says which of them is meant
			return nil, "", false
		}
		s, best = i.server, max(best, len(before))
	}
	return s, uri, best >= 0
}

// definitionOf returns the definition of an item, nil if its server does not list it.
func (x *request) definitionOf(ctx context.Context, s *toolserver.Server, cred peer.Credential, i toolserver.Item) (*definition, error) {
	l, ok := x.catalogue.fresh(s, cred, kindOf(i.Kind))
	if !ok {
		var err error
		if l, err = x.catalogue.list(ctx, s, cred, kindOf(i.Kind)); err != nil {
			return nil, err
		}
	}
	return l.byName[i.Name], nil
}
