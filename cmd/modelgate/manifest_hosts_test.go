package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestApplyTrustsTheHostsOfTheSettingsFile(t *testing.T) {
	dir := t.TempDir()
	state, config := filepath.Join(dir, "state.yaml"), filepath.Join(dir, "modelgate.yaml")
	for file, text := range map[string]string{
		state:  "integrations: [{slug: a, provider: openai-compatible, custom_host: \"http://10.1.2.3/v1\"}]\n",
		config: "version: 1\nupstream: {trusted_hosts: [10.1.2.3]}\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "data")
	if code, out, errs := invoke(t, nil, "", "apply", "--data", data, state); code == 0 || !strings.Contains(errs, "trusted_hosts") {
		t.Errorf("without the settings file: exit %d, %s%s", code, out, errs)
	}
	if code, out, errs := invoke(t, nil, "", "apply", "--data", data, "--config", config, state); code != 0 {
		t.Errorf("with the settings file: exit %d, %s%s", code, out, errs)
	}
}
