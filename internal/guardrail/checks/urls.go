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

var webURL = regexp.MustCompile(`(?i)\bhttps?://[^\s<>"'` + "`" + `{}|\\^\[\]]+`)

// maxURL is the maximum number of bytes of a URL that is checked.
const maxURL = 2000

// urlsIn returns the different URLs of a text, without punctuation at the end. It ends with
// the first that is one too many, and returns an error if a URL is too long or ctx has ended.
func urlsIn(ctx context.Context, text string) (list []string, err error) {
	for at := 0; len(list) <= maxURLs && ctx.Err() == nil; {
		found := webURL.FindStringIndex(text[at:])
		if found == nil {
			return list, nil
		}
		u := text[at+found[0] : at+found[1]]
		at += found[1]
		if len(u) > maxURL {
			return nil, guardrail.NewIncomplete("a URL has %d bytes, and at most %d are checked; send a shorter one", len(u), maxURL)
		}
		u = strings.TrimRight(u, ".,;:!?*_")
		if strings.HasSuffix(u, ")") && strings.Count(u, "(") < strings.Count(u, ")") {
			u = strings.TrimRight(u, ")")
		}
		if !slices.Contains(list, u) {
			list = append(list, u)
		}
	}
	return list, ctx.Err()
}

func (s Services) compileValidURLs(p *guardrail.Params) (guardrail.Compiled, error) {
	onlyDNS, inverted := p.Bool("onlyDNS"), p.Bool("not")
	run := func(ctx context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		text := in.Text()
		if text == "" {
			return guardrail.Verdict{}, noText(!inverted)
		}
		urls, err := urlsIn(ctx, text)
		switch {
		case err != nil:
			return guardrail.Verdict{}, err
		case len(urls) > maxURLs && inverted:
			return guardrail.Verdict{}, guardrail.NewIncomplete("the text has more than %d different URLs; send fewer", maxURLs)
		}
		if len(urls) == 0 || len(urls) > maxURLs {
			return verdict(false, inverted, text, "the text has no URLs or too many", map[string]any{"urls": len(urls)}), nil
		}
		valid := make([]bool, len(urls))
		places := make(chan struct{}, 5)
		var wg sync.WaitGroup
		for range urls {
			if err := in.CountRequest(); err != nil { // the text has too many
				return guardrail.Verdict{}, guardrail.NewIncomplete("%v", err)
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
		if ctx.Err() != nil { // by the servers that the text names
			return guardrail.Verdict{}, guardrail.NewIncomplete("%v", ctx.Err())
		}
		invalid := []string{}
		for i, ok := range valid {
			if !ok {
				invalid = append(invalid, excerpt(urls[i]))
			}
		}
		return verdict(len(invalid) == 0, inverted, text, "URLs were checked", map[string]any{"urls": len(urls), "invalidUrls": invalid}), nil
	}
	return guardrail.Compiled{Run: run, Reach: guardrail.Reach{Complete: true}, Remote: true}, nil
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
	_, err = s.send(ctx, in,
		outgoing{method: http.MethodHead, url: u.String(), header: http.Header{"User-Agent": {"URLValidator/1.0"}, "Accept": {"*/*"}},
			chosen: true, counted: true})
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
