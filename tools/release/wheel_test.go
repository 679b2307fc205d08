package main

import "testing"

func TestPythonVersion(t *testing.T) {
	t.Parallel()
	for semantic, want := range map[string]string{
		"1.2.3": "1.2.3", "1.2.3-rc.1": "1.2.3rc1", "1.2.3-beta": "1.2.3b0", "1.2.3-alpha.2": "1.2.3a2",
		"1.2.3-5-gabcdef0": "1.2.3.post5+gabcdef0", "1.2.3-5-gabcdef0-dirty": "1.2.3.post5+gabcdef0.dirty",
		"0.1.0-dev": "0.1.0.dev0", "0.1.0-dev+abc.dirty": "0.1.0.dev0+abc.dirty", "1.2.3-preview.4": "1.2.3.dev0+preview.4",
	} {
		if got := pythonVersion(semantic); got != want {
			t.Errorf("%s is %s, want %s", semantic, got, want)
		}
	}
}
