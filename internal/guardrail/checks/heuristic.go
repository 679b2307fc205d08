package checks

import (
	"context"
	"math"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"modelgate/internal/guardrail"
)

func heuristicChecks() []guardrail.Definition {
	gibberish := guardrail.Definition{
		On: both, Kinds: guardrail.Prose, Compile: compileGibberish,
		Summary: "At most a share of the words in Latin letters looks like random typing. A heuristic: no vowels, long runs of consonants, repeated letters, pairs of letters that no language has.",
		Params: []guardrail.Param{{Name: "threshold", Type: guardrail.Number, Default: "0.5", Min: 0, Max: 1,
			Doc: "Share of words from which the check fails."}, not},
	}
	hosted := gibberish
	gibberish.ID, hosted.ID = "default.gibberish", "gateway.gibberish"
	return []guardrail.Definition{gibberish, hosted, {
		ID: "default.promptInjection", On: both, Kinds: guardrail.Prose, Compile: compilePromptInjection,
		Summary: "The text does not look like an attempt to replace the instructions of the model. A heuristic: known phrases in several languages, role markers of prompt formats, and invisible characters add up to a score.",
		Params: []guardrail.Param{{Name: "threshold", Type: guardrail.Number, Default: "0.5", Min: 0, Max: 1,
			Doc: "Score from which the check fails."}, not},
	}}
}

func compileGibberish(p *guardrail.Params) (guardrail.Compiled, error) {
	threshold, inverted := p.Number("threshold"), p.Bool("not")
	run := func(_ context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		text := in.Text()
		if strings.TrimSpace(text) == "" {
			return guardrail.Verdict{}, errNoText
		}
		words, strange := 0, 0
		for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) }) {
			n := 0
			if !isASCII(word) || len(word) < 4 || len(word) <= 6 && strings.ToUpper(word) == word { // short capitals are abbreviations
				continue
			}
			if looksRandom(strings.ToLower(word)) {
				n = 1
			}
			words, strange = words+1, strange+n
		}
		share := 0.0
		if words > 0 {
			share = float64(strange) / float64(words)
		}
		return verdict(words == 0 || share < threshold || strange == 0, inverted, text, "words that look random were counted",
			map[string]any{"words": words, "randomWords": strange, "score": math.Round(share*100) / 100}), nil
	}
	return guardrail.Compiled{Run: run, Reach: guardrail.Reach{Complete: true}}, nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// strangePairs are pairs of letters that occur in no word of the large
// languages with Latin letters, except names and abbreviations.
var strangePairs = regexp.MustCompile(`q[b-hj-tvxz]|[jvwz]q|j[bcfgjklmqtvwxz]|[bcfgmpvwxz]j|v[bcfjmqwxz]|[bcfgjkmpqx]v[^aeiouyrlns]|x[bdgjkmrz]|[bcdfghjkmpqstvwxz]x|[cjqvwx]k[bcdfgjmpqvxz]|zx|xz|[qwrtpsdfghjklzxcvbnm]{6}|[aeiou]{5}|wq|qw|hx|hk[jq]|sdf|fgh|jkl|asdf|zxc|xcv|cvb|vbn`)

// looksRandom reports whether a word in lower case looks like random typing.
func looksRandom(word string) bool {
	vowels, run := 0, 1
	for i := range len(word) {
		if strings.IndexByte("aeiouy", word[i]) >= 0 {
			vowels++
		}
		if i > 0 && word[i] == word[i-1] {
			run++
		} else {
			run = 1
		}
		if run == 4 {
			return true
		}
	}
	return vowels == 0 || len(word) >= 10 && vowels*6 < len(word) || strangePairs.MatchString(word)
}

// sign is a sign of prompt injection with its weight. The pattern is tried at
// each of the words, which are in lower case. It is compiled at its first use, because
// most processes never use it.
type sign struct {
	name    string
	weight  float64
	words   []string
	pattern func() *regexp.Regexp
}

