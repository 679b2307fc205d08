package toolserver_test

import (
	"strings"
	"testing"

	"modelgate/internal/provider/toolserver"
)

func TestExpandAddress(t *testing.T) {
	values := map[string]string{"a": "x", "b": "{a}", "long": strings.Repeat("l", 60), "empty": ""}
	for address, want := range map[string]string{
		"https://{a}.example.com/{b}": "https://x.example.com/{a}", "{c}{a}": "{c}x", "{{a}}": "{x}", "}{a}{": "}x{", "{empty}": "", "": "",
		"{long}": values["long"], "{long}{a}{long}": "too long", "{long}" + strings.Repeat("l", 41): "too long", strings.Repeat("{empty}", 15): "too long",
	} {
		got, ok := toolserver.ExpandAddress(address, 100, func(name string) (string, bool) {
			v, ok := values[name]
			return v, ok
		})
		if !ok {
			got = "too long"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}

// TestExpandAddressStopsAtItsLimit has an address whose expansion would take gigabytes.
func TestExpandAddressStopsAtItsLimit(t *testing.T) {
	asked, text := 0, strings.Repeat("x", 1<<10)
	_, ok := toolserver.ExpandAddress(strings.Repeat("{a}", 3000), 16<<10, func(string) (string, bool) {
		asked++
		return text, true
	})
	if ok || asked != 17 {
		t.Errorf("it stopped after %d variables: %t", asked, !ok)
	}
}
