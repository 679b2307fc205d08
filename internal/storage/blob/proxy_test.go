package blob_test

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"modelgate/internal/testing/proxytest"
)

func TestABucketIsReachedThroughTheProxy(t *testing.T) {
	if proxytest.Server() != "" {
		b := bucket(t, "https://example.com")
		if _, err := b.Put(t.Context(), "x", strings.NewReader("text")); err != nil {
			t.Fatal(err)
		}
		if got := mustRead(t, b, "x"); string(got) != "text" {
			t.Errorf("Get: %q", got)
		}
		return
	}
	backend := s3mem.New()
	if err := backend.CreateBucket("exports"); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewTLSServer(gofakes3.New(backend).Server())
	defer s.Close()
	got := proxytest.Run(t, s)
	if len(got) == 0 || slices.ContainsFunc(got, func(r string) bool { return r != "CONNECT example.com:443" }) {
		t.Errorf("the proxy got %q", got)
	}
}