func newSign(name string, weight float64, words, pattern string) sign {
	return sign{name, weight, strings.Split(words, ","),
		sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?is)` + pattern) })}
}

// Limits of the search for signs: bytes of the text that a pattern sees at a
// word, and occurrences of the words of a sign. More are a sign themselves.
const (
	signBytes    = 200
	maxSignWords = 20_000
)

// in reports whether the text, in lower case, has the sign. spent counts
// occurrences of words.
func (s sign) in(text string, spent *int) bool {
	for _, word := range s.words {
		for at := 0; ; at += len(word) {
			n := strings.Index(text[at:], word)
			if n < 0 || *spent > maxSignWords {
				break
			}
			at += n
			*spent++
			from := max(0, at-4)
			if s.pattern().MatchString(text[from:min(len(text), at+signBytes)]) {
				return true
			}
		}
	}
	return false
}

// signs are searched in text without invisible characters and with single
// spaces.
var signs = []sign{
	newSign("ignore_instructions", 0.6, "ignore,disregard,forget,override,bypass,skip",
		`\b(?:ignore|disregard|forget|override|bypass|skip)\b.{0,30}\b(?:previous|prior|above|earlier|preceding|all|any|your|the|system|initial)\b.{0,30}\b(?:instructions?|prompts?|rules?|directions?|guidelines?|context|constraints?|polic(?:y|ies))\b`),
	newSign("ignore_instructions", 0.6, "ignoriere,vergiss,missachte,ignore,oublie,ignora,olvida",
		`\b(?:ignoriere|vergiss|missachte)\b.{0,40}\b(?:anweisung(?:en)?|vorgaben|regeln)\b|\b(?:ignore[rz]?|oubliez?)\b.{0,40}\b(?:instructions|consignes|règles)\b|\b(?:ignora|olvida)\b.{0,40}\b(?:instrucciones|reglas|indicaciones)\b`),
	newSign("reveal_prompt", 0.6, "reveal,show,print,repeat,output,display,tell me,leak,dump,what ",
		`\b(?:reveal|show|print|repeat|output|display|tell me|leak|dump|what (?:is|are|was|were))\b.{0,30}\b(?:your|the|this)\b.{0,20}\b(?:system|initial|hidden|original|secret|developer)\b.{0,15}\b(?:prompt|instructions?|message|rules)\b`),
	newSign("repeat_above", 0.4, "repeat", `\brepeat\b.{0,30}\b(?:everything|all|the words|the text)\b.{0,20}\b(?:above|before)\b`),
	newSign("new_role", 0.3, "you are now,from now on,act as if,pretend ,simulate being",
		`\b(?:you are now|from now on,? you(?: are|'re| will)|act as if you|pretend (?:that )?(?:you are|to be)|simulate being)\b`),
	newSign("no_limits", 0.4, "without,no ,any ,free ,not have,ignore",
		`\b(?:without|no|any|free (?:of|from)|do(?:es)? not have|ignore)\b.{0,20}\b(?:restrictions?|limitations?|filters?|censorship|ethical|safety (?:guidelines|rules)|content polic(?:y|ies))\b`),
	newSign("jailbreak", 0.6, "do anything now,dan mode,developer mode,jailbr,god mode,unfiltered mode",
		`\bdo anything now\b|\bDAN mode\b|\bdeveloper mode (?:is )?(?:on|enabled|activated)\b|\bjailbr(?:eak|oken)\b|\bgod mode\b|\bunfiltered mode\b`),
	newSign("new_instructions", 0.4, "new ,updated ,real ,actual ,end of ",
		`\b(?:new|updated|real|actual) (?:system )?(?:instructions?|prompt|task) ?:|\bend of (?:the )?(?:system )?(?:prompt|instructions)\b`),
	newSign("role_markers", 0.6,
		"<|im_,<|system,<|endoftext,<|start_header,<|eot_id,[inst],[/inst],<<sys>>,<</sys>>,# system,# instruction,#system,#instruction",
		`<\|(?:im_start|im_end|system|endoftext|start_header_id|eot_id)\|>|\[/?INST\]|<</?SYS>>|(?m:^ ?#{2,3} ?(?:system|instruction)s? ?:)`),
	newSign("decode_and_follow", 0.5, "decode,base64,rot13,hex",
		`\b(?:decode|base64|rot13|hex)\b.{0,40}\b(?:and )?(?:follow|execute|obey|do what)\b`),
}

func compilePromptInjection(p *guardrail.Params) (guardrail.Compiled, error) {
	threshold, inverted := p.Number("threshold"), p.Bool("not")
	run := func(ctx context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		text := in.Text()
		if strings.TrimSpace(text) == "" {
			return guardrail.Verdict{}, errNoText
		}
		plain, hidden := plainText(text)
		plain = strings.ToLower(plain)
		score, found := 0.0, []string{}
		if hidden {
			score, found = 0.5, append(found, "invisible_characters")
		}
		seen, repeated := map[string]bool{}, false
		for _, s := range signs {
			if ctx.Err() != nil {
				return guardrail.Verdict{}, ctx.Err()
			}
			spent := 0
			if !seen[s.name] && s.in(plain, &spent) {
				seen[s.name] = true
				score, found = score+s.weight, append(found, s.name)
			}
			repeated = repeated || spent > maxSignWords
		}
		if repeated {
			score, found = score+0.5, append(found, "repetition")
		}
		score = math.Min(1, math.Round(score*100)/100)
		return verdict(score < threshold || len(found) == 0, inverted, text, "signs of prompt injection were counted",
			map[string]any{"score": score, "signs": found}), nil
	}
	return guardrail.Compiled{Run: run, Reach: guardrail.Reach{Complete: true}}, nil
}

// plainText returns text without invisible characters, with full-width letters
// as plain ones and single spaces; and whether it contained characters that
// hide instructions: tags, or many characters of no width.
func plainText(text string) (plain string, hidden bool) {
	var b strings.Builder
	invisible, space := 0, false
	for _, r := range text {
		switch {
		case r >= 0xe0020 && r <= 0xe007e: // https://www.unicode.org/charts/PDF/UE0000.pdf
			invisible += 5
			r -= 0xe0000
		case r >= 0xff01 && r <= 0xff5e:
			r -= 0xfee0
		case r == '’':
			r = '\''
		}
		switch {
		case unicode.Is(unicode.Cf, r):
			invisible++
		case unicode.IsSpace(r) && r != '\n':
			space = true
		default:
			if space {
				b.WriteByte(' ')
			}
			space = false
			b.WriteRune(r)
		}
	}
	return b.String(), invisible >= 20
}
