package toolserver_test

import (
	"strings"
	"testing"

	"modelgate/internal/provider/toolserver"
)

func TestADigestIsOfWhatADefinitionMeans(t *testing.T) {
	const definition = `{"name":"create","description":"Creates\nan issue","inputSchema":{"type":"object","maxItems":10,"required":["a","b"]},"annotations":{"readOnlyHint":false}}`
	want := toolserver.Digest([]byte(definition))
	for name, same := range map[string]string{
		"white space":          strings.NewReplacer(`,"`, ",\n  \"", `":`, `" : `).Replace(definition),
		"the order of members": `{"annotations":{"readOnlyHint":false},"inputSchema":{"required":["a","b"],"maxItems":10,"type":"object"},"description":"Creates\nan issue","name":"create"}`,
		"escapes":              strings.Replace(strings.Replace(definition, "Creates", `\u0043reates`, 1), "an issue", `an\u0020issue`, 1),
		"spelling of a number": strings.Replace(definition, ":10,", ":1.00e1,", 1),
	} {
		if got := toolserver.Digest([]byte(same)); got != want {
			t.Errorf("%s changes the digest", name)
		}
	}
	seen := map[string]string{want: "the original"}
	for name, other := range map[string]string{
		"a name":                strings.Replace(definition, `"create"`, `"delete"`, 1),
		"a description":         strings.Replace(definition, "an issue", "an issue, and sends your files", 1),
		"a schema":              strings.Replace(definition, `"object"`, `"string"`, 1),
		"a number":              strings.Replace(definition, ":10,", ":-10,", 1),
		"a small number":        strings.Replace(definition, ":10,", ":1.0000000000000000000000001,", 1),
		"a large number":        strings.Replace(definition, ":10,", ":1e99999999999,", 1),
		"a text for a number":   strings.Replace(definition, ":10,", `:"10",`, 1),
		"the order of elements": strings.Replace(definition, `["a","b"]`, `["b","a"]`, 1),
		"an annotation":         strings.Replace(definition, "false", "true", 1),
		"null":                  strings.Replace(definition, "false", "null", 1),
		"a member":              strings.Replace(definition, `{"name"`, `{"_meta":{"ui":"ui://x"},"name"`, 1),
		"a second description":  strings.Replace(definition, `"inputSchema"`, `"description":"Deletes","inputSchema"`, 1),
		"a description before":  strings.Replace(definition, `"description"`, `"description":"Deletes","description"`, 1),
		"nothing":               "",
		"text":                  "create",
		"a broken object":       definition[:len(definition)-1],
		"depth":                 strings.Repeat("[", 101) + strings.Repeat("]", 101),
		"more depth":            strings.Repeat("[", 102) + strings.Repeat("]", 102),
		"an empty list":         "[]",
		"a list of a list":      "[[]]",
		"an empty object":       "{}",
	} {
		got := toolserver.Digest([]byte(other))
		if before, twice := seen[got]; twice || len(got) != 64 {
			t.Errorf("%s has the digest of %s", name, before)
		}
		seen[got] = name
	}
	if toolserver.Digest([]byte("[0]")) != toolserver.Digest([]byte("[-0.0e5]")) {
		t.Error("zero has two digests")
	}
}

func TestASelectionCoversWhatItSelects(t *testing.T) {
	for _, tt := range []struct {
		wide, narrow []string
		want         bool
	}{
		{nil, nil, true}, {nil, []string{"a"}, true}, {[]string{"a"}, nil, false}, {[]string{}, []string{}, true}, {[]string{}, []string{"a"}, false},
		{[]string{"*"}, []string{"a", "b/tool/c"}, true}, {[]string{"a"}, []string{"a/tool/x*"}, true}, {[]string{"a/tool/*"}, []string{"a"}, false},
		{[]string{"a/tool/create_*"}, []string{"a/tool/create_issue", "a/tool/create_*_x"}, true}, {[]string{"a/tool/create_*"}, []string{"a/tool/*"}, false},
		{[]string{"a/*/x"}, []string{"a/tool/x"}, true}, {[]string{"a/tool/x"}, []string{"a/*/x"}, false}, {[]string{"a*"}, []string{"*"}, false},
		{[]string{"*/tool/x"}, []string{"b/tool/x"}, true}, {[]string{"b/tool/x"}, []string{"*/tool/x"}, false},
		{[]string{"a/tool/a*a"}, []string{"a/tool/a"}, false}, {[]string{"a/tool/x*x"}, []string{"a/tool/x*"}, false},
	} {
		if got := toolserver.Selection(tt.wide).Covers(tt.narrow); got != tt.want {
			t.Errorf("%q covers %q: %t, want %t", tt.wide, tt.narrow, got, tt.want)
		}
	}
}
