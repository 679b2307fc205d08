package caching

import (
	"bytes"
	"crypto/sha256"
	"hash"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/cache/respcache"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/upstream"
)

// cachedOperations are the operations whose responses may be stored. They
// neither change anything at the provider nor name what a client has stored
// there.
var cachedOperations = map[api.Operation]bool{
	api.Chat: true, api.Completions: true, api.Messages: true, api.Responses: true, api.Generate: true, api.Converse: true, api.Invoke: true,
	api.Embeddings: true, api.GenerateEmbed: true, api.GenerateEmbedBatch: true, api.Rerank: true, api.Moderations: true,
	api.Images: true, api.AudioSpeech: true, api.CountTokens: true, api.GenerateCount: true, api.ConverseCount: true,
}

// cachedPaths are the ends of the paths that are cached on pass-through: only
// requests to models. Others may create something at the provider each time.
var cachedPaths = [...]string{
	"/chat/completions", "/completions", "/messages", "/responses", "/embeddings", "/rerank", "/moderations",
	"/images/generations", "/audio/speech",
	":generateContent", ":streamGenerateContent", ":embedContent", ":batchEmbedContents", ":predict", ":rawPredict", ":streamRawPredict",
	"/converse", "/converse-stream", "/invoke",
	"/generate", "/generate_stream", "/embed", "/chat", "/api/generate", "/api/chat", "/api/embed",
}

// statefulFields are fields of requests whose response depends on more than the
// request, or that have an effect beyond it.
// https://platform.openai.com/docs/api-reference/responses/create
var statefulFields = [...]string{"conversation", "background"}

// cacheable reports whether equal requests may share a response.
func cacheable(r *exchange.Request) bool {
	if r.Received.Method != http.MethodPost || r.Received.Doc == nil || r.Received.Body == nil || r.Identity == nil || r.Cache.Effect {
		return false
	}
	if r.Operation == api.Invoke && r.Stream { // its events cannot be inspected without decoding
		return false
	}
	if r.Operation == api.Proxy {
		if !slices.ContainsFunc(cachedPaths[:], func(end string) bool { return strings.HasSuffix(r.Received.Path, end) }) {
			return false
		}
	} else if !cachedOperations[r.Operation] {
		return false
	}
	for _, name := range statefulFields {
		v, ok := r.Received.Doc.Find(name)
		if yes, is := v.Bool(); ok && v.Kind() != jsonedit.Null && (yes || !is) {
			return false
		}
	}
	return true
}

// leafKey returns a hash of the settings of a leaf that decide about the bytes
// of a response: all except those listed here.
func leafKey(n *config.Config) respcache.Key {
	c := *n
	c.Cache, c.Retry, c.Breaker, c.Hedge, c.Weight, c.Name, c.Path, c.RequestTimeout, c.StreamContinuation,
		c.OnStatusCodes = nil, nil, nil, nil, nil, "", "", 0, nil, nil
	return sha256.Sum256(c.Canonical())
}

// cacheKey returns the key of the response to r from the leaf. Lengths precede
// all parts, so that no two lists of parts have the same bytes.
func (h *cacheHandler) cacheKey(r *exchange.Request, leaf *exchange.Leaf) respcache.Key {
	k := keyHashes.Get().(*keyHash)
	k.text("modelgate response 1", r.Identity.Organisation, r.Identity.Workspace)
	if r.Cache.Namespace != "" {
		k.text("namespace", r.Cache.Namespace)
	} else {
		k.text("metadata")
		k.pairs(r.Metadata)
	}
	t := leaf.Target
	k.text(t.ID, t.Slug, t.Key.Reveal(), t.BaseModel)
	if t.Base != nil {
		k.text(t.Base.String())
	} else {
		k.text()
	}
	k.pairs(t.Options)
	k.length(len(t.Headers))
	for _, name := range sortedNames(t.Headers) {
		k.text(name, t.Headers[name].Reveal())
	}
	k.bytes(h.settings[:])
	k.text(leaf.Checks)
	if leaf.Prompt != nil {
		k.text(leaf.Prompt.Model)
		k.edits(leaf.Prompt.Edits)
	} else {
		k.text()
	}
	k.text(string(r.Operation), string(r.Dialect), r.Received.Path, r.StripGatewayKey(r.Received.Query),
		string(r.Identity.ResponseModel), r.Received.RequestedModel, r.Model, strconv.FormatBool(r.Stream))
	h.headers(k, r)
	k.doc(r.Received.Doc)
	k.edits(r.Edits)
	return k.sum()
}

