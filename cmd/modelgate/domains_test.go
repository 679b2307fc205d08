package main

import (
	"strings"
	"testing"
)

func TestOperatorVerifiesADomain(t *testing.T) {
	data := t.TempDir()
	invoke(t, nil, "", "organisations", "list", "--data", data) // makes the database
	for range 2 {                                               // again changes nothing
		if code, out, errs := invoke(t, nil, "", "domains", "verify", "--data", data, "--name", "Example.COM"); code != 0 || out != "example.com is verified\n" {
			t.Fatalf("exit %d: %s%s", code, out, errs)
		}
	}
	for name, tt := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no such organisation": {[]string{"verify", "--data", data, "--name", "example.org", "--organisation", "x"}, 1, `"x" not found`},
		"no domain":            {[]string{"verify", "--data", data, "--name", "example"}, 2, "is not a domain"},
		"no name":              {[]string{"verify", "--data", data}, 2, "--name"},
		"nothing to do":        {nil, 2, "verify"},
		"unknown":              {[]string{"remove"}, 2, "unknown subcommand"},
	} {
		if code, _, errs := invoke(t, nil, "", append([]string{"domains"}, tt.args...)...); code != tt.code || !strings.Contains(errs, tt.says) {
			t.Errorf("%s: exit %d: %s", name, code, errs)
		}
	}
}
