package security

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// wasmNumber returns n as modules write it.
func wasmNumber(n int) string { return string(binary.AppendUvarint(nil, uint64(n))) }

// wasmSection returns a section of a module.
func wasmSection(id, content string) string { return id + wasmNumber(len(content)) + content }

// wasmModule returns a module, in base64, whose functions are all the same: with local
// variables and instructions, of the given type.
func wasmModule(functions, locals int, code, kind string) string {
	body := "\x01" + wasmNumber(locals) + "\x7f" + code + "\x0b"
	body = wasmNumber(len(body)) + body
	return base64.StdEncoding.EncodeToString([]byte("\x00asm\x01\x00\x00\x00" + wasmSection("\x01", "\x02\x60\x00\x00"+kind) +
		wasmSection("\x03", wasmNumber(functions+1)+"\x00"+strings.Repeat("\x01", functions)) + wasmSection("\x07", "\x01\x06_start\x00\x00") +
		wasmSection("\x0a", wasmNumber(functions+1)+"\x02\x00\x0b"+strings.Repeat(body, functions))))
}

// readLocals returns instructions that read n local variables.
func readLocals(n int) string {
	var code []byte
	for i := range n {
		code = append(binary.AppendUvarint(append(code, 0x20), uint64(i)), 0x1a)
	}
	return string(code)
}

// nested returns code in n blocks that begin with open.
func nested(n int, open, code string) string {
	return strings.Repeat(open, n) + code + strings.Repeat("\x0b", n)
}

// expensiveModules take gigabytes or minutes to compile, each with what its refusal says.
func expensiveModules() []struct{ name, code, want string } {
	const none = "\x60\x00\x00"
	values := func(n int) string { return wasmNumber(n) + strings.Repeat("\x7f", n) }
	results := strings.Repeat("\x41\x00", 5000)
	return []struct{ name, code, want string }{
		{"four billion local variables", wasmModule(1, 1<<32-1, "", none), "local variables"},
		{"fifty thousand local variables", wasmModule(1, 50_000, "", none), "local variables"},
		{"many functions of twenty thousand local variables", wasmModule(20_000, 20_000, "", none), "in all functions"},
		{"loops around local variables", wasmModule(1, 3000, nested(3000, "\x03\x40", readLocals(3000)), none), "nested blocks"},
		{"branches around local variables", wasmModule(1, 2000, nested(3000, "\x41\x00\x04\x40", readLocals(5000)), none), "nested blocks"},
		{"blocks around local variables", wasmModule(1, 3000, nested(3000, "\x02\x40", readLocals(3000)), none), "nested blocks"},
		{"blocks with a type", wasmModule(1, 3000, nested(3000, "\x03\x00", readLocals(3000)), none), "nested blocks"},
		{"loops behind long numbers", wasmModule(1, 3000, nested(3000, "\x41\x83\x80\x80\x80\x00\x1a\x03\x40", readLocals(3000)), none), "nested blocks"},
		{"deep loops without variables", wasmModule(1, 0, nested(40_000, "\x03\x40", ""), none), "nested blocks"},
		{"loops around parameters", wasmModule(1, 0, nested(2000, "\x03\x40", readLocals(900)), "\x60"+values(900)+"\x00"), "nested blocks"},
		{"many parameters", wasmModule(1, 0, "", "\x60"+values(5000)+"\x00"), "parameters"},
		{"many results", wasmModule(1, 0, results, "\x60\x00"+values(5000)), "results"},
		{"unknown instructions", wasmModule(1, 1, "\x06\x40\x0b", none), "instructions"},
	}
}

