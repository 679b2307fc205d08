package checks

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"modelgate/internal/guardrail"
	"modelgate/internal/records/redact"
)

// finder finds one category of data.
type finder struct {
	category string
	find     func(s string, found func(from, to int))
	pattern  string // of [nearKeywords]; empty for others
}

// builtIn returns a finder for the patterns of package redact.
func builtIn(category string, patterns ...string) finder {
	return finder{category: category, find: func(s string, found func(from, to int)) {
		for _, p := range patterns {
			redact.Find(p, s, found)
		}
	}}
}

// outside returns f without what overlaps valid data of other patterns: the digits of an
// account are not a phone number.
func outside(f finder, others ...string) finder {
	return finder{category: f.category, find: func(s string, found func(from, to int)) {
		var taken [][2]int
		searched := false
		f.find(s, func(from, to int) {
			if !searched {
				searched = true
				for _, p := range others {
					redact.Find(p, s, func(a, b int) { taken = append(taken, [2]int{a, b}) })
				}
			}
			if !slices.ContainsFunc(taken, func(t [2]int) bool { return from < t[1] && t[0] < to }) {
				found(from, to)
			}
		})
	}}
}

// personal are the categories of personal data. Cards have a valid check digit
// (Luhn), account numbers a valid remainder (ISO 7064, mod 97). Names and
// addresses are found only by what is around them.
var personal = []finder{
	builtIn("EMAIL_ADDRESS", "email"),
	outside(builtIn("PHONE_NUMBER", "phone"), "iban", "credit_card"),
	nearKeywords("LOCATION_ADDRESS",
		`\b(\d{1,5}[A-Za-z]? (?:[NSEW]\.? )?(?:[A-Z][A-Za-z'.-]{1,30} ){1,4}(?:Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Ln|Drive|Dr|Court|Ct|Square|Sq|Place|Pl|Terrace|Parkway|Highway|Way)\b\.?|\p{Lu}[\p{L}-]{1,40}(?:straße|strasse|str\.|weg|platz|allee|gasse) \d{1,4} ?[a-z]?\b|\d{1,4}(?: bis| ter)?,? (?:rue|avenue|boulevard|place|chemin|impasse) (?:d[eu]s? |de la |l['’])?\p{Lu}[\p{L}'’-]{1,40})`, 240, addressWords),
	nearKeywords("NAME",
		`(?:\b(?:Mr|Mrs|Ms|Miss|Dr|Prof|Sir|Madam|Herr|Frau|Mme|Monsieur|Madame|Señora?)\b\.? |\b(?i:my name is|i am called|i'm called|ich heiße|mein name ist|je m'appelle|me llamo|mi chiamo) )(\p{Lu}[\p{L}'’-]{1,30}(?: (?:van |von |de |der |di |da )?\p{Lu}[\p{L}'’.-]{0,30}){0,3})`, 560, nameWords),
	builtIn("IP_ADDRESS", "ipv4", "ipv6"),
	outside(builtIn("CREDIT_CARD", "credit_card"), "iban"),
	builtIn("SSN", "ssn"),
	builtIn("IBAN", "iban"),
}

// secrets are the categories of credentials.
var secrets = []finder{
	builtIn("SECRET", "secret"),
	nearKeywords("PASSWORD",
		`(?i)(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key)["']? {0,4}(?::=|[:=]) {0,4}["']?([^\s"',;{}<>]{8,200})`,
		840, keywords{exact: []string{":", "="}}),
	nearKeywords("CONNECTION_STRING", `\b[a-z][a-z0-9+]{1,20}://[^\s:/@]{1,64}:([^\s/@]{3,200})@[^\s/]`, 1120,
		keywords{exact: []string{"://"}}),
}

// addressWords and nameWords are in every match of the patterns of these categories.
var (
	addressWords = keywords{digit: true, exact: []string{
		" St", " Ave", " Road", " Rd", " Boulevard", " Blvd", " Lane", " Ln", " Drive", " Dr", " Court", " Ct", " Sq", " Pl",
		" Terrace", " Parkway", " Highway", " Way",
		"straße ", "strasse ", "str. ", "weg ", "platz ", "allee ", "gasse ",
		" rue ", " avenue ", " boulevard ", " place ", " chemin ", " impasse ",
	}}
	nameWords = keywords{
		exact:  []string{"Mr", "Ms", "Miss", "Dr", "Prof", "Sir", "Madam", "Herr", "Frau", "Mme", "Monsieur", "Señor"},
		folded: []string{" name i", "called ", "ich hei", "appelle ", " llamo ", " chiamo "},
	}
)

func categoriesOf(finders []finder) (names []string) {
	for _, f := range finders {
		names = append(names, f.category)
	}
	return names
}

func dataChecks() []guardrail.Definition {
	redaction := []guardrail.Param{
		param("redact", guardrail.Boolean, "false",
			"`true` replaces what is found by placeholders such as `{{EMAIL_ADDRESS_1}}`, and the check passes."), not,
	}
	categories := func(finders []finder) guardrail.Param {
		return guardrail.Param{Name: "categories", Type: guardrail.StringList, Enum: categoriesOf(finders),
			Doc: "Categories to look for; all by default."}
	}
	pii := guardrail.Definition{
		On: both, Transforms: true, Params: append([]guardrail.Param{categories(personal)}, redaction...),
		Summary: "The text has no personal data, or it was redacted. Card numbers need a valid check digit, IBANs a valid remainder. Names and addresses are found only by the words around them.",
		Compile: func(p *guardrail.Params) (guardrail.Compiled, error) {
			return compileFinders(p, personal, 384, holdPersonal)
		},
	}
	hosted := pii
	pii.ID, hosted.ID = "default.pii", "gateway.pii"
	return []guardrail.Definition{pii, hosted, {
		ID: "default.secrets", On: both, Transforms: true, Params: append([]guardrail.Param{categories(secrets)}, redaction...),
		Summary: "The text has no credentials, or they were redacted: API keys with a known prefix, bearer tokens, JSON Web Tokens, private keys, assignments to names such as `password`, and passwords in URLs.",
		Compile: func(p *guardrail.Params) (guardrail.Compiled, error) {
			return compileFinders(p, secrets, 8192, holdSecrets)
		},
	}}
}

