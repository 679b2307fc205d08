package server_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider/table"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/server"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

const (
	manyKeys    = 100_000
	manyConfigs = 10_000
)

// BenchmarkALargeInstallation measures what grows with the number of keys and
// saved configs.
func BenchmarkALargeInstallation(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { large(b, "file:"+filepath.Join(b.TempDir(), "modelgate.db")) })
	b.Run("postgres", func(b *testing.B) { large(b, storetest.Postgres(b)) })
}

func large(b *testing.B, dsn string) {
	db := storetest.Open(b, dsn)
	keys := fill(b, db)
	before, err := publication.Load(b.Context(), db, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("read", func(b *testing.B) { loop(b, func() { read(b, db, nil) }) })
	b.Run("write-and-read", func(b *testing.B) {
		loop(b, func() {
			key := store.Key{ID: reqlog.NewID(time.Now()).String(), Name: "late", Hash: access.HashKey(access.NewKey().Reveal()), CreatedAt: time.Now()}
			if err := db.CreateKey(b.Context(), key); err != nil {
				b.Fatal(err)
			}
			before = read(b, db, before)
		})
	})
	b.Run("build", func(b *testing.B) { loop(b, func() { build(b, before) }) })
	b.Run("memory", func(b *testing.B) { memory(b, db) })
	b.Run("lookup", func(b *testing.B) { lookup(b, build(b, before), keys) })
	b.Run("start", func(b *testing.B) { loop(b, func() { start(b, dsn) }) })
	b.Run("change", func(b *testing.B) {
		g := gatewaytest.New(b, gatewaytest.Options{Database: dsn})
		loop(b, func() {
			if res := saveConfig(g, "one more"); res.Status != 200 {
				b.Fatalf("%d %s", res.Status, res.Body)
			}
		})
	})
}

// loop also reports the CPU time of this process, which other programs on the
// machine stretch less than the time.
func loop(b *testing.B, f func()) {
	b.Helper()
	began, n := waittest.CPUTime(b), 0
	for ; b.Loop(); n++ {
		f()
	}
	b.ReportMetric(float64((waittest.CPUTime(b)-began).Milliseconds())/float64(n), "cpu-ms/op")
}

func start(b *testing.B, dsn string) {
	b.Helper()
	s, err := server.New(b.Context(), server.Options{Data: b.TempDir(), Listen: "127.0.0.1:0", Database: secret.New(dsn)})
	if err != nil {
		b.Fatal(err)
	}
	s.Close()
}

// fill makes the rows, and returns some of the keys.
func fill(b *testing.B, db *store.DB) (keys []string) {
	b.Helper()
	now := time.Now()
	err := db.Update(context.WithoutCancel(b.Context()), nil, func(tx *store.Tx) error {
		for i := range manyConfigs {
			id := fmt.Sprintf("config-%06d", i)
			c := store.Config{ID: id, Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Slug: fmt.Sprintf("pc-%06d", i),
				Name: id, VersionID: "v-" + id, Status: store.Active, CreatedAt: now, UpdatedAt: now}
			text := fmt.Sprintf(`{"strategy":{"mode":"fallback"},"targets":[{"provider":"@main","override_params":{"model":"m-%d"},"retry":{"attempts":3}},{"provider":"@spare"}]}`, i)
			if err := tx.CreateConfig(b.Context(), c, store.ConfigVersion{ID: c.VersionID, Config: id, Text: text, CreatedAt: now}); err != nil {
				return err
			}
		}
		return nil
	})
	for from := 0; from < manyKeys && err == nil; from += 10_000 { // a change has its time
		err = db.Update(b.Context(), nil, func(tx *store.Tx) error {
			for i := from; i < from+10_000; i++ {
				key := fmt.Sprintf("mg-%040d", i)
				if i%100 == 0 {
					keys = append(keys, key)
				}
				k := store.Key{ID: fmt.Sprintf("key-%06d", i), Name: fmt.Sprint("key ", i), Hash: access.HashKey(key), Mask: "mg***00",
					Scopes: []access.Scope{access.ScopeCompletions, access.ScopeModels}, CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
				if err := tx.CreateKey(b.Context(), k); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		b.Fatal(err)
	}
	return keys
}

func read(b *testing.B, db *store.DB, before *publication.State) *publication.State {
	b.Helper()
	p, err := publication.Load(b.Context(), db, before)
	if err != nil || len(p.Identities) < manyKeys || len(p.Configs) < manyConfigs {
		b.Fatalf("%d keys, %d configs, %v", len(p.Identities), len(p.Configs), err)
	}
	return p
}

func build(b *testing.B, p *publication.State) *snapshot.Snapshot {
	b.Helper()
	in := snapshot.Input{Specs: table.All(), Keys: p.Identities}
	for _, c := range p.Configs {
		in.Configs = append(in.Configs, snapshot.Config{Workspace: c.Row.Workspace, ID: c.Row.ID, Slug: c.Row.Slug, Text: secret.New(c.Current().Text), Stored: true})
	}
	s, err := snapshot.Build(in)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// memory reports what a snapshot and what it was built from hold.
func memory(b *testing.B, db *store.DB) {
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	for b.Loop() {
		empty := heap()
		p := read(b, db, nil)
		s := build(b, p)
		b.ReportMetric(heap()-empty, "MiB")
		runtime.KeepAlive(p)
		runtime.KeepAlive(s)
	}
}

func lookup(b *testing.B, s *snapshot.Snapshot, keys []string) {
	b.ReportAllocs()
	now := time.Now()
	b.RunParallel(func(p *testing.PB) {
		for i := 0; p.Next(); i++ {
			if id, ok := s.Identity(keys[i%len(keys)]); !ok || id.Expired(now) {
				b.Fatal("a key was not found")
			}
		}
	})
}
