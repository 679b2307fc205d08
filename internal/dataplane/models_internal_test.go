package dataplane

import (
	"slices"
	"strings"
	"testing"
)

func TestListsOfModelsAreReadInEitherShape(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       []listed
	}{
		{"of the chat dialect", `{"object":"list","data":[{"id":"a","created":7},{"id":"b/c"}]}`, []listed{{"a", 7}, {"b/c", 0}}},
		{"of the messages dialect", `{"data":[{"id":"a","created_at":"2026-01-01T00:00:00Z"}],"has_more":false}`, []listed{{"a", 0}}},
		{"of Google", `{"models":[{"name":"models/gemini-x","displayName":"X"},{"name":"tunedModels/y"}]}`, []listed{{"gemini-x", 0}, {"tunedModels/y", 0}}},
		{"a date that is no number", `{"data":[{"id":"a","created":"today"}]}`, []listed{{"a", 0}}},
		{"empty", `{"data":[]}`, []listed{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := readModels(strings.NewReader(tt.body)); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("readModels = %v, %v; want %v", got, err, tt.want)
			}
		})
	}
}