// TestExpensiveModulesAreNotCompiled saves and sends modules that would take all memory or
// processors, in every place that takes one.
func TestExpensiveModulesAreNotCompiled(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	key := g.key(t, rootKey, "default", []string{"completions.write", "guardrails.create"}, "")
	check := func(code string) string {
		return fmt.Sprintf(`{"id":"default.wasm","parameters":{"code":%q}}`, code)
	}
	for _, m := range expensiveModules() {
		for _, place := range []struct {
			name string
			send func() response
		}{
			{"uploaded", func() response {
				return g.as(t, rootKey, "POST", "/v1/guardrail-modules", fmt.Sprintf(`{"name":"m","workspace_id":"default","code":%q}`, m.code))
			}},
			{"in a saved guardrail", func() response {
				return g.as(t, rootKey, "POST", "/v1/guardrails", fmt.Sprintf(`{"name":"g","workspace_id":"default","checks":[%s],"actions":{}}`, check(m.code)))
			}},
			{"in a saved config", func() response {
				return g.as(t, rootKey, "POST", "/v1/configs", fmt.Sprintf(`{"name":"c","workspace_id":"default","config":{"provider":"openai","input_guardrails":[{"default.wasm":{"code":%q}}]}}`, m.code))
			}},
			{"tested", func() response {
				return g.as(t, rootKey, "POST", "/v1/guardrails/test", fmt.Sprintf(`{"workspace_id":"default","checks":[%s],"actions":{},"on":"request","text":"x"}`, check(m.code)))
			}},
			{"in a config of a request", func() response {
				return g.do(t, "POST", "/v1/chat/completions", chatBody, "x-gateway-api-key", key, "x-gateway-config", fmt.Sprintf(`{"provider":"openai","input_guardrails":[{"default.wasm":{"code":%q}}]}`, m.code))
			}},
		} {
			if strings.Contains(place.name, "config") && len(m.code) > 60<<10 {
				continue // longer than configs may be
			}
			attack(t, "exhaustion", "a module, "+place.name+", with "+m.name, func(t *testing.T) {
				var r response
				grown := g.peakMemory(t, func() { r = place.send() })
				if r.status < 400 || r.status >= 500 || !strings.Contains(string(r.body), m.want) {
					t.Errorf("status %d: %.300s, want %q", r.status, r.body, m.want)
				}
				if grown > 100<<20 {
					t.Errorf("the gateway took %d MB", grown>>20)
				}
			})
		}
	}
}

// TestCompiledModulesAreKept restarts a gateway, and puts other machine code into its
// folder, as someone could who writes there but does not have the master key.
func TestCompiledModulesAreKept(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g, p := launch(t, o), newProvider(t, nil)
		key := g.key(t, rootKey, "default", []string{"completions.write"}, "")
		g.as(t, rootKey, "POST", "/v1/guardrail-modules", fmt.Sprintf(`{"name":"m","slug":"fails","workspace_id":"default","code":%q}`, failingModule)).ok(t)
		slug := g.create(t, rootKey, "/v1/guardrails", `{"name":"g","workspace_id":"default","checks":[{"id":"default.wasm","parameters":{"module":"fails","failOnError":true,"timeout":30000}}],"actions":{"deny":true}}`, "slug")
		status := func() int {
			config := fmt.Sprintf(`{"provider":"openai-compatible","custom_host":%q,"api_key":"sk-x","input_guardrails":[%q]}`, p.url, slug)
			return g.do(t, "POST", "/v1/chat/completions", chatBody, "x-gateway-api-key", key, "x-gateway-config", config).status
		}
		waittest.Until(t, "the guardrail applies", func() bool { return status() == 446 })
		file := g.onlyModule(t)
		first := mustStat(t, file)
		if dir := mustStat(t, filepath.Dir(file)); first.Mode().Perm() != 0o600 || dir.Mode().Perm() != 0o700 {
			t.Errorf("the file has the mode %o and its folder %o, want 600 and 700", first.Mode().Perm(), dir.Mode().Perm())
		}
		g.restart(t)
		if got := status(); got != 446 || !os.SameFile(first, mustStat(t, g.onlyModule(t))) {
			t.Errorf("after a restart: status %d, want 446, and the module was compiled again", got)
		}
		planted := mustReadFile(t, file)
		for _, tt := range []struct {
			name   string
			change func([]byte) []byte
		}{
			{"changed", func(b []byte) []byte { b[len(b)-64] ^= 1; return b }},
			{"changed with a new checksum", func(b []byte) []byte { return append(make([]byte, 32), b[32:]...) }},
			{"cut", func(b []byte) []byte { return b[:len(b)/2] }},
			{"empty", func([]byte) []byte { return nil }},
			{"text", func([]byte) []byte { return []byte(strings.Repeat("machine code", 100)) }},
		} {
			attack(t, "injection", "planted machine code of a module: "+tt.name, func(t *testing.T) {
				other := tt.change(bytes.Clone(planted))
				if err := os.WriteFile(file, other, 0o600); err != nil {
					t.Fatal(err)
				}
				g.restart(t)
				if got := status(); got != 446 || bytes.Equal(mustReadFile(t, g.onlyModule(t)), other) {
					t.Errorf("status %d, want 446, and the planted file replaced", got)
				}
			})
		}
		g.as(t, rootKey, "DELETE", "/v1/guardrails/"+slug, "").ok(t)
		g.as(t, rootKey, "DELETE", "/v1/guardrail-modules/fails", "").ok(t)
		waittest.Until(t, "the machine code is removed with its module", func() bool {
			left, err := filepath.Glob(filepath.Join(g.data, "modules", "*"))
			return err == nil && len(left) == 0
		})
	})
}

// onlyModule returns the file with machine code.
func (g *gateway) onlyModule(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(g.data, "modules", "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the folder of modules has %q, %v, want one file", found, err)
	}
	return found[0]
}

func mustStat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func mustReadFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
