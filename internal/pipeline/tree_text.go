package pipeline

import (
	"fmt"
	"strings"

	"modelgate/config"
	"modelgate/internal/pipeline/routing"
)

// String returns the compiled tree as text: a line per node with its strategy,
// and lines below it with its settings. It contains no credential.
func (t *Tree) String() string {
	var b strings.Builder
	t.describe(&b, t.root)
	return b.String()
}

// describe writes the line of n and the lines of its targets. It uses the
// effective settings.
func (t *Tree) describe(b *strings.Builder, n *config.Config) {
	depth := strings.Count(n.Path, ".targets[")
	b.WriteString(strings.Repeat("  ", depth))
	b.WriteString(n.Path[strings.LastIndex(n.Path, ".")+1:])
	if n.Name != "" {
		fmt.Fprintf(b, " %q", n.Name)
	}
	eff := t.effective[n.Path]
	if n.Strategy == nil {
		leafText(b, eff)
		b.WriteByte('\n')
		return
	}
	strategyText(b, eff)
	b.WriteByte('\n')
	for _, target := range n.Targets {
		t.describe(b, target)
	}
}

func strategyText(b *strings.Builder, n *config.Config) {
	s := n.Strategy
	fmt.Fprintf(b, ": %s", s.Mode)
	weightText(b, n)
	if codes := routing.FallbackCodes(n); s.Mode == config.Fallback && codes != nil {
		fmt.Fprintf(b, ", on %v", codes)
	}
	if s.Mode != config.Fallback {
		leavingText(b, n)
	}
	if s.Sticky != nil && s.Sticky.Enabled {
		fmt.Fprintf(b, ", sticky by %s", strings.Join(s.Sticky.HashFields, ", "))
	}
	if n.Hedge != nil && (s.Mode == config.Fallback || s.Mode == config.Loadbalance) {
		fmt.Fprintf(b, ", hedge after %v", n.Hedge.Delay)
	}
	if s.Mode == config.Fallback && routing.ContinuesStreams(n) {
		b.WriteString(", continuing streams")
	}
	for i, c := range s.Conditions {
		fmt.Fprintf(b, ", [%d] %s → %s", i, c.Query, c.Then)
	}
	if s.Default != "" {
		fmt.Fprintf(b, ", else → %s", s.Default)
	}
}

// leavingText writes the statuses on which a fallback above leaves the node, if
// the node sets them itself.
func leavingText(b *strings.Builder, n *config.Config) {
	if n.OnStatusCodes != nil {
		fmt.Fprintf(b, ", left on %v", n.OnStatusCodes)
	}
}

func weightText(b *strings.Builder, n *config.Config) {
	if n.Weight != nil {
		fmt.Fprintf(b, ", weight %v", *n.Weight)
	}
}

func leafText(b *strings.Builder, n *config.Config) {
	fmt.Fprintf(b, ": call %s", calledText(n))
	weightText(b, n)
	leavingText(b, n)
	if n.CustomHost != "" {
		fmt.Fprintf(b, " at %s", n.CustomHost)
	}
	if r := n.Retry; r != nil {
		times, _ := r.EffectiveAttempts()
		fmt.Fprintf(b, ", retry %d", times)
		if r.OnStatusCodes != nil {
			fmt.Fprintf(b, " on %v", r.OnStatusCodes)
		}
	}
	if n.Breaker != nil {
		fmt.Fprintf(b, ", breaker for %v", n.Breaker.Cooldown)
	}
	if n.RequestTimeout > 0 {
		fmt.Fprintf(b, ", timeout %v", n.RequestTimeout)
	}
	memberText(b, "default", n.DefaultParams.Masked())
	memberText(b, "override", n.OverrideParams.Masked())
	if len(n.DropParams) > 0 {
		fmt.Fprintf(b, ", drop %s", strings.Join(n.DropParams, " "))
	}
	if len(n.ForwardHeaders) > 0 {
		fmt.Fprintf(b, ", forward %s", strings.Join(n.ForwardHeaders, " "))
	}
}

// calledText returns the provider of a leaf, without a credential.
func calledText(n *config.Config) string {
	switch {
	case n.Provider != "":
		return n.Provider
	case n.VirtualKey != "":
		return "@" + strings.TrimPrefix(n.VirtualKey, "@")
	}
	return "the provider of the request"
}

func memberText(b *strings.Builder, word string, o config.Object) {
	for i, m := range o {
		if i == 0 {
			fmt.Fprintf(b, ", %s", word)
		}
		fmt.Fprintf(b, " %s=%.60s", m.Name, m.Value)
	}
}
