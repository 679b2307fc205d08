package dataplane

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/guardrail"
	"modelgate/internal/identity/access"
	"modelgate/internal/pipeline"
	"modelgate/internal/pipeline/guarding"
	"modelgate/internal/pipeline/routing"
)

// tree returns the compiled config. The options of the headers that change its
// root are part of its key. The state of its targets does not depend on them,
// except for the provider that the request chooses.
func (rs *resolver) tree(text string) (*pipeline.Tree, error) {
	key := treeKey{
		text: text, workspace: rs.admission.request.Identity.Workspace, timeout: rs.admission.opts.rootTimeout(),
		forward:    strings.Join(rs.admission.opts.forward, ","),
		customHost: rs.admission.opts.customHost, noCode: rs.compilation().NoCode,
	}
	if rs.admission.opts.strict != nil {
		key.strict, key.isSet = *rs.admission.opts.strict, true
	}
	t, err := rs.compiled(key)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(t.Leaves, providerFromRequest) {
		if err := rs.chooseProvider(); err != nil {
			return nil, err
		}
		key.chosen = rs.providerKey()
	}
	if sent := rs.admission.request.Received.Header["Authorization"]; rs.admission.ownKey && len(sent) > 0 &&
		slices.ContainsFunc(t.Leaves, needsClientKey) {
		sum := sha256.Sum256([]byte(sent[0]))
		key.chosen += hex.EncodeToString(sum[:8])
	}
	if key.chosen == "" {
		return t, nil
	}
	return rs.compiled(key)
}

func (rs *resolver) compiled(key treeKey) (*pipeline.Tree, error) {
	cache := rs.admission.plane.trees
	k := cache.get(key)
	if k == nil {
		var err error
		if k, err = cache.make(key, func() (int, func() *pipeline.Tree, error) { return rs.parse(key) }); err != nil {
			return nil, err
		}
	}
	rs.trees = append(rs.trees, k)
	return k.tree, nil
}

// compilation says how the checks of a config are compiled. An inline config may be that
// of anyone who may send requests, so code in it needs a key that may create guardrails.
func (rs *resolver) compilation() guardrail.Compilation {
	saved := rs.admission.entry.Config != ""
	return guardrail.Compilation{Organisation: rs.admission.request.Identity.Organisation,
		NoCode: !saved && !rs.admission.request.Identity.May(access.ScopeGuardrailsCreate), Admitted: saved}
}

// parse parses the config of key. It returns its size and the function that
// compiles it.
func (rs *resolver) parse(key treeKey) (int, func() *pipeline.Tree, error) {
	p := rs.admission.plane
	root, err := config.Parse([]byte(key.text))
	if err != nil {
		return 0, nil, apierr.New(apierr.Invalid, "%v", err).WithParam("x-gateway-config").WithCode("AB01")
	}
	if p.Guardrails != nil {
		if err := guarding.Check(root, p.Guardrails.For(rs.compilation())); err != nil {
			return 0, nil, apierr.New(apierr.Invalid, "%v", err).WithParam("x-gateway-config").WithCode("AB01")
		}
	}
	return root.Size(), func() *pipeline.Tree {
		state := sha256.Sum256([]byte(routing.Key(root) + " " + key.workspace + " " + key.customHost + " " + key.chosen))
		return p.compiler.Compile(rs.admission.opts.applyTo(root), hex.EncodeToString(state[:16]))
	}, nil
}

// providerKey returns a hash of the provider, its options and the client's
// credential. It keeps the breaker state of different clients apart.
func (rs *resolver) providerKey() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q", rs.admission.opts.provider, rs.admission.opts.virtualKey)
	if len(rs.admission.opts.options) > 0 {
		for _, name := range slices.Sorted(maps.Keys(rs.admission.opts.options)) {
			fmt.Fprintf(h, " %s %q", name, rs.admission.opts.options[name])
		}
	}
	if spec, ok := rs.admission.snap.Spec(rs.admission.opts.provider); ok {
		fmt.Fprintf(h, " %x", sha256.Sum256([]byte(rs.clientKey(&spec.Auth).Reveal())))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// applyTo sets the options that override every config in its root, from which
// targets inherit them.
func (w *requestOptions) applyTo(root *config.Config) *config.Config {
	c := *root
	if limit := w.rootTimeout(); limit != 0 {
		c.RequestTimeout = max(limit, 0)
	}
	if w.forward != nil {
		c.ForwardHeaders = w.forward
	}
	if w.customHost != "" {
		c.CustomHost = w.customHost
	}
	if w.strict != nil {
		c.Strict = w.strict
	}
	return &c
}

// rootTimeout returns the timeout of attempts that replaces that of a config's root. It
// is negative for none, since a request with its own deadline needs no other, and zero
// if the config decides.
func (w *requestOptions) rootTimeout() time.Duration {
	if w.attempt == 0 && w.timeout > 0 {
		return -1
	}
	return w.attempt
}