// headers adds the headers of the client and of its claims that reach the provider.
func (h *cacheHandler) headers(k *keyHash, r *exchange.Request) {
	if r.Operation != api.Proxy {
		k.text(r.Received.Header["Content-Type"]...)
		for _, name := range r.Client.Headers() {
			k.values(name, r.Received.Header[name])
		}
		k.values(exchange.BetaHeader, r.Received.Header[exchange.BetaHeader]) // reaches targets of the messages dialect from clients of each
	} else {
		passed := make(http.Header, len(r.Received.Header))
		upstream.CopyRequestHeader(passed, r.Received.Header)
		upstream.DropFamilies(passed, r.Received.HeaderPrefixes)
		maps.DeleteFunc(passed, func(name string, values []string) bool { return isTraceHeader(name) || r.Received.HoldsKey(values) })
		k.length(len(passed))
		for _, name := range slices.Sorted(maps.Keys(passed)) {
			k.values(name, passed[name])
		}
	}
	k.length(len(r.Checking.Claims))
	for _, name := range slices.Sorted(maps.Keys(r.Checking.Claims)) {
		k.values(name, r.Checking.Claims[name])
	}
	for _, name := range h.forward {
		k.values(name, r.Received.Header[http.CanonicalHeaderKey(strings.TrimSpace(name))])
	}
}

// isTraceHeader reports whether a header only identifies the request, which
// would make each one different.
func isTraceHeader(name string) bool {
	switch name {
	case "Traceparent", "Tracestate", "Baggage", "X-Request-Id":
		return true
	}
	return false
}

// keyHash hashes parts of a key. Short parts are collected.
type keyHash struct {
	h   hash.Hash
	buf []byte
}

// keyHashes holds hashes for further requests.
var keyHashes = sync.Pool{New: func() any { return &keyHash{h: sha256.New(), buf: make([]byte, 0, 4<<10)} }}

// add adds the bytes of s.
func add[T string | []byte](k *keyHash, s T) {
	if len(k.buf)+len(s) <= cap(k.buf) {
		k.buf = append(k.buf, s...)
		return
	}
	k.h.Write(k.buf)
	k.buf = k.buf[:0]
	if len(s) > cap(k.buf) {
		k.h.Write([]byte(s))
		return
	}
	k.buf = append(k.buf, s...)
}

// sum returns the hash and makes k available to other requests.
func (k *keyHash) sum() (key respcache.Key) {
	k.h.Write(k.buf)
	k.buf = k.h.Sum(k.buf[:0])
	copy(key[:], k.buf)
	k.buf = k.buf[:0]
	k.h.Reset()
	keyHashes.Put(k)
	return key
}

func (k *keyHash) length(n int) {
	if len(k.buf)+5 > cap(k.buf) {
		k.h.Write(k.buf)
		k.buf = k.buf[:0]
	}
	k.buf = append(k.buf, byte(n), byte(n>>8), byte(n>>16), byte(n>>24), byte(n>>32))
}

func (k *keyHash) bytes(b []byte) {
	k.length(len(b))
	add(k, b)
}

func (k *keyHash) text(list ...string) {
	k.length(len(list))
	for _, s := range list {
		k.length(len(s))
		add(k, s)
	}
}

func (k *keyHash) values(name string, list []string) {
	k.text(name)
	k.text(list...)
}

func (k *keyHash) pairs(m map[string]string) {
	k.length(len(m))
	for _, name := range sortedNames(m) {
		k.text(name, m[name])
	}
}

// sortedNames returns the names of m in order, mostly none.
func sortedNames[V any](m map[string]V) []string {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}

func (k *keyHash) edits(list []jsonedit.Edit) {
	k.length(len(list))
	for _, e := range list {
		k.text(e.Name, e.Rename)
		k.bytes(e.Value)
	}
}

// member is a member of a body, as in the body.
type member struct{ name, value []byte }

// doc adds a body without spaces and with its members in order. Inside of
// values the order stays: models write the properties of a schema in its order.
func (k *keyHash) doc(doc *jsonedit.Doc) {
	members := make([]member, 0, 16)
	for name, v := range doc.Members() {
		members = append(members, member{name.Raw(), v.Raw()})
	}
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	k.length(len(members))
	for _, m := range members {
		k.bytes(m.name)
		k.compact(m.value)
	}
}

// compact adds JSON without spaces between tokens, and a byte that JSON does not
// contain.
func (k *keyHash) compact(b []byte) {
	from := 0
	for i := 0; i < len(b); {
		switch b[i] {
		case '"':
			i = stringEnd(b, i)
		case ' ', '\t', '\n', '\r':
			add(k, b[from:i])
			for i++; i < len(b) && b[i] <= ' '; i++ {
			}
			from = i
		default:
			i++
		}
	}
	add(k, b[from:])
	add(k, "\x00")
}

// stringEnd returns the offset after the JSON string that begins at i.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b)
		}
		i += n
		escapes := 0
		for b[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
	return len(b)
}
