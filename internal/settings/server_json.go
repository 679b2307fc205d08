package settings

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/provider/toolserver"
)

// Limits of a server.json.
const (
	maxServerJSON = 1 << 20 // in bytes
	maxSlug       = 64      // in bytes

	maxServerAddress = 16 << 10 // in bytes
)

// serverJSON is what is read of a server.json of the public MCP registry.
// https://github.com/modelcontextprotocol/registry/blob/main/docs/reference/server-json/generic-server-json.md
type serverJSON struct {
	Name, Title, Description string
	Remotes                  []serverRemote
	Packages                 []struct {
		Registry   string `json:"registryType"`
		Identifier string
	}
}

type serverRemote struct {
	Type, URL string
	Variables map[string]serverInput
	Headers   []serverInput
}

// serverInput is a value that the user of a server sets, or a part of one.
type serverInput struct {
	Name, Description, Value, Default string
	Required                          bool `json:"isRequired"`
	Secret                            bool `json:"isSecret"`
	Variables                         map[string]serverInput
}

// ServerJSON converts a server.json of the public MCP registry to a file for ParseState with one
// MCP integration. Comments at its beginning say which environment variables it needs, and what
// was left out. Packages are refused: they are programs, which only the settings of a node may
// name.
func ServerJSON(text []byte) ([]byte, error) {
	if len(text) > maxServerJSON {
		return nil, fmt.Errorf("a server.json can have %d bytes", maxServerJSON)
	}
	var s serverJSON
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("it is not a server.json: %w", err)
	}
	if s.Name == "" {
		return nil, errors.New("it is not a server.json: it has no name")
	}
	remote, err := s.remote()
	if err != nil {
		return nil, err
	}
	i := MCPIntegration{Slug: slugOfServer(s.Name), Name: shorten(cmp.Or(s.Title, s.Name), 255), Description: shorten(s.Description, 1024),
		URL: remote.URL, Transport: "http", Auth: "none"}
	if remote.Type == "sse" {
		i.Transport = "sse"
	}
	if i.URL, err = remote.address(); err != nil {
		return nil, err
	}
	notes := []string{"From the server.json of " + s.Name + ". Apply it with `modelgate apply FILE`."}
	for _, h := range remote.Headers {
		name := strings.TrimSpace(h.Name)
		value := cmp.Or(h.Value, h.Default)
		if !h.Required && value == "" {
			notes = append(notes, "Left out, because it is optional: the header "+name+". "+h.Description)
			continue
		}
		env := environmentName("MCP_INTEGRATION_" + i.Slug + "_CUSTOM_HEADERS_" + name)
		if i.Configurations.Headers == nil {
			i.Auth, i.Configurations.Headers = "headers", map[string]string{}
		}
		i.Configurations.Headers[name] = "${" + env + "}"
		notes = append(notes, fmt.Sprintf("Set %s to the header %s: %s", env, name, h.describe(value)))
	}
	var out bytes.Buffer
	for _, n := range notes {
		fmt.Fprintf(&out, "# %s\n", shorten(strings.Join(strings.Fields(printable(n)), " "), 500))
	}
	entry, err := json.Marshal([]MCPIntegration{i})
	if err != nil {
		return nil, err
	}
	v, err := jsonedit.ParseValue(entry)
	if err != nil {
		return nil, err
	}
	out.WriteString("mcp_integrations:")
	writeValue(&out, v, 0)
	return out.Bytes(), nil
}

// remote returns the address to use: one of streamable HTTP if there is one.
func (s *serverJSON) remote() (*serverRemote, error) {
	for _, want := range [...]string{"streamable-http", "sse"} {
		for i := range s.Remotes {
			if r := &s.Remotes[i]; r.Type == want {
				return r, nil
			}
		}
	}
	switch {
	case len(s.Remotes) > 0:
		return nil, fmt.Errorf("the server has no remote of the type streamable-http or sse, only %.40q", s.Remotes[0].Type)
	case len(s.Packages) > 0:
		return nil, fmt.Errorf("the server is only a package (%.20q %.100q), a program: name it in tools.commands of a node's settings, and use the transport stdio",
			s.Packages[0].Registry, s.Packages[0].Identifier)
	}
	return nil, errors.New("the server has neither remotes nor packages")
}

// address returns the address with its variables replaced by their defaults.
func (r *serverRemote) address() (string, error) {
	address, ok := toolserver.ExpandAddress(r.URL, maxServerAddress, func(name string) (string, bool) {
		v := r.Variables[name]
		text := cmp.Or(v.Value, v.Default)
		return text, text != ""
	})
	if !ok {
		return "", fmt.Errorf("the address of the server has more than %d bytes", maxServerAddress)
	}
	if left := variableOf.FindString(address); left != "" {
		return "", fmt.Errorf("the address of the server has the variable %.60s without a default; replace it in the url of the server.json", left)
	}
	if !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://") || address != printable(address) {
		return "", fmt.Errorf("the address of the server must begin with https:// or http://, not %.60q", address)
	}
	return address, nil
}

var variableOf = regexp.MustCompile(`\{[^{}]*\}`)

// describe returns what a header is set to.
func (h *serverInput) describe(value string) string {
	text := h.Description
	if value != "" {
		text = "`" + value + "`. " + text
	}
	for _, name := range slices.Sorted(maps.Keys(h.Variables)) {
		text += " {" + name + "} is: " + h.Variables[name].Description
	}
	return text
}

// slugOfServer returns the slug for a name such as io.github.someone/weather.
func slugOfServer(name string) string {
	_, last, found := strings.Cut(name, "/")
	if !found {
		last = name
	}
	slug := strings.Trim(notSlug.ReplaceAllString(strings.ToLower(last), "-"), "-")
	return cmp.Or(slug[:min(len(slug), maxSlug)], "server")
}

var notSlug = regexp.MustCompile(`[^a-z0-9_-]+`)

// environmentName returns text as the name of an environment variable.
func environmentName(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(text))
}

// printable returns text with spaces in place of control characters.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
}

// shorten returns the beginning of text of at most n bytes, without control characters.
func shorten(text string, n int) string {
	text = printable(text)
	return strings.ToValidUTF8(text[:min(len(text), n)], "")
}
