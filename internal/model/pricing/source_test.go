package pricing_test

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/model/pricing"
	"modelgate/internal/storage/blob"
)

func TestTheProxyIsAskedWithAndWithoutASuffix(t *testing.T) {
	var paths []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.Method+" "+r.URL.Path)
		switch r.URL.Path {
		case "/base/pricing/openai", "/base/general/groq.json":
			io.WriteString(w, "{}")
		case "/base/pricing/broken":
			w.WriteHeader(http.StatusBadGateway)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer srv.Close()
	base, err := pricing.ParseProxy(srv.URL + "/base/")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		kind, provider string
		want           string
		paths          []string
	}{
		{"pricing", "openai", "", []string{"GET /base/pricing/openai"}},
		{"general", "groq", "", []string{"GET /base/general/groq", "GET /base/general/groq.json"}},
		{"pricing", "none", fs.ErrNotExist.Error(), []string{"GET /base/pricing/none", "GET /base/pricing/none.json"}},
		{"pricing", "broken", "status 502", []string{"GET /base/pricing/broken"}},
	} {
		paths = nil
		in, err := pricing.Proxy(base, tt.kind, http.DefaultClient.Do).Read(t.Context(), tt.provider)
		if err == nil {
			in.Close()
		}
		got := ""
		if err != nil {
			got = err.Error()
		}
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) || !slices.Equal(paths, tt.paths) {
			t.Errorf("%s/%s: error %q after %v, want %q after %v", tt.kind, tt.provider, got, paths, tt.want, tt.paths)
		}
	}
	for _, bad := range []string{"", "ftp://a/b", "/relative", "http://", "https://a/?q=1"} {
		if _, err := pricing.ParseProxy(bad); err == nil {
			t.Errorf("ParseProxy(%q) was taken", bad)
		}
	}
}

func TestFilesAreReadFromTheLogStoreAndTheDisk(t *testing.T) {
	folder := t.TempDir()
	files := blob.Folder(folder)
	if _, err := files.Put(t.Context(), "prices/openai.json", strings.NewReader("{}")); err != nil {
		t.Fatal(err)
	}
	os.Mkdir(filepath.Join(folder, "prices", "dir.json"), 0o755)
	for name, source := range map[string]pricing.Source{"log store": pricing.LogStore(files, "/prices/"), "local": pricing.Local(filepath.Join(folder, "prices"))} {
		in, err := source.Read(t.Context(), "openai")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		in.Close()
		if _, err := source.Read(t.Context(), "groq"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a missing file gives %v, want fs.ErrNotExist", name, err)
		}
	}
	if _, err := pricing.Local(filepath.Join(folder, "prices")).Read(t.Context(), "dir"); err == nil {
		t.Error("a folder was read as a file")
	}
	if _, err := pricing.Local(filepath.Join(folder, "missing")).Read(t.Context(), "openai"); err == nil || errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), folder) {
		t.Errorf("a missing folder gives %v, want a fault without its path", err)
	}
}
