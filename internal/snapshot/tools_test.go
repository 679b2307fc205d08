package snapshot_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/identity/access"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/snapshot"
)

func TestToolServersOfAWorkspaceAreSortedAndItsOwn(t *testing.T) {
	var in snapshot.Input
	for _, name := range []string{"b/wiki", "a/wiki", "a/files", "a/issues"} {
		in.ToolServers = append(in.ToolServers, &toolserver.Server{Workspace: name[:1], Slug: name[2:]})
		in.ToolBundles = append(in.ToolBundles, &toolserver.Bundle{Workspace: name[:1], Slug: name[2:] + "-bundle"})
	}
	s, err := snapshot.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, server := range s.ToolServers("a") {
		got.WriteString(server.Slug + " ")
	}
	for _, b := range s.ToolBundles("a") {
		got.WriteString(b.Slug + " ")
	}
	if want := "files issues wiki files-bundle issues-bundle wiki-bundle "; got.String() != want {
		t.Errorf("%q, want %q", got.String(), want)
	}
	for slug, want := range map[string]bool{"wiki": true, "files": false, "": false, "zzz": false} {
		if server, ok := s.ToolServer("b", slug); ok != want || ok && server.Workspace != "b" {
			t.Errorf("server %q: %t", slug, ok)
		}
		if b, ok := s.ToolBundle("b", slug+"-bundle"); ok != want || ok && b.Workspace != "b" {
			t.Errorf("bundle %q: %t", slug, ok)
		}
	}
}

func TestEveryLimitOfToolsBindsAKey(t *testing.T) {
	s, err := snapshot.Build(snapshot.Input{
		WorkspaceTools: map[string][]string{"w": {"workspace"}, "closed": {}},
		Users: []access.UserLimits{{Organisation: "o", ID: "ann", Email: "ann@example.com", Tools: []string{"ann"}}, {Organisation: "o", ID: "ben", Tools: []string{"ben"}},
			{Organisation: "o", ID: "eve"}, {Organisation: "other", ID: "kim", Tools: []string{"kim"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	maker := &access.Identity{Organisation: "o", Workspace: "w", UserID: "ben", Tools: [][]string{{"maker"}}}
	for _, tt := range []struct {
		id   access.Identity
		want string
	}{
		{access.Identity{Organisation: "o", Workspace: "free"}, "[]"},
		{access.Identity{Organisation: "o", Workspace: "w"}, "[[workspace]]"},
		{access.Identity{Organisation: "o", Workspace: "closed"}, "[[]]"},
		{access.Identity{Organisation: "o", Workspace: "w", UserID: "ann", Tools: [][]string{{"key"}}}, "[[workspace] [ann] [key]]"},
		{access.Identity{Organisation: "o", Workspace: "free", UserID: "eve"}, "[]"},
		{access.Identity{Organisation: "o", Workspace: "free", UserID: "kim"}, "[]"},
		{access.Identity{Organisation: "o", Workspace: "free", Claims: &access.Claims{User: "ANN@example.com"}}, "[[ann]]"},
		{*(&access.Identity{Organisation: "o", Workspace: "w", UserID: "ann", Tools: [][]string{{"key"}}}).Under(maker), "[[workspace] [ann] [ben] [key] [maker]]"},
	} {
		if got := fmt.Sprint(s.ToolSelections(&tt.id)); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.id, got, tt.want)
		}
	}
}
