package settings

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Diff describes the changes from before to after, one per line: + with the kind and
// name of an added object, - of a removed one, ~ with the fields of a changed one. It
// contains no values.
func Diff(before, after *Settings) (lines []string) {
	lines = append(lines,
		diffList("provider", before.Providers, after.Providers, func(p Provider) string { return p.Slug }, differProviders)...)
	lines = append(lines, diffList("config", before.Configs, after.Configs, func(c Config) string { return c.Slug }, differConfigs)...)
	lines = append(lines, diffList("key", before.Keys, after.Keys, func(k Key) string {
		return strings.TrimSpace(k.Name + " " + strings.ToLower(k.SHA256[:12]))
	}, ChangedFields[Key])...)
	lines = append(lines,
		diffList("price", before.Prices, after.Prices, func(p Price) string {
			return strings.TrimSpace(p.Provider + " " + p.Model + " " + p.From)
		}, ChangedFields[Price])...)
	b, a := reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem()
	for i := range a.NumField() {
		f := a.Type().Field(i)
		if f.Type.Kind() != reflect.Struct || !f.IsExported() {
			continue
		}
		if fields := ChangedFields(b.Field(i).Interface(), a.Field(i).Interface()); len(fields) > 0 {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			lines = append(lines, fmt.Sprintf("~ %s %v", name, fields))
		}
	}
	return lines
}

func differProviders(a, b Provider) []string {
	fields := ChangedFields(a, b)
	if a.key != b.key && !slices.Contains(fields, "api_key") { // the same reference to a changed credential
		fields = append(fields, "api_key")
	}
	return fields
}

func differConfigs(a, b Config) []string {
	fields := ChangedFields(a, b)
	if a.text != b.text && !slices.Contains(fields, "config") { // the same references to changed credentials
		fields = append(fields, "config")
	}
	return fields
}

// diffList returns the changes between two lists of a kind.
func diffList[T any](kind string, before, after []T, name func(T) string, differ func(a, b T) []string) (lines []string) {
	was, is := make(map[string]T, len(before)), make(map[string]bool, len(after))
	for _, v := range before {
		was[name(v)] = v
	}
	for _, v := range after {
		n := name(v)
		is[n] = true
		old, known := was[n]
		if !known {
			lines = append(lines, "+ "+kind+" "+n)
		} else if fields := differ(old, v); len(fields) > 0 {
			lines = append(lines, fmt.Sprintf("~ %s %s %v", kind, n, fields))
		}
	}
	for _, v := range before {
		if n := name(v); !is[n] {
			lines = append(lines, "- "+kind+" "+n)
		}
	}
	return lines
}

// ChangedFields returns the fields in which two values of a type of this package
// differ, in order. Objects are compared by meaning, not by formatting.
func ChangedFields[T any](a, b T) (list []string) {
	if reflect.DeepEqual(a, b) {
		return nil
	}
	x, y := fieldsOf(a), fieldsOf(b)
	for name, v := range x {
		if w, ok := y[name]; !ok || !reflect.DeepEqual(v, w) {
			list = append(list, name)
		}
	}
	for name := range y {
		if _, ok := x[name]; !ok {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

func fieldsOf(v any) (m map[string]any) {
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		panic(err) // cannot fail for the types of this package
	}
	return m
}
