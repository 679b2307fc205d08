package documents_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/testing/storetest"
)

// guide is what a page needs before its first block, next to the gateway that every page has.
type guide struct {
	before string   // commands of the machine, with $MODELGATE_URL and the key of an administrator
	fill   []string // what the page leaves to its reader, each with the text for it
	bare   bool     // the page starts its gateway, or needs none
	// There is a PostgreSQL server with TLS; its address is in $POSTGRES.
	postgres bool
	// Blocks that show an error: a part of their text, and what they print.
	errors map[string]string
}

// exemption is a block that no test runs.
type exemption struct {
	page, first string // its first line
	reason      string
}

// world is on the gateway of every guide: a demo, with a session of its owner in $SESSION.
const world = `
export MODELGATE_MASTER_KEY=0123456789abcdef0123456789abcdef MODELGATE_BOOTSTRAP_KEY=` + adminKey + `
export MODELGATE_URL=http://127.0.0.1:8787
printf 'version: 1\npublic_url: https://gateway.example.com\n' >modelgate.yaml
modelgate demo --data data --config modelgate.yaml >gateway.log 2>&1 &
modelgate healthcheck --wait 60s >healthcheck.log
LINK=$(modelgate claim --data data | grep -o 'mgl-[A-Za-z0-9_-]*' | head -n 1)
SESSION=$(curl -s $MODELGATE_URL/v1/auth/claim -H "content-type: application/json" -d '{"token": "'$LINK'", "email": "you@example.com",
  "password": "a long password of yours"}' | jq -r .token)
`

// start starts the machine of a page, with its gateway.
func (g guide) start(t *testing.T, name string) *machine {
	m := start(t, "a reader of "+name)
	if err := os.Mkdir(filepath.Join(m.home, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Abs("../../deploy")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink(program, filepath.Join(m.home, "bin/modelgate")), os.Symlink(sources, filepath.Join(m.home, "deploy"))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(m.home, "gateway.log"))
			t.Logf("its gateway: %s", log[max(0, len(log)-2000):])
		}
	})
	m.write(t, "admin.key", adminKey+"\n")
	if g.postgres {
		s := storetest.NewServer(t)
		certificate, key := trusted(t).Issue(t, "db.internal")
		s.Reconfigure(t, storetest.TLSOnly, certificate, key, trusted(t).PEM)
		m.write(t, "/etc/modelgate/ca.pem", trusted(t).PEM)
		m.run(t, "POSTGRES='"+strings.NewReplacer("127.0.0.1", "db.internal", "?sslmode=prefer", "").Replace(s.DSN())+"'")
	}
	if !g.bare {
		m.run(t, world)
	}
	m.run(t, g.before)
	if !g.bare { // what the page itself has to set
		m.run(t, "unset MODELGATE_URL MODELGATE_BOOTSTRAP_KEY MODELGATE_MASTER_KEY LINK")
	}
	return m
}

// fillIn puts what a reader fills in into the blocks of a page: here and on every page.
func (g guide) fillIn() *strings.Replacer {
	return strings.NewReplacer(append(slices.Clone(g.fill), "TOKEN=mgs-...", "TOKEN=$SESSION", "=mg-...", "="+adminKey)...)
}

// TestGuides runs the blocks of all pages that have no test of their own, each page from its top to
// its end on a gateway of its own.
func TestGuides(t *testing.T) {
	serveInternet(t)
	for _, name := range pages(t) {
		if isTask(name) || elsewhere[name] != "" {
			continue
		}
		p := parse(name, read(t, name))
		if !slices.ContainsFunc(p.sections, func(s *section) bool {
			return slices.ContainsFunc(s.scripts(), func(b block) bool { return exempted(name, b) == nil })
		}) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			g := guides[name]
			m := g.start(t, name)
			edit := g.fillIn()
			for _, s := range p.sections {
				for _, b := range s.scripts() {
					if exempted(name, b) != nil {
						continue
					}
					g.runBlock(t, m, b, edit.Replace(b.text))
				}
			}
		})
	}
}

// runBlock runs a block of commands of a page.
func (g guide) runBlock(t *testing.T, m *machine, b block, text string) {
	t.Helper()
	want := g.errorOf(b)
	if want != "" {
		text = "set +e +o pipefail; LENIENT=\n" + strings.TrimRight(text, "\n") + "\nset -e -o pipefail; unset LENIENT\n"
	}
	script := background(text)
	out := m.run(t, strings.Replace(script, "LENIENT=\n", "export LENIENT=\n", 1))
	t.Logf("line %d: %s\n%s", b.line, b.text, out)
	if want != "" {
		wants(t, firstLine(b.text), out, want)
	}
	if script != text && strings.Contains(b.text, "--listen ") || strings.Contains(b.text, "serve") && script != text {
		m.run(t, "modelgate healthcheck --wait 60s --listen "+listenOf(b.text))
	}
}

// errorOf returns what a block that shows an error prints, empty for others.
func (g guide) errorOf(b block) string {
	for part, want := range g.errors {
		if strings.Contains(b.text, part) {
			return want
		}
	}
	return ""
}

// firstLine returns the first line of a text.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// listenOf returns the address of a program that a block starts.
func listenOf(script string) string {
	if _, rest, ok := strings.Cut(script, "--listen "); ok {
		address, _, _ := strings.Cut(strings.Fields(rest)[0], " ")
		return address
	}
	return "127.0.0.1:8787"
}

// pages returns the names of all pages with blocks, as read takes them.
func pages(t *testing.T) (list []string) {
	t.Helper()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := filepath.Base(file); name != "README.md" {
			list = append(list, name)
		}
	}
	return append(list, "../README.md")
}

// exempted returns the exemption of a block, nil without one.
func exempted(page string, b block) *exemption {
	for i, e := range exemptions {
		if e.page == page && e.first == firstLine(b.text) {
			return &exemptions[i]
		}
	}
	return nil
}
