package respcache_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/cache/filecache"
	"modelgate/internal/cache/rediscache"
	"modelgate/internal/cache/respcache"
	"modelgate/internal/testing/quotatest"
)

func textLogger(b *bytes.Buffer) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

const backendSize = 4 << 20

// backends open each real backend, with 4 MB.
func backends(t *testing.T) map[string]func(testing.TB) respcache.Backend {
	redis := quotatest.NewRedis(t)
	return map[string]func(testing.TB) respcache.Backend{
		"sqlite": func(t testing.TB) respcache.Backend { return openFile(t, filepath.Join(t.TempDir(), "cache.db"), nil) },
		"redis":  func(t testing.TB) respcache.Backend { return openRedis(t, redis, nil) },
	}
}

func openFile(t testing.TB, path string, log *bytes.Buffer) respcache.Backend {
	t.Helper()
	o := filecache.Options{Path: path, Size: backendSize}
	if log != nil {
		o.Logger = textLogger(log)
	}
	b, err := filecache.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func openRedis(t testing.TB, r *quotatest.Redis, log *bytes.Buffer) respcache.Backend {
	t.Helper()
	o := rediscache.Options{URL: secret.New(r.URL()), Size: backendSize}
	if log != nil {
		o.Logger = textLogger(log)
	}
	b, err := rediscache.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// count returns how many of the names have a value.
func count(t testing.TB, b respcache.Backend, n int) (found int, first bool) {
	t.Helper()
	for i := range n {
		v, err := b.Read(t.Context(), fmt.Sprint(i), 2<<20)
		if err != nil {
			t.Fatal(err)
		}
		if v != nil {
			found++
			first = first || i == 0
		}
	}
	return found, first
}

func TestBackendsAreBoundedAndKeepTheLatest(t *testing.T) {
	for name, open := range backends(t) {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			value := bytes.Repeat([]byte("x"), 100_000)
			write := func(i int, v []byte) {
				t.Helper()
				if err := b.Write(t.Context(), []respcache.Record{{Name: fmt.Sprint(i), Value: v, TTL: time.Hour}}); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 100 {
				write(i, value)
				write(i, value) // a replaced entry counts once
			}
			if n, first := count(t, b, 100); n > backendSize/len(value) || n < backendSize/len(value)-20 || first {
				t.Errorf("%d entries, the oldest is there: %v; want at most %d", n, first, backendSize/len(value))
			}
			if v, err := b.Read(t.Context(), "99", 1<<20); err != nil || !bytes.Equal(v, value) {
				t.Errorf("the latest entry: %d bytes, %v", len(v), err)
			}
			if v, err := b.Read(t.Context(), "99", len(value)-1); v != nil || err != nil {
				t.Errorf("a value that is too long: %d bytes, %v", len(v), err)
			}
			write(1000, bytes.Repeat([]byte("x"), backendSize))
			if v, err := b.Read(t.Context(), "1000", 2*backendSize); v != nil || err != nil {
				t.Errorf("an entry larger than the store: %d bytes, %v", len(v), err)
			}
		})
	}
}

// A lowered limit is reached in several writes, each of which has a deadline. A batch
// that is larger than what a write usually frees must not make the file grow.
func TestAFileShrinksToALowerLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache.db")
	open := func(size int64) *filecache.Backend {
		b, err := filecache.Open(t.Context(), filecache.Options{Path: path, Size: size})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	next := 0
	write := func(b *filecache.Backend, n, size int) {
		var list []respcache.Record
		for range n {
			list = append(list, respcache.Record{Name: fmt.Sprint(next), Value: make([]byte, size), TTL: time.Hour})
			next++
		}
		if err := b.Write(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	b := open(200 << 20)
	for range 10 {
		write(b, 10, 1<<20)
	}
	b.Close()
	b = open(8 << 20)
	defer b.Close()
	write(b, 1, 1000)
	if n, _ := count(t, b, 100); n < 50 || n > 80 {
		t.Errorf("%d of 100 MB remain after one write, want about two thirds", n)
	}
	for range 3 {
		write(b, 1, 1000)
	}
	if n, first := count(t, b, 100); n > 8 || first {
		t.Errorf("%d MB remain, want at most 8", n)
	}
	for range 2 {
		write(b, 50, 1<<20)
	}
	if n, _ := count(t, b, next); n > 8 {
		t.Errorf("%d MB after large batches, want at most 8", n)
	}
}

func TestBackendsRemoveExpiredEntries(t *testing.T) {
	redis := quotatest.NewRedis(t)
	path := filepath.Join(t.TempDir(), "cache.db")
	for name, b := range map[string]respcache.Backend{"sqlite": openFile(t, path, nil), "redis": openRedis(t, redis, nil)} {
		if err := b.Write(t.Context(), []respcache.Record{{Name: "a", Value: []byte("v"), TTL: time.Millisecond}}); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
			b.Write(t.Context(), []respcache.Record{{Name: "b", Value: []byte("v"), TTL: time.Hour}})
			v, err := b.Read(t.Context(), "a", 100)
			if err != nil {
				t.Fatal(err)
			}
			if v == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: an entry with a lifetime of a millisecond remains", name)
			}
		}
	}
}

func TestAFileIsAsItWasAfterAReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache.db")
	value := bytes.Repeat([]byte("x"), 100_000)
	for range 5 {
		b := openFile(t, path, nil)
		for i := range 20 {
			if err := b.Write(t.Context(), []respcache.Record{{Name: fmt.Sprint(i), Value: value, TTL: time.Hour}}); err != nil {
				t.Fatal(err)
			}
		}
		if n, _ := count(t, b, 20); n != 20 {
			t.Fatalf("%d entries, want 20: what was there before counts twice", n)
		}
		b.Close()
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want a file for its owner only", info.Mode(), err)
	}
}

