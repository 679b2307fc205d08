package agents

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"modelgate/internal/dataplane/tools"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/provider/toolserver"
)

// Bindings that are relayed.
const (
	bindingRPC  = "JSONRPC"
	bindingREST = "HTTP+JSON"
)

// face is an interface of an agent that is relayed.
type face struct {
	binding string
	version string // of the protocol; empty for unknown
	tenant  string // empty for none
	url     *url.URL
}

// card describes an agent. It is immutable.
type card struct {
	raw    []byte
	home   *url.URL // the address that is registered
	digest string   // see [toolserver.Digest]
	faces  []face   // in the order of the card
	modern bool     // it is one of 1.0 or later
	read   time.Time
}

// maxFaces is the limit of interfaces of an agent that are relayed.
const maxFaces = 32

// cardMembers are the members of a card that say where an agent is, how clients sign in and
// who vouches for that, in 1.0 and in 0.3. A card that has one in another spelling is refused:
// lenient clients would read it in place of ours.
var cardMembers = []string{"supportedInterfaces", "url", "preferredTransport", "additionalInterfaces", "securitySchemes",
	"securityRequirements", "security", "signatures", "skills", "capabilities", "supportsAuthenticatedExtendedCard"}

// scanStrictly scans an object in which none of names occurs in another spelling.
func scanStrictly(raw []byte, names ...string) (*jsonedit.Doc, *peer.Failure) {
	doc := new(jsonedit.Doc)
	if err := doc.Scan(raw); err != nil {
		return nil, invalidAnswer("has a card that is malformed, or names something twice")
	}
	for key := range doc.Members() {
		name := key.String()
		if !slices.Contains(names, name) && slices.ContainsFunc(names, func(n string) bool { return plainName(n) == plainName(name) }) {
			return nil, invalidAnswer("has a card with a member in an unusual spelling")
		}
	}
	return doc, nil
}

// parseCard reads a card. home is the address that is registered: interfaces on other hosts are
// not relayed, since they would get the credential.
func parseCard(raw []byte, home *url.URL) (*card, error) {
	if len(raw) > toolserver.MaxDefinition {
		return nil, invalidAnswer("has a card of more than 64 KB")
	}
	doc, failure := scanStrictly(raw, cardMembers...)
	if failure != nil {
		return nil, failure
	}
	c := &card{raw: raw, home: home, digest: toolserver.Digest(raw), read: time.Now()}
	list, ok := doc.Find("supportedInterfaces")
	for e := range list.Elements() {
		c.add(e, "protocolBinding", "")
	}
	c.modern = ok && (len(c.faces) == 0 || slices.ContainsFunc(c.faces, func(f face) bool { return !strings.HasPrefix(f.version, "0.") }))
	if first, ok := doc.Find("url"); ok {
		version, _ := doc.Find("protocolVersion")
		text, _ := version.Text()
		binding := bindingRPC
		if v, ok := doc.Find("preferredTransport"); ok {
			binding, _ = v.Text()
		}
		address, _ := first.Text()
		c.addFace(face{binding: binding, version: text}, address)
		more, _ := doc.Find("additionalInterfaces")
		for e := range more.Elements() {
			c.add(e, "transport", text)
		}
	}
	if len(c.faces) == 0 {
		return nil, invalidAnswer("names no interface of JSON-RPC or HTTP+JSON on the host at which it is registered")
	}
	return c, nil
}

// add adds an interface in a list, if it is relayed. version is that of interfaces which name
// none.
func (c *card) add(e jsonedit.Value, binding, version string) {
	f := face{binding: e.TextOf(binding), version: e.TextOf("protocolVersion"), tenant: e.TextOf("tenant")}
	if f.version == "" {
		f.version = version
	}
	c.addFace(f, e.TextOf("url"))
}

func (c *card) addFace(f face, address string) {
	f.url = c.resolve(f.binding, f.tenant, address)
	if f.url != nil && len(c.faces) < maxFaces {
		c.faces = append(c.faces, f)
	}
}

