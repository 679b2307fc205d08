package pricing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"modelgate/internal/storage/blob"
)

// Proxy returns a source that asks a server: GET {base}/{kind}/{provider}, and with
// the suffix .json if there is no such file. Do sends a request. Errors do not
// contain the address, which may have credentials.
func Proxy(base *url.URL, kind string, do func(*http.Request) (*http.Response, error)) Source {
	get := func(ctx context.Context, name string) (*http.Response, error) {
		u := *base
		u.Path = strings.TrimSuffix(u.Path, "/") + "/" + kind + "/" + name
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", "application/json")
		res, err := do(req)
		if err != nil {
			return nil, fmt.Errorf("the proxy is unavailable: %w", err)
		}
		return res, nil
	}
	return Source{"proxy", func(ctx context.Context, provider string) (io.ReadCloser, error) {
		res, err := get(ctx, provider)
		if err == nil && res.StatusCode == http.StatusNotFound {
			res.Body.Close()
			res, err = get(ctx, provider+".json")
		}
		switch {
		case err != nil:
			return nil, err
		case res.StatusCode == http.StatusNotFound:
			res.Body.Close()
			return nil, fs.ErrNotExist
		case res.StatusCode != http.StatusOK:
			res.Body.Close()
			return nil, fmt.Errorf("the proxy responded with status %d", res.StatusCode)
		}
		return res.Body, nil
	}}
}

// ParseProxy returns the address of a proxy.
func ParseProxy(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("must be an http or https address without a query")
	}
	return u, nil
}

// LogStore returns a source that reads {folder}/{provider}.json from a file store.
func LogStore(files blob.Store, folder string) Source {
	return Source{"log store", func(ctx context.Context, provider string) (io.ReadCloser, error) {
		return files.Get(ctx, path.Join(strings.Trim(folder, "/"), provider+".json"))
	}}
}

// Local returns a source that reads {folder}/{provider}.json from the disk.
func Local(folder string) Source {
	return Source{"local", func(_ context.Context, provider string) (io.ReadCloser, error) {
		if _, err := os.Stat(folder); err != nil {
			return nil, errors.New("the folder cannot be read")
		}
		name := filepath.Join(folder, provider+".json")
		info, err := os.Stat(name) // before opening: a pipe would block
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fs.ErrNotExist
		case err != nil:
			return nil, fmt.Errorf("%s.json cannot be read", provider)
		case !info.Mode().IsRegular():
			return nil, fmt.Errorf("%s.json is not a regular file", provider)
		}
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("%s.json cannot be read", provider)
		}
		return f, nil
	}}
}
