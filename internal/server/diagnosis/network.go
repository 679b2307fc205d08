package diagnosis

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"modelgate/internal/base/oserr"
	"modelgate/internal/server"
	"modelgate/internal/upstream"
)

// listenChecks returns the checks of the addresses that the gateway listens on.
func (in *input) listenChecks() []check {
	list := []check{{"API address", false, func(ctx context.Context) []Finding { return in.checkListen(ctx, in.Server.Listen, false) }}}
	if a := in.Server.AdminListen; a != "" {
		list = append(list, check{"admin address", false, func(ctx context.Context) []Finding { return in.checkListen(ctx, a, true) }})
	}
	return list
}

func (in *input) checkListen(ctx context.Context, address string, admin bool) []Finding {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return in.checkRunning(ctx, address, admin)
	}
	if err != nil {
		_, err = server.Bind("", address)
		if err == nil {
			err = errors.New("it could not be used a moment ago; try again")
		}
		return one(Failed, "", "%s", strings.TrimSpace(err.Error()))
	}
	defer l.Close()
	if admin {
		if err := server.CheckAdmin(l.Addr(), in.Server.AdminToken); err != nil {
			return one(Failed, "", "%v", err)
		}
	}
	return one(OK, "", "%s is free", address)
}

// checkRunning asks whether the process that listens on an address is a gateway.
func (in *input) checkRunning(ctx context.Context, address string, admin bool) []Finding {
	if in.Offline {
		return one(Note, "", "%s is in use, perhaps by a running gateway; not asked, because --offline makes no connections", address)
	}
	if !admin && (in.settings.Listener.TLS.Enabled() || in.settings.Listener.ProxyProtocol) {
		return one(Note, "", "%s is in use; the admin address says whether by a running gateway", address)
	}
	u := &url.URL{Scheme: "http", Host: address, Path: "/ready"}
	status, text, err := in.fetch(ctx, in.direct, u)
	switch {
	case err == nil && strings.HasPrefix(text, "ready"):
		return one(OK, "", "%s: a running gateway answers: %s", address, text)
	case err == nil && status == http.StatusServiceUnavailable:
		return one(Failed, "see \"Health and readiness\" in docs/operations.md", "%s: a running gateway answers: %s", address, text)
	}
	return one(Failed, "stop the other program, or choose another address (see --help)", "%s is in use by another program", address)
}

// fetch returns the status and the first line of a response, up to 200 bytes.
func (in *input) fetch(ctx context.Context, client *upstream.Client, u *url.URL) (status int, line string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return 0, "", err
	}
	res, err := client.Do(req, false)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 200))
	line, _, _ = strings.Cut(string(body), "\n")
	return res.StatusCode, line, err
}

// proxyVariables are the variables that choose a proxy.
var proxyVariables = []string{"HTTPS_PROXY", "HTTP_PROXY"}

// proxyChecks returns the checks of the proxies that the environment names.
func (in *input) proxyChecks() (list []check) {
	for _, name := range proxyVariables {
		value := in.variable(name)
		if value == "" {
			continue
		}
		list = append(list, check{"proxy", true, func(ctx context.Context) []Finding { return in.checkProxy(ctx, name, value) }})
	}
	if list == nil {
		return []check{{"proxy", false, func(context.Context) []Finding {
			return one(Note, "", "none (HTTPS_PROXY and HTTP_PROXY are not set)")
		}}}
	}
	return list
}

// variable returns a variable in capitals, otherwise in small letters, as net/http reads it.
func (in *input) variable(name string) string {
	if v := in.Environment(name); v != "" {
		return v
	}
	return in.Environment(strings.ToLower(name))
}

func (in *input) checkProxy(ctx context.Context, name, value string) []Finding {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" {
		u, err = url.Parse("http://" + value)
	}
	if err != nil || u.Hostname() == "" {
		return one(Failed, "write it as http://proxy.example.com:3128", "%s is not an address", name)
	}
	at := &url.URL{Scheme: "http", Host: u.Host}
	if u.Scheme == "https" {
		at.Scheme = "https"
	}
	steps := in.direct.Reach(ctx, at, false)
	if f := failureOf(steps); f != nil {
		text, fix := explain(f)
		return one(Failed, fix, "%s names %s: %s", name, u.Host, text)
	}
	text := fmt.Sprintf("%s names %s, which accepts connections", name, u.Host)
	if n := in.variable("NO_PROXY"); n != "" {
		text += "; NO_PROXY exempts " + n
	}
	return one(OK, "", "%s; custom hosts and webhooks do not use it", text)
}

func failureOf(steps []upstream.Step) *upstream.Failure {
	for _, s := range steps {
		if s.Failure != nil {
			return s.Failure
		}
	}
	return nil
}

