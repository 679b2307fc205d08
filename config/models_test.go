package config_test

import (
	"strings"
	"testing"

	"modelgate/config"
)

func TestRoutedModelsAreThoseOfPlainConditions(t *testing.T) {
	text := `{"strategy":{"mode":"conditional","default":"b","conditions":[
		{"query":{"params.model":"one"},"then":"a"},
		{"query":{"params.model":{"$in":["two","three"]}},"then":"b"},
		{"query":{"$or":[{"params.model":"four"},{"params.model":{"$eq":"five"}}]},"then":"a"},
		{"query":{"params.model":"six","metadata.plan":"pro"},"then":"a"},
		{"query":{"params.model":{"$regex":"^seven"}},"then":"a"},
		{"query":{"params.model":{"$ne":"eight"}},"then":"a"},
		{"query":{"$not":{"params.model":"nine"}},"then":"a"},
		{"query":{"params.user":"ten"},"then":"a"},
		{"query":{"params.model":11},"then":"a"},
		{"query":{"params.model":"one"},"then":"b"}]},
		"targets":[{"name":"a","provider":"@x"},{"name":"b","provider":"@y"}]}`
	c, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range c.RoutedModels() {
		got = append(got, m.Name+"→"+m.Target.Provider)
	}
	if want := "one→@x two→@y three→@y four→@x five→@x"; strings.Join(got, " ") != want {
		t.Errorf("RoutedModels: %s, want %s", got, want)
	}
	if !c.RoutesModels() {
		t.Error("RoutesModels reports false")
	}
	if c, err = config.Parse([]byte(`{"provider":"@x"}`)); err != nil || c.RoutedModels() != nil || c.RoutesModels() {
		t.Errorf("a config without conditions routes %v, %v", c.RoutedModels(), err)
	}
}
