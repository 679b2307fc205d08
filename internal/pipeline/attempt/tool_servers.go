package attempt

import (
	"bytes"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
)

// ownServers begins the address of a tool server that the gateway serves itself; its slug
// follows.
const ownServers = "modelgate://"

// maxServers limits the tool servers of the gateway that a request names.
const maxServers = 64

// serverList is where requests of a dialect name tool servers for their provider to call.
type serverList struct {
	name       string // of the list
	kind       string // type of its elements that are tool servers
	address    string // member of an element
	credential string // member of an element
}

// serverLists are those of the dialects whose providers call tool servers.
//
//   - https://platform.openai.com/docs/api-reference/responses/create#responses_create-tools
//   - https://docs.claude.com/en/docs/agents-and-tools/mcp-connector
var serverLists = map[api.Dialect]serverList{
	api.DialectResponses: {"tools", "mcp", "server_url", "authorization"},
	api.DialectMessages:  {"mcp_servers", "url", "url", "authorization_token"},
}

// nameServers adds the edit that gives the gateway's own tool servers in a body the addresses
// and credentials with which the provider reaches them. It comes last, so that neither
// guardrails nor caches see the credentials.
func (p *plan) nameServers(doc *jsonedit.Doc, list []jsonedit.Edit) ([]jsonedit.Edit, error) {
	in, ok := serverLists[p.wire.dialect]
	if !ok {
		return list, nil
	}
	servers := edited(doc, list, in.name)
	if !bytes.Contains(servers.Raw(), []byte("modelgate:")) {
		return list, nil
	}
	out, n := jsonedit.Append(nil), 0
	out.Open('[')
	for server := range servers.Elements() {
		slug, own := in.slug(server)
		if !own {
			out.Raw(server.Raw())
			continue
		}
		if n++; n > maxServers {
			return nil, apierr.New(apierr.Invalid, "the request names more than %d tool servers of the gateway", maxServers).WithParam(in.name)
		}
		named, err := p.nameServer(in, server, slug)
		if err != nil {
			return nil, err
		}
		out.Raw(named)
	}
	out.Close(']')
	if n == 0 {
		return list, nil
	}
	return append(list, jsonedit.Edit{Name: in.name, Value: out.Bytes()}), nil
}

// slug returns the slug of the gateway's tool server that an element of the list names, and
// false if it names none.
func (in *serverList) slug(element jsonedit.Value) (slug string, own bool) {
	if element.TextOf("type") != in.kind {
		return "", false
	}
	return strings.CutPrefix(element.TextOf(in.address), ownServers)
}

// nameServer returns the element of a list that names a tool server of the gateway, as the
// provider gets it.
func (p *plan) nameServer(in serverList, element jsonedit.Value, slug string) ([]byte, error) {
	var doc jsonedit.Doc
	if err := doc.Scan(element.Raw()); err != nil {
		return nil, apierr.New(apierr.Invalid, "a tool server in %s is invalid: %v", in.name, err).WithParam(in.name)
	}
	for _, name := range [...]string{in.credential, "headers"} {
		if v, sent := doc.Find(name); sent && !v.IsNull() {
			return nil, apierr.New(apierr.Invalid,
				"the tool server %s%.100s gets its credential from the gateway; remove %s", ownServers, slug, name).
				WithParam(in.name).WithCode("tool_server_credential")
		}
	}
	if p.request.ToolServers == nil {
		return nil, apierr.New(apierr.Invalid,
			"%s%.100s cannot be used here: this gateway has no tool servers", ownServers, slug).WithParam(in.name)
	}
	address, credential, err := p.request.ToolServers.Address(slug)
	if err != nil {
		return nil, err
	}
	p.record.Params = append(p.record.Params, dialect.ParamChange{Name: in.name, Outcome: dialect.Adapted, Note: ownServers + slug})
	edits := []jsonedit.Edit{{Name: in.address, Value: jsonedit.AppendString(nil, address)}}
	if !p.request.DryRun {
		edits = append(edits, jsonedit.Edit{Name: in.credential, Value: jsonedit.AppendString(nil, credential.Reveal())})
	}
	return doc.Apply(nil, edits...), nil
}
