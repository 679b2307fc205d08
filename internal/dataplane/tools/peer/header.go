package peer

import (
	"encoding/base64"
	"maps"
	"net/http"
	"strings"
)

// Names of headers, in canonical form.
const (
	versionHeader = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
	methodHeader  = "Mcp-Method"
	nameHeader    = "Mcp-Name"
	paramPrefix   = "Mcp-Param-"
)

// Shared values of headers; must not be changed.
var (
	acceptBoth    = []string{"application/json, text/event-stream"}
	acceptStream  = []string{"text/event-stream"}
	jsonType      = []string{"application/json"}
	modernVersion = []string{ModernVersion}
)

// Marks around a value that a header cannot carry as it is.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
const (
	encodedBegin = "=?base64?"
	encodedEnd   = "?="
)

// encodeName returns a name or URI as a header carries it: encoded if it has characters
// other than visible ASCII and spaces between them, or looks encoded.
func encodeName(name string) string {
	plain := !strings.HasPrefix(name, encodedBegin) && strings.TrimSpace(name) == name
	for i := 0; i < len(name) && plain; i++ {
		plain = name[i] >= ' ' && name[i] < 0x7f
	}
	if plain {
		return name
	}
	return encodedBegin + base64.StdEncoding.EncodeToString([]byte(name)) + encodedEnd
}

// baseHeader returns the headers of a request to the server of a call: those of the server,
// overridden by those of the credential.
func baseHeader(c *Call) http.Header {
	h := make(http.Header, len(c.Server.Headers)+len(c.Credential.Header)+len(c.Params)+6)
	for name, value := range c.Server.Headers {
		h[name] = []string{value.Reveal()}
	}
	maps.Copy(h, c.Credential.Header)
	for _, name := range [...]string{sessionHeader, methodHeader, nameHeader, "Accept-Encoding", "Last-Event-Id"} {
		delete(h, name)
	}
	return h
}

// postHeader returns the headers of a POST of a message.
func postHeader(c *Call) http.Header {
	h := baseHeader(c)
	h["Content-Type"], h["Accept"] = jsonType, acceptBoth
	if c.Session.Version != "" {
		setSession(h, c.Session)
		return h
	}
	h[versionHeader] = modernVersion
	h[methodHeader] = []string{c.Method}
	if c.Name != "" {
		h[nameHeader] = []string{encodeName(c.Name)}
	}
	for name, values := range c.Params {
		if strings.HasPrefix(name, paramPrefix) {
			h[name] = values
		}
	}
	return h
}

// setSession adds the headers of a session.
func setSession(h http.Header, s Session) {
	if s.ID != "" {
		h[sessionHeader] = []string{s.ID}
	}
	delete(h, versionHeader)
	if s.Version != "" {
		h[versionHeader] = []string{s.Version}
	}
}
