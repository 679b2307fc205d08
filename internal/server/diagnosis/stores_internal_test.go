package diagnosis

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/storage/postgres"
	"modelgate/internal/testing/storetest"
)

func TestConnectionsOfAllNodesMustFit(t *testing.T) {
	for _, tt := range []struct {
		nodes, others, need int
		says                string // empty for no warning
	}{
		{0, 0, 41, ""},
		{2, 10, 41, ""},
		{2, 20, 41, "a node opens up to 41 connections, 2 nodes 82, and 77 of 100 are free for them"},
		{3, 0, 41, "3 nodes 123, and 97 of 100"},
		{3, 0, 20, ""},
		{0, 90, 41, "1 nodes 41, and 7 of 100"},
	} {
		s := databaseServer{limit: 100, reserved: 3, mayCreate: true, others: tt.others, nodes: tt.nodes}
		list := s.problems("localhost", tt.need)
		if tt.says == "" && len(list) > 0 || tt.says != "" && (len(list) != 1 || !strings.Contains(fmt.Sprint(list), tt.says)) {
			t.Errorf("%+v: %v, want %q", tt, list, tt.says)
		}
	}
}

// TestNodesAreCountedByWhatTheyListenFor asks a server that two connections listen at.
func TestNodesAreCountedByWhatTheyListenFor(t *testing.T) {
	at, err := postgres.ParseServer(storetest.Postgres(t), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		conn, err := at.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if _, err := conn.Exec(t.Context(), `LISTEN "modelgate_probe_X"`); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := at.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var s databaseServer
	err = conn.QueryRow(t.Context(), serverQuery).Scan(&s.version, &s.now, &s.readOnly, &s.mayCreate, &s.limit, &s.reserved, &s.others, &s.nodes, &s.tls)
	if err != nil || s.nodes != 2 {
		t.Errorf("%d nodes, %v; want 2", s.nodes, err)
	}
}
