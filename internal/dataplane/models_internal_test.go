package dataplane

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/provider"
)

func TestModelListsAreCached(t *testing.T) {
	for _, tt := range []struct {
		name  string
		err   error
		age   time.Duration
		fresh time.Duration // still cached
		gone  time.Duration // asked again
	}{
		{"a response for a minute", nil, modelsAge, 59 * time.Second, time.Minute},
		{"a failure for ten seconds", errors.New("down"), failedModelsAge, 9 * time.Second, 10 * time.Second},
		{"a provider that was not asked, not at all", errors.New("late"), 0, -1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var m modelLists
				target, other := new(provider.Target), new(provider.Target)
				a, claimed := m.find(target, true)
				if !claimed {
					t.Fatal("the first request may not ask")
				}
				if b, claimed := m.find(target, true); b != a || claimed {
					t.Error("a second request asks while the response is on its way")
				}
				a.finish([]providerModel{{id: "a"}}, tt.err, tt.age)
				began := time.Now()
				if tt.fresh >= 0 {
					time.Sleep(tt.fresh)
					if b, claimed := m.find(target, true); b != a || claimed {
						t.Errorf("asked again after %v", tt.fresh)
					}
					if _, err := a.wait(t.Context()); err != tt.err {
						t.Errorf("wait = %v, want %v", err, tt.err)
					}
				}
				time.Sleep(tt.gone - time.Since(began))
				if b, claimed := m.find(target, false); claimed || !errors.Is(b.err, errNotAsked) {
					t.Errorf("without an attempt left: %v, claimed = %t", b.err, claimed)
				}
				if _, claimed := m.find(other, true); !claimed || len(m.lists) != 1 {
					t.Errorf("claimed = %t, %d answers cached, want the other target alone", claimed, len(m.lists))
				}
				if _, claimed := m.find(target, true); !claimed {
					t.Errorf("not asked again after %v", tt.gone)
				}
			})
		})
	}
}

func TestListsOfModelsAreReadInEitherShape(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body string
		want       []providerModel
	}{
		{"of the chat dialect", `{"object":"list","data":[{"id":"a","created":7},{"id":"b/c"}]}`, []providerModel{{"a", 7}, {"b/c", 0}}},
		{"of the messages dialect", `{"data":[{"id":"a","created_at":"2026-01-01T00:00:00Z"}],"has_more":false}`, []providerModel{{"a", 0}}},
		{"of Google", `{"models":[{"name":"models/gemini-x","displayName":"X"},{"name":"tunedModels/y"}]}`, []providerModel{{"gemini-x", 0}, {"tunedModels/y", 0}}},
		{"a date that is no number", `{"data":[{"id":"a","created":"today"}]}`, []providerModel{{"a", 0}}},
		{"empty", `{"data":[]}`, []providerModel{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := readModels(strings.NewReader(tt.body)); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("readModels = %v, %v; want %v", got, err, tt.want)
			}
		})
	}
}