// resolve returns the address of an interface, nil if it is not relayed. Tenants are part of
// paths in HTTP+JSON, where clients and agents disagree about them.
func (c *card) resolve(binding, tenant, address string) *url.URL {
	u, err := c.home.Parse(address)
	if err != nil || u.Scheme != c.home.Scheme || !strings.EqualFold(u.Host, c.home.Host) || u.User != nil || u.Fragment != "" {
		return nil
	}
	if binding != bindingRPC && (binding != bindingREST || tenant != "" || u.RawQuery != "") {
		return nil
	}
	return u
}

// find returns the interface for a binding and the version that a client asks for: the first if
// none has it, so that the agent answers.
func (c *card) find(binding, version string) (*face, bool) {
	if version == "" {
		version = "0.3" // https://a2a-protocol.org/v1.0.0/specification/#362-server-responsibilities
	}
	var first *face
	for i := range c.faces {
		f := &c.faces[i]
		if f.binding != binding {
			continue
		}
		if minor(f.version) == minor(version) {
			return f, true
		}
		if first == nil {
			first = f
		}
	}
	return first, first != nil
}

// minor returns a version without its patch.
func minor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(len(parts), 2)], ".")
}

// outer returns the card for clients: the interfaces are at the address of the gateway, clients
// sign in to it, and nobody has signed that.
func (c *card) outer(address string) ([]byte, error) { return outerCard(c, c.raw, address) }

// outerCard returns a card of an agent, which may be its extended card, for clients.
func outerCard(c *card, raw []byte, address string) ([]byte, error) {
	doc, failure := scanStrictly(raw, cardMembers...)
	if failure != nil {
		return nil, failure
	}
	edits := []jsonedit.Edit{{Name: "signatures"}, {Name: "security"}, {Name: "securityRequirements"}}
	own := jsonedit.AppendString(nil, address)
	for _, list := range [...]struct{ name, binding string }{
		{"supportedInterfaces", "protocolBinding"}, {"additionalInterfaces", "transport"},
	} {
		if v, ok := doc.Find(list.name); ok {
			value, err := c.outerFaces(v, list.binding, own)
			if err != nil {
				return nil, err
			}
			edits = append(edits, jsonedit.Edit{Name: list.name, Value: value})
		}
	}
	if v, ok := doc.Find("url"); ok {
		edits = append(edits, jsonedit.Edit{Name: "url", Value: own})
		text, _ := v.Text()
		transport, _ := doc.Find("preferredTransport")
		if name, ok := transport.Text(); ok && c.resolve(name, "", text) == nil {
			edits = append(edits, jsonedit.Edit{Name: "preferredTransport", Value: jsonedit.AppendString(nil, c.faces[0].binding)})
		}
	}
	if v, ok := doc.Find("capabilities"); ok && v.Kind() == jsonedit.Object {
		value, failure := changeMembers(v.Raw(), jsonedit.Edit{Name: "pushNotifications", Value: []byte("false")})
		if failure != nil {
			return nil, failure
		}
		edits = append(edits, jsonedit.Edit{Name: "capabilities", Value: value})
	}
	if v, ok := doc.Find("skills"); ok {
		value, failure := changeElements(v, jsonedit.Edit{Name: "security"}, jsonedit.Edit{Name: "securityRequirements"})
		if failure != nil {
			return nil, failure
		}
		edits = append(edits, jsonedit.Edit{Name: "skills", Value: value})
	}
	edits = append(edits, signIn(c.modern)...)
	return doc.Apply(nil, edits...), nil
}

