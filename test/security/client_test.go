package security

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// clientKey is the provider credential that clients send, storedKey the one that
// the gateway stores. Either is a secret: only its provider may receive it.
const (
	clientKey = "sk-client-credential-987654"
	storedKey = "sk-stored-credential-654321"
)

// chatBody is a chat request that the provider of the suite answers.
const chatBody = `{"model":"gpt-4o","messages":[{"role":"user","content":"hello"}]}`

// response is a response of the gateway. err is how reading its body ended.
type response struct {
	status int
	header http.Header
	body   []byte
	err    error
}

// client follows no redirect and adds nothing.
var client = &http.Client{
	Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       patience,
}

// do sends a request and reads the response. The target (path and query) and the
// header names go out exactly as written; header holds names and values in turn.
// A body is JSON unless a Content-Type is given.
func (g *gateway) do(t *testing.T, method, target, body string, header ...string) response {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, g.root, r)
	if err != nil {
		t.Fatal(err)
	}
	path, query, asked := strings.Cut(target, "?")
	req.URL = &url.URL{Scheme: "http", Host: req.URL.Host, Opaque: path, RawQuery: query, ForceQuery: asked}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header[header[i]] = append(req.Header[header[i]], header[i+1])
	}
	if req.Header.Get("Content-Type") == "" && body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return response{res.StatusCode, res.Header, b, err}
}

// as sends a request with a gateway key or a session token.
func (g *gateway) as(t *testing.T, token, method, target, body string, header ...string) response {
	t.Helper()
	return g.do(t, method, target, body, append([]string{"x-gateway-api-key", token}, header...)...)
}

// expire lets a key end soon. On a loaded machine the time may pass before the request is
// read, which is then refused, so a later one is tried.
func (g *gateway) expire(t *testing.T, id string) {
	t.Helper()
	for ahead := 2 * time.Second; ; ahead *= 2 {
		end := time.Now().Add(ahead).UTC().Format(time.RFC3339Nano)
		r := g.as(t, rootKey, "PUT", "/v1/api-keys/"+id, `{"expires_at":"`+end+`"}`)
		if r.status == http.StatusOK || ahead > time.Minute {
			r.ok(t)
			return
		}
	}
}

// raw sends bytes over a connection of its own and returns everything that comes
// back until the gateway closes it, or for as long as it is silent for ten seconds.
func (g *gateway) raw(t *testing.T, text string) (received string, closed bool) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.root, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		return "", true
	}
	var all bytes.Buffer
	buf := make([]byte, 16<<10)
	for {
		conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, err := conn.Read(buf)
		all.Write(buf[:n])
		if err != nil {
			netErr, ok := err.(net.Error)
			return all.String(), !ok || !netErr.Timeout()
		}
	}
}

// responses parses a sequence of HTTP responses.
func responses(t *testing.T, text string) []response {
	t.Helper()
	var all []response
	r := bufio.NewReader(strings.NewReader(text))
	for {
		if _, err := r.Peek(1); err != nil {
			return all
		}
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("response %d does not parse: %v: %.300q", len(all)+1, err, text)
		}
		b, err := io.ReadAll(res.Body)
		all = append(all, response{res.StatusCode, res.Header, b, err})
	}
}

// object decodes the body of a reply.
func (r response) object(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	d := json.NewDecoder(bytes.NewReader(r.body))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("status %d, the body is not a JSON object: %v: %.300s", r.status, err, r.body)
	}
	return v
}

// text returns a member of the body, by a path such as "data.id". It is empty
// when the member is missing or not a string.
func (r response) text(t *testing.T, path string) string {
	t.Helper()
	var v any = r.object(t)
	for name := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	s, _ := v.(string)
	return s
}

// ok fails the test unless the reply is a complete 200.
func (r response) ok(t *testing.T) response {
	t.Helper()
	if r.status != http.StatusOK || r.err != nil {
		t.Fatalf("status %d (%v), want 200: %.400s", r.status, r.err, r.body)
	}
	return r
}

