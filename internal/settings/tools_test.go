package settings_test

import (
	"strings"
	"testing"

	"modelgate/internal/settings"
)

func TestToolSettingsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"tools: {origins: ['https://app.example.com', 'http://localhost:3000']}\n":                                          "",
		"tools: {origins: ['https://app.example.com/']}\n":                                                                  "tools.origins[0]",
		"tools: {origins: ['*']}\n":                                                                                         "tools.origins[0]",
		"tools: {commands: {files: {path: /usr/bin/files, args: [--root, /srv], env: {LEVEL: info, TOKEN: '${TOKEN}'}}}}\n": "",
		"tools: {prefix: needed, sse: true}\n":                                                                              "",
		"tools: {prefix: never}\n":                                                                                          "tools.prefix",
		"tools: {commands: {files: {path: files}}}\n":                                                                       "tools.commands.files.path",
		"tools: {commands: {files: {path: /f, dir: here}}}\n":                                                               "tools.commands.files.dir",
		"tools: {commands: {'a b': {path: /f}}}\n":                                                                          "tools.commands",
		"tools: {commands: {files: {path: /f, env: {'A=B': x}}}}\n":                                                         "tools.commands.files.env",
		"tools: {commands: {files: {path: /f, env: {TOKEN: '${ABSENT}'}}}}\n":                                               "ABSENT",
		"tools: {commands: {files: {path: /f, shell: true}}}\n":                                                             "shell",
	} {
		got, err := settings.Parse("modelgate.yaml", []byte(text), settings.SecretResolver{Env: func(name string) (string, bool) { return "secret value", name == "TOKEN" }})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if strings.Contains(text, "LEVEL") && err == nil {
			c := got.Tools.Commands["files"]
			if env := c.Environment(); env["TOKEN"].Reveal() != "secret value" || env["LEVEL"].Reveal() != "info" {
				t.Errorf("the environment is %v", env)
			}
		}
	}
}