// signIn returns the members of a card which say that clients send a key of the gateway.
func signIn(modern bool) []jsonedit.Edit {
	if modern {
		return []jsonedit.Edit{
			{Name: "securitySchemes",
				Value: []byte(`{"gateway":{"httpAuthSecurityScheme":{"scheme":"Bearer","description":"A key of the gateway"}}}`)},
			{Name: "securityRequirements", Value: []byte(`[{"schemes":{"gateway":{"list":[]}}}]`)},
		}
	}
	return []jsonedit.Edit{
		{Name: "securitySchemes", Value: []byte(`{"gateway":{"type":"http","scheme":"bearer","description":"A key of the gateway"}}`)},
		{Name: "security", Value: []byte(`[{"gateway":[]}]`)},
	}
}

// outerFaces returns a list of interfaces with those that are relayed, at our address.
func (c *card) outerFaces(list jsonedit.Value, binding string, own []byte) ([]byte, error) {
	var b jsonedit.Builder
	b.Open('[')
	for e := range list.Elements() {
		if c.resolve(e.TextOf(binding), e.TextOf("tenant"), e.TextOf("url")) == nil {
			continue
		}
		doc, failure := scanStrictly(e.Raw(), "url", "tenant", binding, "protocolVersion")
		if failure != nil {
			return nil, failure
		}
		b.Raw(doc.Apply(nil, jsonedit.Edit{Name: "url", Value: own}))
	}
	b.Close(']')
	return b.Bytes(), nil
}

// changeMembers returns an object with edits, if none of their names occurs in another
// spelling. Members that it lacks are not added.
func changeMembers(raw []byte, edits ...jsonedit.Edit) ([]byte, *peer.Failure) {
	var names []string
	for _, e := range edits {
		names = append(names, e.Name)
	}
	doc, failure := scanStrictly(raw, names...)
	if failure != nil {
		return nil, failure
	}
	edits = slices.DeleteFunc(edits, func(e jsonedit.Edit) bool {
		_, ok := doc.Find(e.Name)
		return !ok
	})
	return doc.Apply(nil, edits...), nil
}

// changeElements returns a list with edits of all its objects.
func changeElements(list jsonedit.Value, edits ...jsonedit.Edit) ([]byte, *peer.Failure) {
	var b jsonedit.Builder
	b.Open('[')
	for e := range list.Elements() {
		if e.Kind() != jsonedit.Object {
			b.Raw(e.Raw())
			continue
		}
		changed, failure := changeMembers(e.Raw(), slices.Clone(edits)...)
		if failure != nil {
			return nil, failure
		}
		b.Raw(changed)
	}
	b.Close(']')
	return b.Bytes(), nil
}

// Probe reads the card of an agent, whatever is remembered of it. What it returns is trusted in
// nothing. An error is an *apierr.Error or a *peer.Failure.
func (p *Relay) Probe(ctx context.Context, s *toolserver.Server) (*toolserver.Found, error) {
	if s.Fault != nil {
		return nil, s.Fault
	}
	cred, err := tools.OwnCredential(ctx, p.shared, s, "")
	if err != nil {
		return nil, err
	}
	found, err := p.cards.fetch(ctx, s, cred)
	if err != nil {
		return nil, err
	}
	p.cards.keep(s, cred, found)
	return found.describe(), nil
}

// describe returns what a card says of its agent.
func (c *card) describe() *toolserver.Found {
	v, err := jsonedit.ParseValue(c.raw)
	if err != nil {
		return &toolserver.Found{}
	}
	f := &toolserver.Found{Title: v.TextOf("name"), Name: v.TextOf("name"), Description: v.TextOf("description"), Version: v.TextOf("version"),
		Protocol: c.faces[0].version, Status: http.StatusOK, Capabilities: map[string]bool{},
		Items: []toolserver.FoundItem{{Item: toolserver.Message, Definition: c.raw}}}
	if icon := v.TextOf("iconUrl"); icon != "" {
		f.Icons = []toolserver.Icon{{Source: icon}}
	}
	flags, _ := v.Get("capabilities")
	for key, value := range flags.Fields() {
		if set, ok := value.Bool(); ok {
			f.Capabilities[key.String()] = set
		}
	}
	return f
}
