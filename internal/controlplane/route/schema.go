package route

import (
	"path"
	"reflect"
	"strconv"
	"strings"
	"unicode"
)

// schemaNames returns the naming function for the schemas of an OpenAPI document. An
// unnamed type is named by its position. A name that is already in use is numbered.
func schemaNames() func(t reflect.Type, hint string) string {
	taken := make(map[string]reflect.Type)
	return func(t reflect.Type, hint string) string {
		base := schemaName(t, hint)
		name := base
		for n := 2; taken[name] != nil && taken[name] != t; n++ {
			name = base + strconv.Itoa(n)
		}
		taken[name] = t
		return name
	}
}

// schemaName names the schema of a type by its package and type name, because packages
// have types of the same name and lists are generic over them.
func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := t.Name()
	if name == "" {
		return hint
	}
	if room := path.Base(t.PkgPath()); t.PkgPath() != "" {
		name = room + "." + name
	}
	var out strings.Builder
	for _, part := range strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("[]*, ", r) }) {
		part = part[strings.LastIndexByte(part, '/')+1:]
		for word := range strings.SplitSeq(part, ".") {
			word, _, _ = strings.Cut(word, "·") // the compiler numbers types inside functions
			if word == "" || word == "route" {
				continue
			}
			out.WriteRune(unicode.ToUpper(rune(word[0])))
			out.WriteString(word[1:])
		}
	}
	return out.String()
}
