package tools

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/jsonrpc"
)

// Headers of MCP, in canonical form.
const (
	headerVersion = "Mcp-Protocol-Version"
	headerSession = "Mcp-Session-Id"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	headerParam   = "Mcp-Param-"
)

// legacyVersions are the revisions of the legacy era that clients may speak, the newest
// first.
var legacyVersions = []string{peer.LegacyVersion, "2025-06-18", "2025-03-26", "2024-11-05"}

// supportedVersions are all revisions that clients may speak.
var supportedVersions = append([]string{peer.ModernVersion}, legacyVersions...)

// eraOf returns the era that a client speaks: the modern one if it names its revision in
// _meta, or a revision of that era in the header.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#backward-compatibility-with-initialization-based-versions
func eraOf(r *http.Request, m *message) peer.Era {
	if _, ok := m.meta.Find(metaVersion); ok {
		return peer.Modern
	}
	if m.method == "initialize" || m.isResponse() {
		return peer.Legacy
	}
	if v := r.Header.Get(headerVersion); v >= peer.ModernVersion && !slices.Contains(legacyVersions, v) {
		return peer.Modern
	}
	return peer.Legacy
}

// prepareModern checks the headers and the _meta of a request of the modern era.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#server-validation
func (x *request) prepareModern() *rpcError {
	m := x.msg
	version, ok := m.meta.Find(metaVersion)
	text, isText := version.Text()
	capabilities, hasCapabilities := m.meta.Find(metaCapabilities)
	header := x.http.Header.Values(headerVersion)
	switch {
	case len(header) != 1:
		return newError(codeHeaderMismatch, "the header MCP-Protocol-Version must be sent once")
	case ok && header[0] != text:
		return newError(codeHeaderMismatch, "the header MCP-Protocol-Version and params._meta name different versions")
	case !ok || !isText:
		return missingMeta(metaVersion)
	case text != peer.ModernVersion:
		return unsupportedVersion(text)
	case !hasCapabilities || capabilities.Kind() != jsonedit.Object:
		return missingMeta(metaCapabilities)
	}
	if e := x.checkMirror(); e != nil {
		return e
	}
	x.client.Capabilities = capabilities.Raw()
	if info, ok := m.meta.Find(metaInfo); ok {
		x.client.Info = info.Raw()
	}
	return nil
}

// missingMeta returns the error for a request without a field that the era demands.
func missingMeta(name string) *rpcError {
	e := newError(jsonrpc.InvalidParams, "params._meta must have "+name)
	e.status = http.StatusBadRequest
	return e
}

func unsupportedVersion(requested string) *rpcError {
	var b jsonedit.Builder
	b.Open('{')
	b.Name("supported")
	b.Open('[')
	for _, v := range supportedVersions {
		b.String(v)
	}
	b.Close(']')
	b.Name("requested")
	b.String(requested)
	b.Close('}')
	return newError(codeVersion, "the protocol version is not supported").withData(b.Bytes())
}

// checkMirror compares the headers that repeat parts of the body with it.
func (x *request) checkMirror() *rpcError {
	m, h := x.msg, x.http.Header
	if v := h.Values(headerMethod); len(v) != 1 || v[0] != m.method {
		return newError(codeHeaderMismatch, "the header Mcp-Method must be the method of the message")
	}
	name, has := mirroredName(m)
	sent := h.Values(headerName)
	switch {
	case !has && len(sent) == 0:
		return nil
	case !has:
		return nil // only some methods have it; the header has no meaning elsewhere
	case len(sent) != 1:
		return newError(codeHeaderMismatch, "the header Mcp-Name must be sent once")
	}
	if text, ok := decodeHeader(sent[0]); !ok || text != name {
		return newError(codeHeaderMismatch, "the header Mcp-Name must be the name or URI in the parameters")
	}
	return nil
}

// mirroredName returns what the header Mcp-Name repeats of a message.
func mirroredName(m *message) (string, bool) {
	switch m.method {
	case "tools/call", "prompts/get":
		return m.param("name")
	case "resources/read":
		return m.param("uri")
	case "tasks/get", "tasks/update", "tasks/cancel":
		return m.param("taskId")
	}
	return "", false
}

// Marks of values of headers that are encoded.
const encodedBegin, encodedEnd = "=?base64?", "?="

// decodeHeader returns the text of a header that repeats a part of the body, and false if it
// is malformed.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#value-encoding
func decodeHeader(v string) (string, bool) {
	inner, begins := strings.CutPrefix(v, encodedBegin)
	inner, ends := strings.CutSuffix(inner, encodedEnd)
	if begins && ends {
		raw, err := base64.StdEncoding.DecodeString(inner)
		return string(raw), err == nil
	}
	for _, c := range []byte(v) {
		if c < 0x20 && c != '\t' || c > 0x7e {
			return "", false
		}
	}
	return v, true
}

// prepareLegacy finds the session of a request of the legacy era.
func (x *request) prepareLegacy() *rpcError {
	if x.msg.method == "initialize" {
		return nil
	}
	if x.old != nil {
		return useOldSession(x)
	}
	if v := x.http.Header.Get(headerVersion); v != "" && !slices.Contains(legacyVersions, v) {
		return unsupportedVersion(v)
	}
	return x.findSession()
}