// Entries that are written to a removed file are lost with the process, and its new
// connections would open another file.
func TestARemovedFileIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache.db")
	record := []respcache.Record{{Name: "a", Value: []byte("x"), TTL: time.Hour}}
	log := new(bytes.Buffer)
	b := openFile(t, path, log)
	if err := b.Write(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := b.Write(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "cache file replaced") {
		t.Errorf("the log does not say so: %s", log)
	}
	b.Close()
	if v, err := openFile(t, path, nil).Read(t.Context(), "a", 1<<20); string(v) != "x" || err != nil {
		t.Errorf("after a start: %q, %v", v, err)
	}
}

func TestADamagedFileIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache.db")
	record := []respcache.Record{{Name: "a", Value: bytes.Repeat([]byte("x"), 100_000), TTL: time.Hour}}
	t.Run("at the start", func(t *testing.T) {
		if err := os.WriteFile(path, []byte(strings.Repeat("no database", 1000)), 0o600); err != nil {
			t.Fatal(err)
		}
		log := new(bytes.Buffer)
		b := openFile(t, path, log)
		if err := b.Write(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		if v, err := b.Read(t.Context(), "a", 1<<20); v == nil || err != nil || !strings.Contains(log.String(), "cache file replaced") {
			t.Errorf("%d bytes, %v, %s", len(v), err, log)
		}
		b.Close()
	})
	t.Run("in use", func(t *testing.T) {
		log := new(bytes.Buffer)
		b := openFile(t, path, log)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		f.WriteAt(bytes.Repeat([]byte{0xff}, int(info.Size())-4096), 4096) // all pages but the first
		if v, err := b.Read(t.Context(), "a", 1<<20); v != nil || err == nil {
			t.Errorf("of a damaged file: %d bytes, %v", len(v), err)
		}
		for deadline := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
			if err = b.Write(t.Context(), record); err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the file is not replaced: %v; %s", err, log)
			}
		}
		if v, err := b.Read(t.Context(), "a", 1<<20); !bytes.Equal(v, record[0].Value) || err != nil {
			t.Errorf("%d bytes, %v", len(v), err)
		}
		if !strings.Contains(log.String(), "cache file replaced") {
			t.Errorf("the log does not say so: %s", log)
		}
	})
}

func TestRedisThatWasFlushedOrKilledIsUsedAgain(t *testing.T) {
	redis := quotatest.NewRedis(t)
	b := openRedis(t, redis, nil)
	record := []respcache.Record{{Name: "a", Value: []byte("value"), TTL: time.Hour}}
	works := func(what string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; <-time.After(20 * time.Millisecond) {
			err := b.Write(t.Context(), record)
			v, readErr := b.Read(t.Context(), "a", 100)
			if err == nil && readErr == nil && string(v) == "value" {
				return
			}
			if readErr == nil && v != nil && string(v) != "value" {
				t.Fatalf("%s: a wrong value: %q", what, v)
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v, %v", what, err, readErr)
			}
		}
	}
	works("at first")
	if _, err := redis.Command("FLUSHALL\r\n"); err != nil {
		t.Fatal(err)
	}
	if v, err := b.Read(t.Context(), "a", 100); v != nil || err != nil {
		t.Errorf("after the flush: %q, %v", v, err)
	}
	works("after the flush")
	redis.Kill()
	if v, err := b.Read(t.Context(), "a", 100); v != nil || err == nil {
		t.Errorf("of a killed Redis: %q, %v", v, err)
	}
	redis.Start(t)
	works("after a restart")
	for _, line := range []string{"DEL {modelgate}:cache:order\r\n", "SET {modelgate}:cache:total 999999999\r\n", "DEL {modelgate}:cache:sizes\r\n", "DEL {modelgate}:cache:total\r\n"} {
		if _, err := redis.Command(line); err != nil {
			t.Fatal(err)
		}
		works("after " + line)
	}
}

func TestRedisThatIsFullStoresNothingAndFailsNoRead(t *testing.T) {
	redis := quotatest.NewRedis(t, "--maxmemory", "3mb", "--maxmemory-policy", "noeviction")
	b := openRedis(t, redis, nil)
	var failed error
	for i := range 100 {
		if failed = b.Write(t.Context(), []respcache.Record{{Name: fmt.Sprint(i), Value: bytes.Repeat([]byte("x"), 100_000), TTL: time.Hour}}); failed != nil {
			break
		}
	}
	if failed == nil {
		t.Error("100 entries of 100 KB fit into 3 MB")
	}
	if v, err := b.Read(t.Context(), "0", 1<<20); len(v) != 100_000 || err != nil {
		t.Errorf("%d bytes, %v", len(v), err)
	}
}
