package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
)

// starter runs the binary of the platform's package with the arguments, and passes signals on.
//
//go:embed npm.js
var starter []byte

// nodePlatforms are the platforms as Node names them.
var nodePlatforms = map[platform][2]string{
	{"linux", "amd64"}: {"linux", "x64"}, {"linux", "arm64"}: {"linux", "arm64"},
	{"darwin", "amd64"}: {"darwin", "x64"}, {"darwin", "arm64"}: {"darwin", "arm64"},
	{"windows", "amd64"}: {"win32", "x64"}, {"windows", "arm64"}: {"win32", "arm64"},
}

// manifest is a package.json.
type manifest struct {
	Name         string            `json:"name"`
	Version      string            `json:"version"`
	Description  string            `json:"description"`
	License      string            `json:"license"`
	OS           []string          `json:"os,omitempty"`
	CPU          []string          `json:"cpu,omitempty"`
	Bin          map[string]string `json:"bin,omitempty"`
	Optional     map[string]string `json:"optionalDependencies,omitempty"`
	PreferUnplug bool              `json:"preferUnplugged,omitempty"` // Yarn cannot run a program in an archive
}

// buildNodePackages builds a package with the binary for each platform, of which npm installs the one that
// fits, and one that starts it.
func (r *release) buildNodePackages(context.Context) error {
	terms, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	all := map[string]string{}
	for _, p := range r.platforms {
		node := nodePlatforms[p]
		m := manifest{Name: fmt.Sprintf("@modelgate/%s-%s", node[0], node[1]), Version: r.version,
			Description: "The binary of modelgate for " + node[0] + " " + node[1],
			License:     "Apache-2.0", OS: node[:1], CPU: node[1:], PreferUnplug: true}
		all[m.Name] = r.version
		binary, err := os.ReadFile(r.binary(p))
		if err != nil {
			return err
		}
		name := "modelgate"
		if p.os == "windows" {
			name += ".exe"
		}
		if err := r.pack(m, fmt.Sprintf("npm-modelgate-%s-%s-%s.tgz", node[0], node[1], r.version),
			entry{"bin/" + name, 0o755, binary}, entry{"LICENSE", 0o644, terms}); err != nil {
			return err
		}
	}
	m := manifest{Name: "modelgate", Version: r.version, Description: summary, License: "Apache-2.0",
		Bin: map[string]string{"modelgate": "modelgate.js"}, Optional: all}
	return r.pack(m, fmt.Sprintf("npm-modelgate-%s.tgz", r.version), entry{"modelgate.js", 0o755, starter}, entry{"LICENSE", 0o644, terms})
}

// pack writes a package for npm.
func (r *release) pack(m manifest, name string, entries ...entry) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	content, err := tarball(append([]entry{{"package.json", 0o644, append(text, '\n')}}, entries...), r.time)
	return r.write(name, content, err)
}
