package directory_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"modelgate/internal/controlplane/directory"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

// fill adds users to the directory without requests and returns their ids.
func (b *bench) fill(n int) []string {
	b.Helper()
	ids := make([]string, n)
	err := b.db.UpdateLong(b.Context(), nil, func(tx *store.Tx) error {
		for i := range ids {
			ids[i] = fmt.Sprintf("user-%06d", i)
			u := store.User{ID: ids[i], Email: ids[i] + "@example.com", Status: store.Active, Role: "member", CreatedAt: b.clock, UpdatedAt: b.clock}
			if err := tx.CreateUser(b.Context(), store.DefaultOrganisation, u); err != nil {
				return err
			}
			d := store.DirectoryUser{Organisation: store.DefaultOrganisation, ID: ids[i], NameKey: ids[i], Active: true, Version: 1,
				Attributes: json.RawMessage(`{"userName":"` + ids[i] + `"}`), CreatedAt: b.clock, UpdatedAt: b.clock}
			if err := tx.CreateDirectoryUser(b.Context(), d); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return ids
}

func TestOneMemberOfALargeGroupRewritesNoOther(t *testing.T) {
	onBoth(t, directory.Routes{}, func(b *bench) {
		list := b.fill(1200)
		group := b.group("ws-default-role-member", list[:1199]...)
		before := b.clock
		b.clock = b.clock.Add(time.Hour)
		b.scim(204, "PATCH", "/Groups/"+group, `{"Operations":[{"op":"add","path":"members","value":[{"value":"`+list[1199]+`"}]}]}`)
		b.scim(204, "PATCH", "/Groups/"+group, `{"Operations":[{"op":"remove","path":"members[value eq \"`+list[0]+`\"]"}]}`)
		members, total, err := b.db.WorkspaceMembers(t.Context(), store.DefaultWorkspace, "", "", store.Page{})
		if err != nil || total != 1199 {
			t.Fatalf("%d members, %v", total, err)
		}
		written := 0
		for _, m := range members {
			if !m.UpdatedAt.Equal(before) {
				written++
			}
		}
		if written != 1 {
			t.Errorf("%d memberships were written, want the new one", written)
		}
		// Read back, and replaced by half of them.
		if g := b.scim(200, "GET", "/Groups/"+group, ""); len(g["members"].([]any)) != 1199 {
			t.Errorf("the group has %d members", len(g["members"].([]any)))
		}
		b.scim(200, "PUT", "/Groups/"+group, `{"displayName":"ws-default-role-member","members":`+toJSON(values(list[600:]))+`}`)
		if _, total, err := b.db.WorkspaceMembers(t.Context(), store.DefaultWorkspace, "", "", store.Page{}); err != nil || total != 600 {
			t.Errorf("after replacing them, %d members, %v", total, err)
		}
	})
}

// values returns ids as members.
func values(ids []string) []map[string]string {
	out := make([]map[string]string, len(ids))
	for i, id := range ids {
		out[i] = map[string]string{"value": id}
	}
	return out
}

// benchmarkOnBoth runs f on each database.
func benchmarkOnBoth(b *testing.B, f func(x *bench)) {
	for name, dsn := range map[string]func() string{
		"sqlite":   func() string { return "file:" + filepath.Join(b.TempDir(), "modelgate.db") },
		"postgres": func() string { return storetest.Postgres(b) },
	} {
		b.Run(name, func(b *testing.B) {
			db, err := store.Open(b.Context(), dsn(), store.Options{Connections: 4})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { db.Close() })
			f(newBench(b, directory.Routes{}, db))
		})
	}
}

func BenchmarkGroupOf20000(b *testing.B) {
	benchmarkOnBoth(b, func(x *bench) {
		list := x.fill(20_001)
		x.admin(200, "POST", "/scim/workspaces", `{"workspace_id":"default","role":"member","scim_group_name":"All"}`)
		group := x.group("All")
		measure := func(name string, f func()) {
			start := time.Now()
			f()
			x.TB.(*testing.B).ReportMetric(float64(time.Since(start).Microseconds())/1000, name+"-ms")
		}
		measure("put", func() {
			x.scim(200, "PUT", "/Groups/"+group, `{"displayName":"All","members":`+toJSON(values(list[:20_000]))+`}`)
		})
		measure("add", func() {
			x.scim(204, "PATCH", "/Groups/"+group, `{"Operations":[{"op":"add","path":"members","value":[{"value":"`+list[20_000]+`"}]}]}`)
		})
		measure("head", func() { x.scim(200, "GET", "/Groups/"+group+"?excludedAttributes=members", "") })
		measure("get", func() { x.scim(200, "GET", "/Groups/"+group, "") })
		measure("clear", func() { x.scim(200, "PUT", "/Groups/"+group, `{"displayName":"All"}`) })
	})
}

func BenchmarkCreateUser(b *testing.B) {
	benchmarkOnBoth(b, func(x *bench) {
		tb := x.TB.(*testing.B)
		i := 0
		for tb.Loop() {
			i++
			x.scim(201, "POST", "/Users", fmt.Sprintf(`{"userName":"u%d@example.com","emails":[{"value":"u%d@example.com","primary":true}],"active":true}`, i, i))
		}
	})
}
