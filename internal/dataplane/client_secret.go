package dataplane

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/identity/access"
	"modelgate/internal/limits/quota"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/snapshot"
)

const (
	clientSecretsPath = api.BasePath + "/realtime/client_secrets"
	// clientSecretPrefix begins every client secret, as the vendor's do.
	clientSecretPrefix = "ek_"
	// maxSecretSession is the limit in bytes of the session in a client secret, which the
	// client sends in a header.
	maxSecretSession = 8 << 10
	// maxUsedSecrets is the number of used secrets that are remembered until they expire.
	maxUsedSecrets = 100_000
)

// mintRoute makes client secrets. They are the gateway's own: with one of the provider, the
// client would pass by the gateway.
var mintRoute = route{op: api.Realtime, body: bodyJSON, scope: access.ScopeCompletions, mints: true}

// clientSecret is what a client secret lets its holder do: begin one realtime session, with the
// key and the provider of the request that made it.
type clientSecret struct {
	ID       string          `json:"id"`
	Key      string          `json:"key"`
	Provider string          `json:"provider"`         // @slug; empty if the config names it
	Config   string          `json:"config,omitempty"` // as sent
	Model    string          `json:"model,omitempty"`  // without the provider
	Session  json.RawMessage `json:"session,omitempty"`
	Until    time.Time       `json:"until"`
}

// usedSecrets are the client secrets that have begun a session, until they expire.
type usedSecrets struct {
	mu    sync.Mutex
	until map[string]time.Time // by id; guarded by mu
}

// use reports whether a secret had not been used before.
func (u *usedSecrets) use(id string, until, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.until == nil {
		u.until = make(map[string]time.Time)
	}
	if len(u.until) >= maxUsedSecrets {
		for other, end := range u.until {
			if now.After(end) {
				delete(u.until, other)
			}
		}
	}
	if _, used := u.until[id]; used || len(u.until) >= maxUsedSecrets {
		return false
	}
	u.until[id] = until
	return true
}

// mintSecret answers a request for a client secret.
func (c *connection) mintSecret(w http.ResponseWriter, r *http.Request) error {
	p, x, a := c.plane, c.round, &c.round.admission
	if err := c.admit(r); err != nil {
		return p.earlierLimit(r.Context(), a, err)
	}
	if err := p.enterGate(r, a); err != nil {
		return err
	}
	if err := p.bufferPlain(r, a); err != nil {
		return err
	}
	if err := scan(a); err != nil {
		return err
	}
	grant, session, err := c.readSecretRequest()
	if err != nil {
		return err
	}
	if err := c.checkSecretTarget(&grant); err != nil {
		return err
	}
	sealed, err := json.Marshal(grant)
	if err != nil {
		return err
	}
	value := clientSecretPrefix + base64.RawURLEncoding.EncodeToString([]byte(p.Box.Seal(secret.New(string(sealed)))))
	x.admission.reportIgnored()
	x.setGatewayHeaders(w.Header())
	w.Header()["Cache-Control"] = []string{"no-store"}
	x.writeBytes(w, r, &exchange.Response{Status: http.StatusOK, Bytes: secretBody(value, &grant, session)})
	return nil
}

// readSecretRequest reads the body of a request for a client secret.
func (c *connection) readSecretRequest() (grant clientSecret, session jsonedit.Value, err error) {
	a := &c.round.admission
	life := 10 * time.Minute
	for name, v := range a.doc.Members() {
		switch name.String() {
		case "expires_after":
			if life, err = secretLifetime(v); err != nil {
				return grant, session, err
			}
		case "session":
			if session = v; v.Kind() != jsonedit.Object && !v.IsNull() {
				return grant, session, apierr.New(apierr.Invalid, "session must be an object").WithParam("session")
			}
		default:
			return grant, session, apierr.New(apierr.Invalid,
				"unknown parameter %.60q; a client secret has expires_after and session", name.String()).WithParam(name.String())
		}
	}
	grant = clientSecret{ID: rand.Text(), Key: a.request.Received.Key.Reveal(), Until: a.request.Time.Add(life).Truncate(time.Second)}
	if grant.Key == "" {
		return grant, session, apierr.New(apierr.Forbidden, "client secrets are made with a gateway key")
	}
	if len(session.Raw()) > maxSecretSession {
		return grant, session, apierr.New(apierr.Invalid,
			"the session has %d bytes, and a client secret holds %d; set the rest by session.update", len(session.Raw()), maxSecretSession).
			WithParam("session")
	}
	if session.Kind() == jsonedit.Object {
		a.request.Model = session.TextOf("model")
		grant.Session = fixedFields(session)
	}
	return grant, session, nil
}

