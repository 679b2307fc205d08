package settings

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"modelgate/internal/base/secret"
)

// Tools configures tool servers.
type Tools struct {
	// Origins are the origins of pages that may send requests to tool servers from browsers.
	Origins []string `json:"origins,omitempty" maxItems:"100" doc:"Origins of pages that may use tool servers, such as https://app.example.com"`
	// Prefix says when the slug of a server comes before the names of its items at an address of
	// several servers.
	Prefix string `json:"prefix,omitempty" enum:",always,needed" doc:"Defaults to always. With needed, items keep their names where a key may use one server only"`
	// SSE serves the transport of the revision 2024-11-05 too.
	SSE bool `json:"sse,omitempty" doc:"Clients may use the transport HTTP+SSE of the revision 2024-11-05. All requests of a client must reach the same node"`
	// SearchAbove is how many tools the address of all servers lists at most; zero lists all.
	SearchAbove int `json:"search_above,omitempty" minimum:"1" maximum:"5000" doc:"Replaces the list of /mcp by tools for searching if it has more tools. By default all are listed."`
	// Commands are the programs that integrations with the transport stdio may name.
	Commands map[string]ToolCommand `json:"commands,omitempty" maxProperties:"100"`
}

// ToolCommand is a program that serves tools by its standard input and output.
type ToolCommand struct {
	Path string   `json:"path" maxLength:"4096" doc:"Absolute path of the program; no shell is involved"`
	Args []string `json:"args,omitempty" maxItems:"100"`
	// Env is the environment, in addition to PATH and HOME. Values may be "${NAME}" or the
	// output of `modelgate seal`.
	Env map[string]string `json:"env,omitempty" maxProperties:"100"`
	Dir string            `json:"dir,omitempty" maxLength:"4096" doc:"Absolute path of the folder in which it runs; an empty one by default"`
	// MaxProcesses is how many run at the same time. Default 16.
	MaxProcesses int `json:"max_processes,omitempty" minimum:"0" maximum:"1000"`

	env map[string]secret.String // opened
}

// Environment returns the environment of the program, with opened credentials.
func (c *ToolCommand) Environment() map[string]secret.String { return c.env }

var (
	commandName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	envName     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,255}$`)
)

func (t *Tools) check(o SecretResolver) *fault {
	for i, origin := range t.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || origin != u.Scheme+"://"+u.Host {
			return at(errors.New("must be an origin such as https://app.example.com, without a path"), "tools.origins[%d]", i)
		}
	}
	for name, c := range t.Commands {
		if f := c.check(name, o); f != nil {
			return f
		}
		t.Commands[name] = c
	}
	return nil
}

func (c *ToolCommand) check(name string, o SecretResolver) *fault {
	path := "tools.commands." + name
	switch {
	case !commandName.MatchString(name):
		return at(fmt.Errorf("the name %.80q must have 1 to 64 letters, digits, dashes and underscores", name), "tools.commands")
	case !filepath.IsAbs(c.Path):
		return at(errors.New("must be an absolute path"), "%s.path", path)
	case c.Dir != "" && !filepath.IsAbs(c.Dir):
		return at(errors.New("must be an absolute path"), "%s.dir", path)
	}
	for i, arg := range c.Args {
		if strings.ContainsRune(arg, 0) {
			return at(errors.New("must not contain a NUL"), "%s.args[%d]", path, i)
		}
	}
	c.env = make(map[string]secret.String, len(c.Env))
	for key, value := range c.Env {
		if !envName.MatchString(key) {
			return at(fmt.Errorf("%.80q is not the name of a variable", key), "%s.env", path)
		}
		c.env[key] = secret.New(value)
		if !isReference(value) {
			continue
		}
		var err error
		if c.env[key], err = o.Open(value); err != nil {
			return at(err, "%s.env.%s", path, key)
		}
	}
	return nil
}
