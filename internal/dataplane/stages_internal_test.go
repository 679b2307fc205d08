package dataplane

import (
	"context"
	"errors"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/pipeline"
)

// The page is where readers learn the order, so it must be the one that is served.
func TestArchitecturePageListsTheStagesInTheirOrder(t *testing.T) {
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n| stage |")
	table, _, _ = strings.Cut(table, "\n\n")
	var named []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-zA-Z]+)` \\|").FindAllStringSubmatch(table, -1) {
		named = append(named, row[1])
	}
	var served []string
	for _, s := range stages(nil) {
		served = append(served, reflect.TypeOf(s).Name())
	}
	if !slices.Equal(named, served) {
		t.Errorf("docs/architecture.md lists the stages %v, requests pass %v", named, served)
	}
}

// step is a stage that writes down when a request passes it, and when its response does.
type step struct {
	name string
	seen *[]string
	ends bool
}

var errEnded = errors.New("ended")

func (s step) Wrap(next pipeline.Handler) pipeline.Handler {
	return handlerFunc(func(ctx context.Context, r *pipeline.Request, t *pipeline.Trail) (*pipeline.Response, error) {
		*s.seen = append(*s.seen, s.name)
		if s.ends {
			return nil, errEnded
		}
		defer func() { *s.seen = append(*s.seen, "/"+s.name) }()
		return next.Handle(ctx, r, t)
	})
}

type handlerFunc func(context.Context, *pipeline.Request, *pipeline.Trail) (*pipeline.Response, error)

func (f handlerFunc) Handle(ctx context.Context, r *pipeline.Request, t *pipeline.Trail) (*pipeline.Response, error) {
	return f(ctx, r, t)
}

func TestStagesPassInOrderAndBackAndMayEndARequest(t *testing.T) {
	var seen []string
	target := handlerFunc(func(context.Context, *pipeline.Request, *pipeline.Trail) (*pipeline.Response, error) {
		seen = append(seen, "target")
		return &pipeline.Response{Status: 200}, nil
	})
	r := &pipeline.Request{Routing: target}
	h := pipeline.Chain(pipeline.Routing{}, step{"a", &seen, false}, step{"b", &seen, false})
	if _, err := h.Handle(t.Context(), r, new(pipeline.Trail)); err != nil || !slices.Equal(seen, []string{"a", "b", "target", "/b", "/a"}) {
		t.Errorf("passed %v, error %v; want a, b, the target and back", seen, err)
	}
	seen = nil
	h = pipeline.Chain(pipeline.Routing{}, step{"a", &seen, false}, step{"b", &seen, true})
	if _, err := h.Handle(t.Context(), r, new(pipeline.Trail)); !errors.Is(err, errEnded) || !slices.Equal(seen, []string{"a", "b", "/a"}) {
		t.Errorf("passed %v, error %v; want the request ended at b", seen, err)
	}
}
