package dataplane

import (
	"net/http"
	"testing"
)

func TestCoheresLibraryIsKnownByItsNames(t *testing.T) {
	for _, tt := range []struct {
		names []string
		want  bool
	}{
		{[]string{"cohere"}, true}, {[]string{"cohere-ai"}, true}, {[]string{"another"}, false}, {[]string{"-ai"}, false},
		{[]string{"cohere", "cohere"}, false}, {nil, false},
	} {
		if got := isCohereClient(http.Header{"X-Fern-Sdk-Name": tt.names}); got != tt.want {
			t.Errorf("a library with the names %q is Cohere's: %t, want %t", tt.names, got, tt.want)
		}
	}
}
