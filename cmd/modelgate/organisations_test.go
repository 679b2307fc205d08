package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAnOrganisationIsMadeOnce(t *testing.T) {
	data := t.TempDir()
	code, out, errs := invoke(t, nil, "", "organisations", "create", "--data", data, "--name", "Acme Inc", "--slug", "acme", "--json")
	var made map[string]string
	if err := json.Unmarshal([]byte(out), &made); code != 0 || err != nil || made["slug"] != "acme" || !strings.HasPrefix(made["claim_link"], "/claim?token=mgl-") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if code, out, _ := invoke(t, nil, "", "organisations", "list", "--data", data); code != 0 || !strings.Contains(out, made["id"]) || strings.Contains(out, "mgl-") || strings.Count(out, "\n") != 3 {
		t.Errorf("exit %d, listed %s", code, out)
	}
	for name, tt := range map[string]struct {
		args []string
		code int
		says string
	}{
		"a slug that is taken": {[]string{"create", "--data", data, "--name", "x", "--slug", "acme"}, 1, `"acme" already`},
		"no slug":              {[]string{"create", "--data", data, "--name", "x"}, 2, "--slug"},
		"a bad slug":           {[]string{"create", "--data", data, "--name", "x", "--slug", "a b"}, 2, "--slug"},
		"no name":              {[]string{"create", "--data", data, "--slug", "x"}, 2, "--name"},
		"nothing to do":        {nil, 2, "create, list, show or update"},
		"something else":       {[]string{"remove"}, 2, `"remove"`},
	} {
		if code, _, errs := invoke(t, nil, "", append([]string{"organisations"}, tt.args...)...); code != tt.code || !strings.Contains(errs, tt.says) {
			t.Errorf("%s: exit %d: %s", name, code, errs)
		}
	}
}
