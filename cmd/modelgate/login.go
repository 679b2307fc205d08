package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"modelgate/internal/base/secret"
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
// after parsing. It returns the base address without /v1.
func (f *flags) address() func() string {
	address := f.text("url", "MODELGATE_URL", "", "base `address` of the gateway, for example https://gate.example; overrides --listen")
	listen := f.text("listen", "MODELGATE_LISTEN", "127.0.0.1:8787", "`host:port` of the API")
	return func() string {
		base := strings.TrimSuffix(*address, "/")
		base = strings.TrimSuffix(strings.TrimSuffix(base, "/v1"), "/") // clients use it with /v1
		return cmp.Or(base, "http://"+*listen)
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
		base := address()
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
		if err := postForm(ctx, base+"/oauth/device_authorization", url.Values{"client_id": {clientID}, "device_name": {host}}, &d); err != nil {
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
		s, err := awaitApproval(ctx, base, d.Code, time.Duration(max(d.Interval, 1))*time.Second, time.Duration(d.Expires)*time.Second)
		if err != nil {
			return err
		}
		if err := changeSessions(func(list map[string]storedSession) { list[base] = s }); err != nil {
			return fmt.Errorf("you are signed in, but the session cannot be stored: %w", err)
		}
		p.printLine("Signed in to %s until %s.", base, s.ExpiresAt.Format(time.DateTime))
		return nil
	})
}

// awaitApproval asks for the session until somebody approves or denies it.
func awaitApproval(ctx context.Context, base, code string, interval, most time.Duration) (storedSession, error) {
	ends := time.Now().Add(most)
	for time.Now().Before(ends) {
		select {
		case <-ctx.Done():
			return storedSession{}, errors.New("interrupted; nothing was stored")
		case <-time.After(interval):
		}
		var out struct {
			Token     string `json:"access_token"`
			ExpiresIn int64  `json:"expires_in"`
		}
		err := postForm(ctx, base+"/oauth/token", url.Values{"grant_type": {deviceGrant}, "device_code": {code}, "client_id": {clientID}}, &out)
		refused, isRefused := errors.AsType[*oauthError](err)
		switch {
		case err == nil && out.Token != "":
			return storedSession{out.Token, time.Now().Add(time.Duration(out.ExpiresIn) * time.Second)}, nil
		case err == nil:
			return storedSession{}, errors.New("the gateway returned no session")
		case isRefused && refused.Code == "authorization_pending":
		case isRefused && refused.Code == "slow_down":
			interval += 5 * time.Second
		case isRefused && refused.Code == "temporarily_unavailable", !isRefused && ctx.Err() == nil:
			// A failure of the network is no answer (RFC 8628, section 3.5).
			interval = min(2*interval, time.Minute)
		case isRefused && refused.Code == "access_denied":
			return storedSession{}, errors.New("the sign-in was denied in the browser")
		case isRefused && refused.Code == "expired_token":
			return storedSession{}, errors.New("nobody approved the code in time; run the command again")
		case isRefused:
			return storedSession{}, err
		}
	}
	return storedSession{}, errors.New("nobody approved the code in time; run the command again")
}

// oauthError is an error of the authorization server.
type oauthError struct {
	Code        string `json:"error"`
	Description string `json:"error_description"`
}

// Error implements error.
func (e *oauthError) Error() string { return "the gateway returned " + e.Code + ": " + e.Description }

// postForm sends a form and decodes the response into out.
func postForm(ctx context.Context, address string, form url.Values, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil || req.URL.Host == "" || req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		return errAddress
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("User-Agent", "modelgate/"+version)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return connectionError(req, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return err
	}
	if res.StatusCode == http.StatusOK {
		return json.Unmarshal(text, out)
	}
	e := new(oauthError)
	if json.Unmarshal(text, e) == nil && e.Code != "" {
		return e
	}
	return apiError(res.StatusCode, text)
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
		base := address()
		token := sessionFor(base)
		if token.Empty() {
			return fmt.Errorf("you are not signed in to %s", base)
		}
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		_, err := apiClient{base + "/v1", token.Reveal()}.do(ctx, http.MethodPost, "/auth/logout", nil)
		if status, ok := errors.AsType[*statusError](err); err != nil && (!ok || status.code != http.StatusUnauthorized) {
			return err // the session is kept, so that it can be ended later
		}
		if err := changeSessions(func(list map[string]storedSession) { delete(list, base) }); err != nil {
			return err
		}
		p.printLine("Signed out of %s.", base)
		return nil
	})
}

// sessionFor returns the token of the stored session at a gateway, empty if there is none.
func sessionFor(base string) secret.String {
	list, err := readSessions()
	if s, ok := list[base]; err == nil && ok && time.Now().Before(s.ExpiresAt) {
		return secret.New(s.Token)
	}
	return secret.String{}
}
