package clients

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The lists of content types that test/dialects sends to every target are
// complete as far as the npm packages go; test/dialects compares those of the Go
// modules.
func TestContentTypesAreThoseOfTheNodePackages(t *testing.T) {
	mustNode(t)
	b, err := os.ReadFile("../dialects/testdata/content_types.json")
	if err != nil {
		t.Fatal(err)
	}
	var unions []struct {
		Union, Source, Version string
		Types                  []string
	}
	if err := json.Unmarshal(b, &unions); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, u := range unions {
		if !strings.HasPrefix(u.Source, "@") {
			continue
		}
		compared++
		if got := declaredTypes(t, u.Source, u.Union); !slices.Equal(got, u.Types) {
			t.Errorf("%s of %s has %q, the list %q", u.Union, u.Source, got, u.Types)
		}
		if version := packageVersion(t, u.Source); version != u.Version {
			t.Errorf("%s is of version %s, the list of %s", u.Source, version, u.Version)
		}
	}
	if compared != 4 {
		t.Errorf("%d lists were compared, want 4", compared)
	}
}

// declarations are the files with a package's type declarations.
var declarations = map[string]string{
	"@google/genai":                   "dist/genai.d.ts",
	"@aws-sdk/client-bedrock-runtime": "dist-types/models/models_0.d.ts",
}

var (
	member  = regexp.MustCompile(`(?m)^    (\w+)\?:`)
	variant = regexp.MustCompile(`\.(\w+)Member\b`)
)

// declaredTypes returns the types of a union: the members of an interface, or
// the variants of a type.
func declaredTypes(t *testing.T, source, union string) (list []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("node_modules", source, declarations[source]))
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	if _, body, ok := strings.Cut(text, "\nexport declare interface "+union+" {"); ok {
		body, _, _ = strings.Cut(body, "\n}")
		for _, m := range member.FindAllStringSubmatch(body, -1) {
			list = append(list, m[1])
		}
		return list
	}
	_, line, _ := strings.Cut(text, "\nexport type "+union+" = ")
	line, _, _ = strings.Cut(line, "\n")
	for _, m := range variant.FindAllStringSubmatch(line, -1) {
		list = append(list, strings.ToLower(m[1][:1])+m[1][1:])
	}
	return list
}

func packageVersion(t *testing.T, source string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("node_modules", source, "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	var p struct{ Version string }
	if err := json.Unmarshal(b, &p); err != nil {
		t.Fatal(err)
	}
	return p.Version
}
