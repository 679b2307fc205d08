package checks

import (
	"encoding/binary"
	"strings"
	"testing"
)

// functionOf returns a code section with one function with local variables.
func functionOf(locals int, code string) string {
	body := string(binary.AppendUvarint([]byte{1}, uint64(locals))) + "\x7f" + code + "\x0b"
	return "\x0a\x01" + string(binary.AppendUvarint(nil, uint64(len(body)))) + body
}

func TestFunctionsAreInspected(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("\x03\x40", n) + strings.Repeat("\x0b", n) }
	for name, tt := range map[string]struct {
		code string
		want string // in the error; empty for none
	}{
		"many variables":                 {functionOf(maxLocals, ""), ""},
		"too many variables":             {functionOf(maxLocals+1, ""), "local variables"},
		"deep":                           {functionOf(500, nested(1000)), ""},
		"too deep for its variables":     {functionOf(600, nested(1000)), "nested blocks"},
		"one after another":              {functionOf(600, strings.Repeat(nested(10), 100)), ""},
		"opens behind operands":          {functionOf(600, strings.Repeat("\x41\x03\x1a", 1000)), ""}, // i32.const 3
		"vectors":                        {functionOf(1, strings.Repeat("\xfd\x0c"+strings.Repeat("\x03", 16)+"\x1a", 1000)), ""},
		"lanes":                          {functionOf(1, "\xfd\x0c"+strings.Repeat("\x0b", 16)+"\xfd\x1b\x03\x1a"), ""},
		"floats":                         {functionOf(1, "\x43\x02\x03\x04\x0b\x1a\x44\x02\x03\x04\x0b\x02\x03\x04\x0b\x1a"), ""},
		"branches by table":              {functionOf(1, "\x02\x40\x41\x00\x0e\x02\x00\x00\x00\x0b"), ""},
		"select with a type":             {functionOf(1, "\x41\x01\x41\x02\x41\x03\x1c\x01\x7f\x1a"), ""},
		"numbers of ten bytes":           {functionOf(1, "\x42\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f\x1a"), ""},
		"saturated conversions":          {functionOf(1, "\x43\x00\x00\x00\x00\xfc\x00\x1a"), ""},
		"references":                     {functionOf(1, "\xd0\x70\xd1\x1a\xd2\x00\x1a"), ""},
		"code after the end":             {functionOf(1, "\x0b\x01"), "must be a WebAssembly module"},
		"instructions of later versions": {functionOf(1, "\x06\x40\x0b"), "instructions of WebAssembly 2.0"},
		"bulk of later versions":         {functionOf(1, "\xfc\x20"), "instructions of WebAssembly 2.0"},
		"vectors of later versions":      {functionOf(1, "\xfd\x80\x02"), "instructions of WebAssembly 2.0"},
	} {
		_, err := new(Modules).Check("o", moduleOf(emptyType, oneOfIt, startFirst, "\x09\x01\x03\x00\x01\x00", tt.code))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
