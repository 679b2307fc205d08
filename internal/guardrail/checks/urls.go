package checks

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"modelgate/internal/guardrail"
)

// maxURLs is the maximum number of URLs of a text that are checked; more fail
// the check.
const maxURLs = 20

func urlChecks(s Services) []guardrail.Definition {
	return []guardrail.Definition{{
		ID: "default.validUrls", On: both, Kinds: guardrail.Prose, Compile: s.compileValidURLs,
		Summary: "All http and https URLs in the text are valid: a HEAD request returns a 2xx status, or the host has a public address. A text without URLs or with more than 20 different ones fails.",
		Params:  []guardrail.Param{param("onlyDNS", guardrail.Boolean, "false", "`true` only resolves the names of the hosts."), not},
	}}
}

var webURL = regexp.MustCompile(`(?i)\bhttps?://[^\s<>"'` + "`" + `{}|\\^\[\]]{1,1000}`)

// urlsIn returns the different URLs of a text, without punctuation at the end.
func urlsIn(text string) (list []string) {
	for _, u := range webURL.FindAllString(text, 10*maxURLs) {
		u = strings.TrimRight(u, ".,;:!?*_")
		if strings.HasSuffix(u, ")") && strings.Count(u, "(") < strings.Count(u, ")") {
			u = strings.TrimRight(u, ")")
		}
		if !slices.Contains(list, u) {
			list = append(list, u)
		}
	}
	return list
}

func (s Services) compileValidURLs(p *guardrail.Params) (guardrail.Compiled, error) {
	onlyDNS, inverted := p.Bool("onlyDNS"), p.Bool("not")
	run := func(ctx context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		text := in.Text()
		if text == "" {
			return guardrail.Verdict{}, errNoText
		}
		urls := urlsIn(text)
		if len(urls) == 0 || len(urls) > maxURLs {
			return verdict(false, inverted, text, "the text has no URLs or too many", map[string]any{"urls": len(urls)}), nil
		}
		valid := make([]bool, len(urls))
		places := make(chan struct{}, 5)
		var wg sync.WaitGroup
		for range urls {
			if err := in.CountRequest(); err != nil {
				return guardrail.Verdict{}, err
			}
		}
		for i, u := range urls {
			wg.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				valid[i] = s.validURL(ctx, in, u, onlyDNS)
			})
		}
		wg.Wait()
		if ctx.Err() != nil {
			return guardrail.Verdict{}, ctx.Err()
		}
		invalid := []string{}
		for i, ok := range valid {
			if !ok {
				invalid = append(invalid, excerpt(urls[i]))
			}
		}
		return verdict(len(invalid) == 0, inverted, text, "URLs were checked", map[string]any{"urls": len(urls), "invalidUrls": invalid}), nil
	}
	return guardrail.Compiled{Run: run, Reach: guardrail.Reach{Whole: true}, Remote: true}, nil
}

func (s Services) validURL(ctx context.Context, in *guardrail.Input, text string, onlyDNS bool) bool {
	u, err := parseURL(text)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if onlyDNS {
		return publicHost(ctx, u)
	}
	_, err = s.send(ctx, in, outgoing{method: http.MethodHead, url: u.String(), header: http.Header{"User-Agent": {"URLValidator/1.0"}, "Accept": {"*/*"}}, chosen: true, counted: true})
	return err == nil
}

// publicHost reports whether a host has an address and all are public.
func publicHost(ctx context.Context, u *url.URL) bool {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	return err == nil && len(addrs) > 0 && !slices.ContainsFunc(addrs, func(a netip.Addr) bool {
		a = a.Unmap()
		return !a.IsGlobalUnicast() || a.IsPrivate()
	})
}