// secretLifetime reads expires_after.
func secretLifetime(v jsonedit.Value) (time.Duration, error) {
	invalid := apierr.New(apierr.Invalid, "expires_after must have the anchor created_at and 10 to 7200 seconds").WithParam("expires_after")
	seconds, ok := int64(600), true
	for name, member := range v.Fields() {
		switch name.String() {
		case "anchor":
			if !member.IsText("created_at") {
				return 0, invalid
			}
		case "seconds":
			seconds, ok = member.Int()
		default:
			return 0, invalid
		}
	}
	if !ok || seconds < 10 || seconds > 7200 || v.Kind() != jsonedit.Object {
		return 0, invalid
	}
	return time.Duration(seconds) * time.Second, nil
}

// fixedFields returns the fields of a session that its client may not change: those that the
// secret sets, without the model, which the address of the session names. Nil for none.
func fixedFields(session jsonedit.Value) []byte {
	var doc jsonedit.Doc
	if doc.Scan(session.Raw()) != nil {
		return nil
	}
	if fields := doc.Apply(nil, jsonedit.Edit{Name: "model"}); doc.Len() > 1 || doc.Len() == 1 && session.TextOf("model") == "" {
		return fields
	}
	return nil
}

// checkSecretTarget completes a grant by its target, which the key may use now.
func (c *connection) checkSecretTarget(grant *clientSecret) error {
	x, a := c.round, &c.round.admission
	if a.opts.customHost != "" {
		return apierr.New(apierr.Invalid, "a client secret holds no custom host; use a managed provider").WithParam("x-gateway-custom-host")
	}
	a.request.Received.RequestedModel, a.entry.Model = a.request.Model, truncate(a.request.Model)
	grant.Config = a.request.Received.Header.Get(api.HeaderConfig)
	if !a.opts.namesTarget() {
		a.splitModel()
	}
	if a.request.Model != "" {
		grant.Model = a.request.Model
	}
	grant.Provider = a.opts.provider
	if grant.Provider == "" && a.opts.virtualKey != "" {
		grant.Provider = "@" + strings.TrimPrefix(a.opts.virtualKey, "@")
	}
	if grant.Config == "" && !strings.HasPrefix(grant.Provider, "@") && a.opts.config == "" {
		return apierr.New(apierr.Invalid, "a client secret needs a managed provider; put it before the model, as in @slug/model").WithParam("session.model")
	}
	a.request.Operation, a.request.Received.Path = api.Proxy, "/realtime"
	_, err := x.targets.handler()
	return err
}

// secretBody returns the response with a new secret.
func secretBody(value string, grant *clientSecret, session jsonedit.Value) []byte {
	b := jsonedit.Append(nil)
	b.Open('{')
	b.Name("value")
	b.String(value)
	b.Name("expires_at")
	b.Int(grant.Until.Unix())
	b.Name("session")
	b.Open('{')
	b.Name("object")
	b.String("realtime.session")
	b.Name("id")
	b.String("sess_" + grant.ID)
	if session.TextOf("type") == "" {
		b.Name("type")
		b.String("realtime")
	}
	for name, v := range session.Fields() {
		if !name.Is("object") && !name.Is("id") {
			b.Key(name.String())
			b.Raw(v.Raw())
		}
	}
	b.Close('}')
	b.Close('}')
	return b.Bytes()
}

// useClientSecret takes the place of a client secret in the headers h by the key, the provider
// and the config of the request that made it.
func (c *connection) useClientSecret(h http.Header) error {
	a := &c.round.admission
	value := snapshot.Bearer(h)
	if !strings.HasPrefix(value, clientSecretPrefix) {
		return nil
	}
	grant, ok := openSecret(a.plane.Box, value)
	now := a.request.Time
	refused := func(code, message string) error {
		return apierr.New(apierr.Unauthenticated, "%s", message).WithParam("authorization").WithCode(code)
	}
	switch {
	case !ok:
		return refused("", "the client secret is not valid; make another one by POST /v1/realtime/client_secrets")
	case !now.Before(grant.Until):
		return refused("client_secret_expired", "the client secret has expired; make another one by POST /v1/realtime/client_secrets")
	}
	for name, value := range map[string]string{api.HeaderProvider: grant.Provider, api.HeaderConfig: grant.Config} {
		if sent := h.Get(name); sent != "" && sent != value {
			return apierr.New(apierr.Forbidden, "the client secret is for another value of %s; leave the header out", strings.ToLower(name)).
				WithParam(strings.ToLower(name)).WithCode("session_field_fixed")
		}
		if h.Del(name); value != "" {
			h[name] = []string{value}
		}
	}
	if err := c.useSecretModel(grant.Model); err != nil {
		return err
	}
	c.grant = &grant
	delete(h, "Authorization")
	h[api.HeaderKey] = []string{grant.Key}
	if len(grant.Session) > 0 {
		c.fixed = grant.Session
	}
	return nil
}

