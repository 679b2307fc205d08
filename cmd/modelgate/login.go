package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"modelgate/cmd/modelgate/gateway"
)

const loginHelp = `Signs in to a gateway as yourself: prints an address and a code, and waits until you have
approved the code there in a browser, in which you sign in as usual. The session is
stored in sessions.json in the folder modelgate of your configuration folder, readable
by you alone. Commands that ask a gateway, such as tail, use it if they have no key.`

const logoutHelp = `Ends the session that login began at a gateway, and forgets it.`

// clientID is the name of command lines at the gateway's authorization server.
const clientID = "modelgate-cli"

// deviceGrant is the grant type of RFC 8628.
const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// address adds the flags for the address of a gateway. The returned function must be called
// after parsing. It returns options with the base address without /v1.
func (f *flags) address() func() gateway.Options {
	address := f.text("url", "MODELGATE_URL", "", "base `address` of the gateway, for example https://gate.example; overrides --listen")
	listen := f.text("listen", "MODELGATE_LISTEN", "127.0.0.1:8787", "`host:port` of the API")
	ca := f.text("ca", "MODELGATE_CA", "", "`file` with the certificate of a private authority")
	return func() gateway.Options {
		return gateway.Options{Address: cmp.Or(gateway.Base(*address), "http://"+*listen), CA: *ca, Agent: "modelgate/" + version}
	}
}

// login signs in to a gateway by the device flow (RFC 8628).
func login(p *program) *cobra.Command {
	f := p.flags("login",
		loginHelp,
		"modelgate login --url https://gateway.example.com")
	address := f.address()
	open := f.Bool("open", false, "also open the address in a browser of this machine")
	return f.run(func(ctx context.Context) error {
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		o := address()
		o.Anonymous, o.Timeout = true, requestTimeout
		to, err := connect(o)
		if err != nil {
			return err
		}
		base := to.Address()
		host, err := os.Hostname()
		if err != nil {
			host = "a command line"
		}
		if r := []rune(host); len(r) > 64 {
			host = string(r[:64])
		}
		var d struct {
			Code     string `json:"device_code"`
			User     string `json:"user_code"`
			URI      string `json:"verification_uri"`
			Complete string `json:"verification_uri_complete"`
			Expires  int64  `json:"expires_in"`
			Interval int64  `json:"interval"`
		}
		if err := postForm(ctx, to, "/oauth/device_authorization", url.Values{"client_id": {clientID}, "device_name": {host}}, &d); err != nil {
			return err
		}
		if u, err := url.Parse(d.URI); err != nil || u.Scheme != "https" && u.Scheme != "http" || d.Code == "" {
			return errors.New("the response is not one of a gateway; check the address (--url)")
		}
		if u, err := url.Parse(base); err == nil && u.Scheme == "http" && !isLoopback(u.Hostname()) {
			fmt.Fprintln(p.err, "modelgate login: the connection is not encrypted: whoever can read it can use the session")
		}
		p.printLine("Open %s in a browser, sign in, and enter the code", d.URI)
		fmt.Fprintln(p.out)
		p.printLine("  %s", d.User)
		fmt.Fprintln(p.out)
		p.printLine("Waiting for the approval, for %d minutes at most.", d.Expires/60)
		if *open {
			if err := openBrowser(ctx, cmp.Or(d.Complete, d.URI)); err != nil {
				fmt.Fprintf(p.err, "modelgate login: the browser could not be opened: %s\n", stripLines(err.Error()))
			}
		}
		s, err := awaitApproval(ctx, to, d.Code, time.Duration(max(d.Interval, 1))*time.Second, time.Duration(d.Expires)*time.Second)
		if err != nil {
			return err
		}
		if err := gateway.ChangeSessions(func(list map[string]gateway.StoredSession) { list[base] = s }); err != nil {
			return fmt.Errorf("you are signed in, but the session cannot be stored: %w", err)
		}
		p.printLine("Signed in to %s until %s.", base, s.ExpiresAt.Format(time.DateTime))
		return nil
	})
}

