package dataplane

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/pipeline"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/routing"
)

// sized parses nothing: it is a tree of the size.
func sized(n int) func() (int, func() *pipeline.Tree, error) {
	return func() (int, func() *pipeline.Tree, error) {
		return n, func() *pipeline.Tree { return new(pipeline.Tree) }, nil
	}
}

func mustMake(t *testing.T, cache *trees, name string, size int) *cachedTree {
	t.Helper()
	k, err := cache.make(treeKey{text: name}, sized(size))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestCompiledConfigsAreKeptByTheirSize(t *testing.T) {
	t.Parallel()
	cache := newTrees()
	for i := range 1000 {
		cache.release(mustMake(t, cache, fmt.Sprint(i), 8<<20))
	}
	if n := cache.order.Len(); n != 7 || cache.bytes > maxTreeBytes || cache.live != cache.bytes {
		t.Errorf("kept %d trees of %d bytes, %d live; want 7 of at most %d", n, cache.bytes, cache.live, maxTreeBytes)
	}
	for i := range 2 * maxTrees {
		cache.release(mustMake(t, cache, fmt.Sprint("small", i), 1))
	}
	if n := cache.order.Len(); n != maxTrees {
		t.Errorf("kept %d small trees, want %d", n, maxTrees)
	}
}

func TestForwardedHeadersAndHostsCountInTheCache(t *testing.T) {
	t.Parallel()
	cache := newTrees()
	for i := range 500 {
		key := treeKey{text: "{}", forward: strings.Repeat("a,", 100_000) + fmt.Sprint(i), customHost: strings.Repeat("h", 2048)}
		k, err := cache.make(key, sized(100))
		if err != nil {
			t.Fatal(err)
		}
		cache.release(k)
	}
	if n := cache.order.Len(); n > 200 {
		t.Errorf("kept %d trees with 200 KB of forwarded headers each, want them counted", n)
	}
}

func TestConfigsInUseAreLimitedTogether(t *testing.T) {
	t.Parallel()
	cache := newTrees()
	var used []*cachedTree
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		var k *cachedTree
		if k, err = cache.make(treeKey{text: fmt.Sprint(i)}, sized(8<<20)); err == nil {
			used = append(used, k)
		}
	}
	e, ok := errors.AsType[*apierr.Error](err)
	if !ok || e.Code != "config_memory_full" || e.Status() != 503 || len(used) != 63 {
		t.Fatalf("after %d trees in use: %v, want 503 config_memory_full after 63", len(used), err)
	}
	for _, k := range used {
		cache.release(k)
	}
	if cache.live != cache.bytes {
		t.Errorf("%d bytes live after the requests ended, want those kept, %d", cache.live, cache.bytes)
	}
	cache.release(mustMake(t, cache, "again", 8<<20))
}

func TestTreeThatIsRejectedCountsNothing(t *testing.T) {
	t.Parallel()
	cache := newTrees()
	_, err := cache.make(treeKey{}, func() (int, func() *pipeline.Tree, error) { return 0, nil, errors.New("no") })
	if err == nil || cache.live != 0 || len(cache.compiling) != 0 {
		t.Errorf("make = %v with %d bytes live", err, cache.live)
	}
}

// What is counted for a config is not less than what its compiled form takes.
func TestSizeCoversTheCompiledTree(t *testing.T) {
	list := func(n int, f func(i int) string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = f(i)
		}
		return strings.Join(parts, ",")
	}
	group := func(n int, more string) string {
		return `{` + more + `"strategy":{"mode":"fallback"},"targets":[` + list(n/50, func(int) string {
			return `{"strategy":{"mode":"fallback"},"targets":[` + list(50, func(int) string { return `{"provider":"@a"}` }) + `]}`
		}) + `]}`
	}
	members := `{` + list(50, func(i int) string { return fmt.Sprintf(`"a%d":0`, i) }) + `}`
	for name, text := range map[string]string{
		"targets":        group(1000, ""),
		"parameters":     group(250, `"override_params":`+members+`,"default_params":`+members+`,`),
		"dropped paths":  group(250, `"drop_params":[`+list(50, func(i int) string { return fmt.Sprintf(`"messages[*].a%d"`, i) })+`],`),
		"latency":        strings.Replace(group(500, ""), "fallback", "latency", -1),
		"sticky":         strings.Replace(group(500, ""), `{"mode":"fallback"}`, `{"mode":"loadbalance","sticky":{"enabled":true,"hash_fields":["metadata.a"]}}`, -1),
		"long condition": `{"strategy":{"mode":"conditional","default":"a","conditions":[` + list(500, func(i int) string { return `{"query":{"metadata.a":{"$regex":"^a.*z$"}},"then":"a"}` }) + `]},"targets":[{"name":"a","provider":"@a"}]}`,
	} {
		compiler := pipeline.Compiler{Engine: new(attempt.Engine), State: new(routing.State)}
		const n = 8
		var trees [n]*pipeline.Tree
		size, before := 0, heapInUse()
		for i := range trees {
			root, err := config.Parse([]byte(text))
			if err != nil {
				t.Fatalf("%s: %.200v", name, err)
			}
			trees[i], size = compiler.Compile(root, fmt.Sprint(i)), root.Size()
		}
		took := (heapInUse() - before) / n
		t.Logf("%s: counted %d, takes %d", name, size, took)
		if size < took {
			t.Errorf("%s: counted %d bytes, takes %d", name, size, took)
		}
		runtime.KeepAlive(trees)
		runtime.KeepAlive(compiler)
	}
}

func heapInUse() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