// refused fails the test unless the gateway refused with one of the statuses and
// a message that contains every word.
func (r response) refused(t *testing.T, status int, words ...string) response {
	t.Helper()
	if r.status != status {
		t.Fatalf("status %d, want %d: %.400s", r.status, status, r.body)
	}
	for _, w := range words {
		if !strings.Contains(string(r.body), w) {
			t.Errorf("status %d, the body does not name %q: %.400s", r.status, w, r.body)
		}
	}
	return r
}

// toCustomHost are the headers of a request to p as custom host with the
// client's own credential.
func toCustomHost(key string, p *provider, more ...string) []string {
	return append([]string{
		"x-gateway-api-key", key, "x-gateway-provider", "openai-compatible",
		"x-gateway-custom-host", p.url, "Authorization", "Bearer " + clientKey,
	}, more...)
}

// create posts body as token and returns the member of the response.
func (g *gateway) create(t *testing.T, token, path, body, member string) string {
	t.Helper()
	s := g.as(t, token, "POST", path, body).ok(t).text(t, member)
	if s == "" {
		t.Fatalf("POST %s: the response has no %s", path, member)
	}
	return s
}

// key makes a workspace key with the scopes and further fields and waits until
// the gateway accepts it.
func (g *gateway) key(t *testing.T, token, workspace string, scopes []string, more string) string {
	t.Helper()
	list, _ := json.Marshal(scopes)
	key := g.create(t, token, "/v1/api-keys/workspace/service", fmt.Sprintf(`{"name":"k","workspace_id":%q,"scopes":%s%s}`, workspace, list, more), "key")
	g.awaitKey(t, key)
	return key
}

// awaitKey waits until the gateway accepts a key that was just made.
func (g *gateway) awaitKey(t *testing.T, key string) {
	t.Helper()
	waittest.Until(t, "the gateway accepts the key", func() bool { return g.as(t, key, "GET", "/v1/auth/me", "").status != http.StatusUnauthorized })
}

// password is the password of every person of the suite.
const password = "a long password of the security suite"

// member invites a person, accepts the invitation and returns a session token.
// role is the role in the organisation, workspaces a JSON array of objects with
// id and role.
func (g *gateway) member(t *testing.T, name, role, workspaces string) (session string) {
	t.Helper()
	link := g.create(t, rootKey, "/v1/admin/users/invites", fmt.Sprintf(`{"email":"%s@example.com","role":%q,"workspaces":%s}`, name, role, workspaces), "invite_link")
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	return g.do(t, "POST", "/v1/auth/invites/accept", fmt.Sprintf(`{"token":%q,"password":%q}`, u.Query().Get("token"), password)).ok(t).text(t, "token")
}

// organisation makes a further organisation with `modelgate organisations
// create`, claims it and returns the session of its owner. Its workspace is
// called default.
func (g *gateway) organisation(t *testing.T, slug string) (owner string) {
	t.Helper()
	where := []string{"--data", g.data}
	if g.options.database != "" {
		where = []string{"--database-url", g.options.database}
	}
	out, errText, code := command(t, append([]string{"organisations", "create", "--name", slug, "--slug", slug}, where...)...)
	_, token, ok := strings.Cut(strings.TrimSpace(out), "/claim?token=")
	if code != 0 || !ok {
		t.Fatalf("organisations create: exit %d: %s%s", code, out, errText)
	}
	return g.do(t, "POST", "/v1/auth/claim", fmt.Sprintf(`{"token":%q,"email":"owner@%s.example","password":%q}`, token, slug, password)).ok(t).text(t, "token")
}

// onBothDatabases runs f as a subtest on SQLite and on a real PostgreSQL, both in
// parallel.
func onBothDatabases(t *testing.T, f func(t *testing.T, o options)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		f(t, options{})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		f(t, options{database: storetest.Postgres(t)})
	})
}