// compileFinders compiles a check that fails, or redacts, what finders find. The
// longest match has reach bytes.
func compileFinders(p *guardrail.Params, all []finder, reach int, hold func(string) int) (guardrail.Compiled, error) {
	finders := all
	if names := p.Strings("categories"); len(names) > 0 {
		finders = slices.DeleteFunc(slices.Clone(all), func(f finder) bool { return !slices.Contains(names, f.category) })
	}
	redacting, inverted := p.Bool("redact"), p.Bool("not")
	run := func(ctx context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		if len(in.Parts) == 0 {
			return guardrail.Verdict{}, errNoText
		}
		var spans []guardrail.Span
		counts := map[string]int{}
		for i, part := range in.Parts {
			list, err := findAll(ctx, finders, part.Text, reach)
			if err != nil {
				return guardrail.Verdict{}, err
			}
			for _, s := range list {
				s.Part = i
				spans = append(spans, s)
				if part.Joins == nil {
					counts[s.Type]++
				}
			}
			if len(spans) > maxMatches {
				break
			}
		}
		if redacting {
			if err := holdReplaced(ctx, in, spans, maxPlaceholder); err != nil {
				return guardrail.Verdict{}, err
			}
		}
		found := len(spans) > 0
		v := verdict(!found || redacting, inverted && !redacting, "", "categories were looked for", map[string]any{"detectedCategories": counts})
		if found {
			v.Data.Explanation = "data of the categories was found"
		}
		if redacting {
			v.Texts = replaceSpans(in.Parts, spans, placeholders(in))
		}
		v.Spans = spans[:min(len(spans), maxSpans)]
		return v, nil
	}
	r := guardrail.Reach{Bytes: reach, Complete: inverted && !redacting}
	return guardrail.Compiled{Run: run, Reach: r, Hold: hold, Transforms: redacting, History: redacting}, nil
}

// window is the number of bytes that are searched at a time, because a search cannot be
// interrupted, and overlap the number of bytes around it that are searched with it.
const (
	window  = 128 << 10
	overlap = 32 << 10
)

// findAll returns what finders find, in order and without overlaps: of two that
// overlap, both places become one. The longest match has reach bytes. It ends when it has
// found more than [maxMatches], and returns an error once ctx has ended.
func findAll(ctx context.Context, finders []finder, s string, reach int) ([]guardrail.Span, error) {
	var spans []guardrail.Span
	reach = max(reach, overlap)
	for at := 0; at < len(s) && len(spans) <= maxMatches; at += window {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		start, end := max(0, at-reach), min(len(s), at+window+reach)
		for _, f := range finders {
			f.find(s[start:end], func(from, to int) {
				if from += start; from >= at && from < at+window {
					spans = append(spans, guardrail.Span{From: from, To: to + start, Type: f.category})
				}
			})
		}
	}
	slices.SortStableFunc(spans, func(a, b guardrail.Span) int { return cmp.Compare(a.From, b.From) })
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && s.From < out[n-1].To {
			out[n-1].To = max(out[n-1].To, s.To)
			continue
		}
		out = append(out, s)
	}
	return out, nil
}

// maxPlaceholder is the number of bytes that a placeholder takes, with what is known of it.
const maxPlaceholder = 256

// placeholders returns a func that names what it replaces: equal values have
// equal numbers. In a window of a stream there are no numbers.
func placeholders(in *guardrail.Input) func(guardrail.Span) string {
	known := map[string]string{}
	counts := map[string]int{}
	return func(s guardrail.Span) string {
		if in.Partial {
			return "{{" + s.Type + "}}"
		}
		key := s.Type + "\x00" + in.Parts[s.Part].Text[s.From:s.To]
		if known[key] == "" {
			counts[s.Type]++
			known[key] = "{{" + s.Type + "_" + strconv.Itoa(counts[s.Type]) + "}}"
		}
		return known[key]
	}
}

// holdPersonal returns where personal data may begin: at the last word, or at
// words with digits or capitals before it.
func holdPersonal(text string) int {
	at := len(text)
	for at > 0 {
		word := strings.LastIndexAny(text[:at], " \t\n") + 1
		w := text[word:at]
		if at < len(text) && w != "" && !strings.ContainsAny(w, "0123456789@+(") && !startsUpper(w) && w != "bis" && w != "ter" && w != "rue" {
			break
		}
		at = max(word-1, 0)
		if len(text)-at > 384 {
			break
		}
	}
	return at
}

func startsUpper(w string) bool {
	for _, r := range w {
		return strings.ToLower(string(r)) != string(r)
	}
	return false
}

// holdSecrets returns where a credential may begin: at a private key without an
// end, or at the last two words.
func holdSecrets(text string) int {
	if from := strings.LastIndex(text, "-----BEGIN "); from >= 0 {
		_, end, _ := strings.Cut(text[from:], "-----END ")
		if !strings.Contains(end, "-----") {
			return from
		}
	}
	at := len(text)
	for range 4 { // name, sign and value of an assignment
		at = strings.LastIndexAny(text[:at], " \t\n")
		if at < 0 {
			return 0
		}
	}
	return at
}