// fixes say what to do about a failed connection.
var fixes = map[upstream.FailureKind]string{
	upstream.DNS:  "check the name, and the name server in /etc/resolv.conf",
	upstream.Dial: "check the firewall, and whether HTTPS_PROXY must name a proxy",
	upstream.TLS: "check the certificate of the host; a private authority must be in upstream.ca, or among the system's; " +
		"a proxy may exchange certificates",
	upstream.Reset:        "check the port, the firewall and the proxy",
	upstream.TotalTimeout: "it is slow, or a firewall drops its packets: check both, and whether HTTPS_PROXY must name a proxy",
	upstream.BadResponse:  "check that the address is one of an HTTP server, and the credentials of the proxy",
}

// explain returns the text of a failure, and what to do about it.
func explain(f *upstream.Failure) (text, fix string) {
	if f.Kind == upstream.Refused {
		return f.Reason(), "the gateway refuses it; correct the address, or trust the host with upstream.trusted_hosts"
	}
	return f.Reason(), fixes[f.Kind]
}

// publicURLChecks returns the check of the address that users have.
func (in *input) publicURLChecks() []check {
	public := in.publicURL()
	if public == "" {
		return []check{{"public_url", false, func(context.Context) []Finding {
			return one(Note, "", "not set: links begin with the listen address")
		}}}
	}
	return []check{{"public_url", true, func(ctx context.Context) []Finding {
		u, err := url.Parse(public)
		if err != nil || u.Host == "" {
			return one(Failed, "write it as https://gateway.example.com", "it is not an address")
		}
		health := u.JoinPath("health")
		health.User, health.RawQuery = nil, ""
		list, res := in.request(ctx, in.client, health, false)
		if res == nil {
			list[0].Level = Warning // perhaps it is reached only from outside
			return list
		}
		if res.status != http.StatusOK || res.line != "ok" {
			return one(Warning, "check that the name leads to the gateway, and that the proxy in front of it passes requests on",
				"%s/health answers with status %d, not as a running gateway", u.Host, res.status)
		}
		return list
	}}}
}

// destinationChecks returns the check of each address that model requests go to, except for
// those of known. Several providers often have the same.
func (in *input) destinationChecks(all, known []server.Destination) (list []check) {
	type group struct {
		server.Destination
		owners []string
	}
	var order []*group
	groups := make(map[string]*group)
	for i, d := range slices.Concat(known, all) {
		key := d.Owner
		if d.Err == nil && d.Base != nil {
			key = fmt.Sprint(d.Base.Scheme, d.Base.Host, d.Base.Path, d.Guarded)
		}
		g, ok := groups[key]
		if !ok {
			g = &group{Destination: d}
			groups[key] = g
			if i >= len(known) {
				order = append(order, g)
			}
		}
		if !slices.Contains(g.owners, d.Owner) {
			g.owners = append(g.owners, d.Owner)
		}
	}
	for _, g := range order {
		if g.Err == nil && g.Base == nil {
			continue
		}
		name := g.owners[0]
		if n := len(g.owners) - 1; n > 0 {
			name = fmt.Sprintf("%s and %d more", name, n)
		}
		d := g.Destination
		list = append(list, check{name, d.Err == nil, func(ctx context.Context) []Finding { return in.checkDestination(ctx, d) }})
	}
	return list
}

// checkDestination sends a request without a credential. Any status is an answer.
func (in *input) checkDestination(ctx context.Context, d server.Destination) []Finding {
	if d.Err != nil {
		return one(Failed, "correct the provider or the policy", "no request can be sent: %v", d.Err)
	}
	if d.Guarded {
		checked := &url.URL{Scheme: d.Base.Scheme, Host: d.Base.Host, Path: d.Base.Path, User: d.Base.User}
		if _, err := in.client.CheckHost(checked.String()); err != nil {
			return one(Failed, "correct the address, or trust the host with upstream.trusted_hosts", "%v", err)
		}
	}
	list, _ := in.request(ctx, in.client, &url.URL{Scheme: d.Base.Scheme, Host: d.Base.Host, Path: d.Base.Path}, d.Guarded)
	return list
}

// response is what is used of a response.
type response struct {
	status int
	line   string // the first
}

