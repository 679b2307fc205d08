package redact

import "strings"

// keys are prefixes of credentials, and the minimum length of the rest.
var keys = []struct {
	begins string
	least  int
}{
	{"sk-", 16}, {"sk_", 16}, {"pk_", 16}, {"rk_", 16}, {"mg-", 16}, {"gsk_", 16}, {"hf_", 16}, {"r8_", 16}, {"xai-", 16}, {"pplx-", 16},
	{"ghp_", 16}, {"gho_", 16}, {"ghu_", 16}, {"ghs_", 16}, {"ghr_", 16}, {"github_pat_", 16}, {"glpat-", 16},
	{"xoxb-", 10}, {"xoxp-", 10}, {"xoxa-", 10}, {"xoxr-", 10}, {"xoxs-", 10},
	{"AKIA", 16}, {"ASIA", 16}, {"AIza", 30}, {"ya29.", 16}, {"npm_", 16}, {"pypi-", 16}, {"dop_v1_", 16}, {"SG.", 16},
}

// findSecrets finds API keys by their prefix, tokens after the word Bearer,
// JSON Web Tokens and private keys in PEM.
func findSecrets(s string, found func(from, to int)) {
	for _, k := range keys {
		each(s, k.begins, func(i int) int {
			to := wordEnd(s, i+len(k.begins), "_-.")
			if to-i-len(k.begins) < k.least {
				return 0
			}
			found(i, to)
			return to
		})
	}
	each(s, "eyJ", func(i int) int {
		to := wordEnd(s, i, "_-.")
		if strings.Count(s[i:to], ".") >= 2 && to-i >= 30 {
			found(i, to)
		}
		return to
	})
	for _, scheme := range [...]string{"Bearer ", "bearer ", "BEARER "} {
		each(s, scheme, func(i int) int {
			from := i + len(scheme)
			to := wordEnd(s, from, "_-.~+/=")
			if to-from < 16 { // shorter ones are words
				return 0
			}
			found(from, to)
			return to
		})
	}
	findPrivateKeys(s, found)
}

// each calls at for every word that begins with prefix.
func each(s, prefix string, at func(i int) (next int)) {
	for i := 0; ; {
		n := strings.Index(s[i:], prefix)
		if n < 0 {
			return
		}
		i += n
		next := 0
		if begins(s, i) {
			next = at(i)
		}
		i = max(next, i+1)
	}
}

// wordEnd returns the end of the run of letters, digits and bytes of more that
// begins at i.
func wordEnd(s string, i int, more string) int {
	for i < len(s) && (alnum(s[i]) || strings.IndexByte(more, s[i]) >= 0) {
		i++
	}
	for i > 0 && s[i-1] == '.' {
		i--
	}
	return i
}

// findPrivateKeys finds keys in PEM, including a cut one.
func findPrivateKeys(s string, found func(from, to int)) {
	const begin, end, dashes = "-----BEGIN ", "-----END ", "-----"
	for i := 0; ; {
		n := strings.Index(s[i:], begin)
		if n < 0 {
			return
		}
		from := i + n
		i = from + len(begin)
		kind := strings.Index(s[i:min(i+64, len(s))], dashes)
		if kind < 0 || !strings.HasSuffix(s[i:i+kind], "PRIVATE KEY") {
			continue
		}
		to := len(s)
		if n := strings.Index(s[i:], end); n >= 0 {
			last := i + n + len(end)
			if n := strings.Index(s[last:min(last+64, len(s))], dashes); n >= 0 {
				to = last + n + len(dashes)
			}
		}
		found(from, to)
		i = to
	}
}
