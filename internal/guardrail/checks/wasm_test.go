package checks_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"modelgate/internal/guardrail/checks"
)

// assemble returns a WASM module with fd_read and fd_write of WASI, a page of
// memory with data at 64, and _start with the given instructions. Iovecs at 0 and
// 8 are the data and a buffer at 4096.
func assemble(data string, code ...byte) []byte {
	section := func(id byte, content ...byte) []byte {
		return append(append([]byte{id}, leb(len(content))...), content...)
	}
	name := func(s string) []byte { return append(leb(len(s)), s...) }
	join := func(list ...[]byte) (all []byte) {
		for _, b := range list {
			all = append(all, b...)
		}
		return all
	}
	word := func(n int) []byte { return []byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)} }
	memory := string(join(word(64), word(len(data)), word(4096), word(60000), make([]byte, 48), []byte(data)))
	function := append(append([]byte{0}, code...), 0x0b)
	return join([]byte("\x00asm\x01\x00\x00\x00"),
		section(1, 2, 0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f, 0x60, 0, 0), // (i32 i32 i32 i32)->i32, ()->()
		section(2, join([]byte{2}, name("wasi_snapshot_preview1"), name("fd_read"), []byte{0, 0}, name("wasi_snapshot_preview1"), name("fd_write"), []byte{0, 0})...),
		section(3, 1, 1),
		section(5, 1, 0, 1),
		section(7, join([]byte{2}, name("memory"), []byte{2, 0}, name("_start"), []byte{0, 2})...),
		section(10, join([]byte{1}, leb(len(function)), function)...),
		section(11, join([]byte{1, 0, 0x41, 0, 0x0b}, name(memory))...))
}

func leb(n int) (b []byte) {
	for n >= 0x80 {
		b, n = append(b, byte(n)|0x80), n>>7
	}
	return append(b, byte(n))
}

// call calls fd_read (0) or fd_write (1) with one iovec, and drops the result.
func call(function, fd, iovec byte) []byte {
	return []byte{0x41, fd, 0x41, iovec, 0x41, 1, 0x41, 16, 0x10, function, 0x1a}
}

var (
	write = call(1, 1, 0)
	loop  = []byte{0x03, 0x40, 0x0c, 0, 0x0b}
	// Grow by 100 pages until it is refused, then trap.
	allocate = []byte{0x03, 0x40, 0x41, 0xe4, 0, 0x40, 0, 0x41, 0x7f, 0x47, 0x0d, 0, 0x0b, 0x00}
	// Write forever.
	flood = append(append([]byte{0x03, 0x40}, write...), 0x0c, 0, 0x0b)
	// Read the input to 4096, then set the length of its iovec and write it.
	echo = append(append(call(0, 0, 8), 0x41, 12, 0x41, 16, 0x28, 2, 0, 0x36, 2, 0), call(1, 1, 8)...)
)

func TestModulesDecide(t *testing.T) {
	for _, tt := range []struct {
		name, data string
		code       []byte
		want       string
		message    string
	}{
		{"passes", `{"verdict":true}`, write, "passed", ""},
		{"fails", `{"verdict":false,"data":{"why":"x"}}`, write, "failed", ""},
		{"no verdict", `{"verdict":"yes"}`, write, "error", "not the expected JSON"},
		{"nothing", ``, nil, "error", "not the expected JSON"},
		{"echoes", ``, echo, "error", `no boolean "verdict"`},
		{"trap", ``, []byte{0x00}, "error", "trap"},
		{"loops", ``, loop, "error", "did not end within 200 ms"},
		{"allocates", ``, allocate, "error", "trap"},
		{"floods", strings.Repeat("x", 60000), flood, "error", "larger than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code := base64.StdEncoding.EncodeToString(assemble(tt.data, tt.code...))
			limit := map[bool]string{true: "200", false: "30000"}[tt.name == "loops"]
			r, _ := run(t, checks.Services{}, text(before, "hi"), "default.wasm", `{"code":"`+code+`","timeout":`+limit+`,"parameters":{"a":1}}`)
			if resultOf(r) != tt.want || tt.message != "" && !strings.Contains(r.Error.Message, tt.message) {
				t.Errorf("result = %s %v %v, want %s %s", resultOf(r), r.Data, r.Error, tt.want, tt.message)
			}
		})
	}
}

func TestModulesThatCannotRunAreRefused(t *testing.T) {
	foreign := []byte(strings.ReplaceAll(string(assemble("", write...)), "wasi_snapshot_preview1", "wasi_snapshot_preview9"))
	big := []byte(strings.Replace(string(assemble("", write...)), "\x05\x03\x01\x00\x01", "\x05\x04\x01\x00\x81\x08", 1)) // 1,025 pages
	for name, params := range map[string]string{
		"no WASM": `{"code":"AAAA"}`, "no base64": `{"code":"?"}`, "neither": `{}`, "both": `{"code":"AAAA","module":"m"}`,
		"foreign import": `{"code":"` + base64.StdEncoding.EncodeToString(foreign) + `"}`,
		"memory":         `{"code":"` + base64.StdEncoding.EncodeToString(big) + `"}`,
	} {
		if _, faults := checks.New(checks.Services{}).Check("p", checkOf("default.wasm", object(t, params)), before); len(faults) != 1 || faults[0].Path != "p.code" {
			t.Errorf("%s = %v, want a fault at p.code", name, faults)
		}
	}
}

// Checks that could never run are refused, as they would let everything pass.
func TestChecksWithoutTheirServiceAreRefused(t *testing.T) {
	if _, faults := checks.New(checks.Services{}).Check("p", checkOf("default.wasm", object(t, `{"module":"stored"}`)), before); len(faults) != 1 || !strings.Contains(faults[0].Message, "only in a saved guardrail") {
		t.Errorf("%v, want one fault", faults)
	}
}
