package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"modelgate/internal/base/secret"
	"modelgate/internal/upstream"
)

// maxAnswer is the limit of what is read of a running gateway.
const maxAnswer = 4 << 20

func (o Options) health(ctx context.Context) ([]byte, error) {
	var b strings.Builder
	for _, path := range []string{"/health", "/ready"} {
		status, text, err := o.ask(ctx, path, secret.String{})
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%s: %d %s\n", path, status, strings.TrimSpace(string(text)))
	}
	return []byte(b.String()), nil
}

func (o Options) metrics(ctx context.Context) ([]byte, error) {
	status, text, err := o.ask(ctx, "/metrics", o.Diagnosis.Server.AdminToken)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("the admin listener answers with status %d", status)
		text = nil
	}
	return text, err
}

// ask sends GET to the admin listener of a running gateway. The token is sent only if the
// listener is on this machine.
func (o Options) ask(ctx context.Context, path string, token secret.String) (status int, text []byte, err error) {
	address := o.Diagnosis.Server.AdminListen
	switch {
	case address == "":
		return 0, nil, errors.New("there is no admin listener")
	case o.Diagnosis.Offline:
		return 0, nil, errOffline
	}
	client := upstream.New(upstream.Options{Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }})
	defer client.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, (&url.URL{Scheme: "http", Host: address, Path: path}).String(), nil)
	if err != nil {
		return 0, nil, errors.New("--admin-listen is not an address")
	}
	if !token.Empty() {
		if !isThisMachine(address) {
			return 0, nil, errors.New("the token is sent only to an admin address of this machine")
		}
		req.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	res, err := client.Do(req, false)
	if err != nil {
		return 0, nil, errors.New("no gateway answers at the admin address")
	}
	defer res.Body.Close()
	text, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return res.StatusCode, text, err
}

// isThisMachine reports whether an address that a gateway listens on can only be on this
// machine.
func isThisMachine(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(host)
	return host == "localhost" || host == "" || err == nil && (a.IsLoopback() || a.IsUnspecified())
}