// secretTime is the time limit of storing that a client secret was used.
const secretTime = 5 * time.Second

// checkFirstUse returns an error if the client secret of the session has been used before, by any
// gateway. If that is unknown, the session does not begin.
func (c *connection) checkFirstUse() error {
	if c.grant == nil {
		return nil
	}
	p, a := c.plane, &c.round.admission
	first := p.secrets.use(c.grant.ID, c.grant.Until, a.request.Time)
	if first && p.UseSecret != nil {
		ctx, cancel := context.WithTimeout(context.Background(), secretTime)
		defer cancel()
		var err error
		if first, err = p.UseSecret(ctx, a.request.Identity, c.grant.ID, c.grant.Until); err != nil {
			e := apierr.New(apierr.Unavailable, "the client secret cannot be checked now; make another one and try again shortly").
				WithCode("client_secret_unchecked").WithCause(err)
			e.RetryAfter = time.Second
			return e
		}
	}
	if !first {
		return apierr.New(apierr.Unauthenticated,
			"the client secret has begun a session already; make another one by POST /v1/realtime/client_secrets").
			WithParam("authorization").WithCode("client_secret_used")
	}
	return nil
}

// useSecretModel sets the model of a session in its query.
func (c *connection) useSecretModel(model string) error {
	a := &c.round.admission
	if model == "" {
		return nil
	}
	values, err := url.ParseQuery(a.request.Received.Query)
	if err != nil {
		return nil // refused later
	}
	sent := values.Get("model")
	if _, bare, prefixed := strings.Cut(sent, "/"); prefixed && strings.HasPrefix(sent, "@") {
		sent = bare
	}
	switch {
	case sent != "" && sent != model:
		return apierr.New(apierr.Forbidden, "the client secret is for the model %.100q", model).WithParam("model").WithCode("session_field_fixed")
	case sent != "":
		a.request.Received.Query = replaceModel(a.request.Received.Query, model)
	case a.request.Received.Query == "":
		a.request.Received.Query = "model=" + url.QueryEscape(model)
	default:
		a.request.Received.Query += "&model=" + url.QueryEscape(model)
	}
	c.fixedModel = true
	return nil
}

// openSecret opens a client secret.
func openSecret(box *secret.Box, value string) (grant clientSecret, ok bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(value, clientSecretPrefix))
	if err != nil {
		return grant, false
	}
	opened, err := box.Open(string(sealed))
	if err != nil {
		return grant, false
	}
	err = json.Unmarshal([]byte(opened.Reveal()), &grant)
	return grant, err == nil && grant.ID != "" && grant.Key != ""
}

// checkMedia returns an error for a call of the keeper that begins a realtime call which nobody
// would count or could check.
func checkMedia(p *Plane, a *admission) error {
	if a.call == nil {
		return nil
	}
	if a.request.Begins && !a.request.Manages {
		if err := checkUnguarded(p, a); err != nil {
			return err
		}
	}
	return checkUnmetered(p, a)
}

// checkUnmetered returns an error for a request that connects a client and a provider directly,
// so that nobody counts what they use, if its key has limits of tokens or money. Requests that
// the keeper serves are checked when their targets are known.
func checkUnmetered(p *Plane, a *admission) error {
	path := strings.TrimSuffix(lenient(a.request.Received.Path), "/")
	if p.UnmeteredCalls || a.request.Operation != api.Proxy || a.request.Received.Method != http.MethodPost ||
		path != "/realtime/calls" && path != "/realtime/translations/calls" {
		return nil
	}
	if a.call == nil && a.goesToKeeper() || a.call != nil && a.call.Metered && a.leadsToManaged() {
		return nil
	}
	for _, l := range a.request.Limiting.Limits {
		if l.Measure == quota.Tokens || l.Measure == quota.Cost {
			return apierr.New(apierr.Forbidden, "the media of a call does not pass through the gateway, and this gateway key has limits of tokens or money; "+
				"use a WebSocket connection to /v1/realtime, or a key without such limits (realtime.unmetered_calls)").
				WithParam("path").WithCode("call_unmetered")
		}
	}
	return nil
}

// leadsToManaged reports whether all targets of a request are managed providers, or unknown.
func (a *admission) leadsToManaged() bool {
	for _, leaf := range a.request.Leaves {
		if leaf.Target != nil && leaf.Target.Slug == "" {
			return false
		}
	}
	return true
}
