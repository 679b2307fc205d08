package pipeline

import (
	"slices"
	"testing"

	"modelgate/config"
	"modelgate/internal/pipeline/caching"
)

func TestCacheIsIgnoredWithoutOne(t *testing.T) {
	n := &config.Config{Cache: new(config.Cache)}
	for name, tt := range map[string]struct {
		cache *caching.Cache
		want  []string
	}{
		"no cache": {nil, []string{"cache"}}, "a cache": {new(caching.Cache), nil},
	} {
		b := &build{Compiler: &Compiler{Cache: tt.cache}}
		if got := b.ignoredProperties(n); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q are ignored, want %q", name, got, tt.want)
		}
	}
}