// awaitApproval asks for the session until somebody approves or denies it.
func awaitApproval(ctx context.Context, to *gateway.Client, code string, interval, most time.Duration) (gateway.StoredSession, error) {
	ends := time.Now().Add(most)
	for time.Now().Before(ends) {
		select {
		case <-ctx.Done():
			return gateway.StoredSession{}, errors.New("interrupted; nothing was stored")
		case <-time.After(interval):
		}
		var out struct {
			Token     string `json:"access_token"`
			ExpiresIn int64  `json:"expires_in"`
		}
		err := postForm(ctx, to, "/oauth/token", url.Values{"grant_type": {deviceGrant}, "device_code": {code}, "client_id": {clientID}}, &out)
		refused, isRefused := errors.AsType[*oauthError](err)
		switch {
		case err == nil && out.Token != "":
			return gateway.StoredSession{Token: out.Token, ExpiresAt: time.Now().Add(time.Duration(out.ExpiresIn) * time.Second)}, nil
		case err == nil:
			return gateway.StoredSession{}, errors.New("the gateway returned no session")
		case isRefused && refused.Code == "authorization_pending":
		case isRefused && refused.Code == "slow_down":
			interval += 5 * time.Second
		case isRefused && refused.Code == "temporarily_unavailable", !isRefused && ctx.Err() == nil:
			// A failure of the network is no answer (RFC 8628, section 3.5).
			interval = min(2*interval, time.Minute)
		case isRefused && refused.Code == "access_denied":
			return gateway.StoredSession{}, errors.New("the sign-in was denied in the browser")
		case isRefused && refused.Code == "expired_token":
			return gateway.StoredSession{}, errors.New("nobody approved the code in time; run the command again")
		case isRefused:
			return gateway.StoredSession{}, err
		}
	}
	return gateway.StoredSession{}, errors.New("nobody approved the code in time; run the command again")
}

// oauthError is an error of the authorization server.
type oauthError struct {
	Code        string `json:"error"`
	Description string `json:"error_description"`
}

// Error implements error.
func (e *oauthError) Error() string { return "the gateway returned " + e.Code + ": " + e.Description }

// requestTimeout is the limit of a request and its response.
const requestTimeout = 30 * time.Second

// postForm sends a form and decodes the response into out.
func postForm(ctx context.Context, to *gateway.Client, path string, form url.Values, out any) error {
	response, err := to.Do(ctx, gateway.Request{Method: http.MethodPost, Path: path, Body: []byte(form.Encode()),
		Type: "application/x-www-form-urlencoded"})
	if status, ok := errors.AsType[*gateway.StatusError](err); ok {
		if e := new(oauthError); json.Unmarshal(status.Body, e) == nil && e.Code != "" {
			return e
		}
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(response, out)
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// openBrowser opens an http address in the browser of the desktop.
func openBrowser(ctx context.Context, address string) error {
	if u, err := url.Parse(address); err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("the address is not of a web page")
	}
	command := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	return exec.CommandContext(ctx, command[0], append(command[1:], address)...).Start()
}

// logout ends the session at a gateway.
func logout(p *program) *cobra.Command {
	f := p.flags("logout",
		logoutHelp,
		"modelgate logout --url https://gateway.example.com")
	address := f.address()
	return f.run(func(ctx context.Context) error {
		o := address()
		o.Timeout = requestTimeout
		to, err := connect(o)
		if err != nil {
			return err
		}
		base := to.Address()
		if gateway.Session(base).Empty() {
			return fmt.Errorf("you are not signed in to %s", base)
		}
		_, err = to.Do(ctx, gateway.Request{Method: http.MethodPost, Path: "/v1/auth/logout"})
		if status, ok := errors.AsType[*gateway.StatusError](err); err != nil && (!ok || status.Code != http.StatusUnauthorized) {
			return err // the session is kept, so that it can be ended later
		}
		if err := gateway.ChangeSessions(func(list map[string]gateway.StoredSession) { delete(list, base) }); err != nil {
			return err
		}
		p.printLine("Signed out of %s.", base)
		return nil
	})
}