// request sends GET to an address and describes what came back. The response is nil for none.
func (in *input) request(ctx context.Context, client *upstream.Client, u *url.URL, guarded bool) ([]Finding, *response) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return one(Failed, "correct the address", "%s is not an address", u.Host), nil
	}
	began := time.Now()
	res, err := client.Do(req, guarded)
	ended := time.Now()
	if err != nil {
		f := upstream.Classify(req, err)
		text, fix := explain(f)
		return one(Failed, fix, "%s: %s", u.Host, text), nil
	}
	defer res.Body.Close()
	in.clock.addHeader(u.Host, res.Header, began, ended)
	got := &response{status: res.StatusCode}
	if res.ContentLength >= 0 && res.ContentLength < 200 {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 200))
		got.line, _, _ = strings.Cut(string(body), "\n")
	}
	text := fmt.Sprintf("%s answers with status %d after %s", u.Host, res.StatusCode, ended.Sub(began).Round(time.Millisecond))
	if through := in.proxyOf(req, guarded); through != "" {
		text += ", through the proxy " + through
	}
	level, fix := OK, ""
	if res.StatusCode == http.StatusProxyAuthRequired {
		level, fix = Failed, "set the user and the password of the proxy in HTTPS_PROXY"
	}
	if c := leaf(res); c != nil {
		worse, renew, validity := certificate(c, time.Now())
		if text += "; " + validity; worse != OK && level == OK {
			level, fix = worse, renew
		}
	}
	return one(level, fix, "%s", text), got
}

func leaf(res *http.Response) *x509.Certificate {
	if res.TLS == nil || len(res.TLS.PeerCertificates) == 0 {
		return nil
	}
	return res.TLS.PeerCertificates[0]
}

// proxyOf returns the host of the proxy that a request uses, empty for none.
func (in *input) proxyOf(req *http.Request, guarded bool) string {
	choose := in.Server.Upstream.Proxy
	if choose == nil {
		choose = http.ProxyFromEnvironment
	}
	u, err := choose(req)
	if guarded || err != nil || u == nil {
		return ""
	}
	return u.Host
}

// serviceChecks returns the checks of the other services that the settings name.
func (in *input) serviceChecks() (list []check) {
	set := in.settings
	if set.Blob.S3.Configured() {
		list = append(list, in.reachCheck("bucket", set.Blob.S3.Endpoint, false))
	}
	if set.Telemetry.Endpoint != "" {
		list = append(list, in.reachCheck("telemetry", set.Telemetry.Endpoint, false))
	}
	for i := range set.Alerts.Webhooks {
		list = append(list, in.reachCheck(fmt.Sprintf("alerts.webhooks[%d]", i), set.Alerts.Webhooks[i].Webhook().URL, true))
	}
	if set.Audit.Webhook.URL != "" {
		list = append(list, in.reachCheck("audit.webhook", set.Audit.Webhook.URL, false))
	}
	if email := &set.Alerts.Email; email.Server != "" {
		list = append(list, check{"mail server", true, func(ctx context.Context) []Finding {
			m, err := email.Mail()
			if err == nil {
				began := time.Now()
				if err = m.Contact(ctx); err == nil {
					return one(OK, "", "%s accepts the sign-in after %s", email.Server, time.Since(began).Round(time.Millisecond))
				}
			}
			reason := oserr.ConnectionReason(err)
			if reason == "" {
				reason = err.Error()
			}
			return one(Failed, "check alerts.email: server, tls, ca, user and password", "%s: %s", email.Server, reason)
		}})
	}
	return list
}

// reachCheck returns the check that an address can be connected to. Nothing is sent, because
// addresses of webhooks may contain secrets.
func (in *input) reachCheck(name, address string, guarded bool) check {
	return check{name, true, func(ctx context.Context) []Finding {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" {
			return one(Failed, "write it as https://host/path", "it is not an address")
		}
		began := time.Now()
		steps := in.client.Reach(ctx, &url.URL{Scheme: u.Scheme, Host: u.Host}, guarded)
		if f := failureOf(steps); f != nil {
			text, fix := explain(f)
			return one(Failed, fix, "%s: %s", u.Host, text)
		}
		for _, s := range steps {
			if s.Kind == upstream.StepConnect && s.Skipped != "" {
				return one(Note, "", "%s: not connected to, because %s", u.Host, s.Skipped)
			}
		}
		return one(OK, "", "%s accepts connections after %s", u.Host, time.Since(began).Round(time.Millisecond))
	}}
}

// endpointChecks returns the checks of the hosts of webhook endpoints in the database.
func (in *input) endpointChecks() (list []check) {
	seen := make(map[string]bool)
	for i := range in.state.endpoints {
		e := &in.state.endpoints[i]
		u, err := url.Parse(e.URL)
		if err == nil && seen[u.Scheme+u.Host] {
			continue
		}
		if err == nil {
			seen[u.Scheme+u.Host] = true
		}
		list = append(list, in.reachCheck("webhook "+e.Name, e.URL, true))
	}
	return list
}
