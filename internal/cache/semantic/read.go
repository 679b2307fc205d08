package semantic

import (
	"crypto/sha256"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLoose is the number of words up to which everyday words may differ. In a
// longer turn every word is a fact, in the order of the turn: the similarity of
// long texts hardly changes with one word.
const maxLoose = 24

// Turn is the last turn of a user, as far as it is compared.
type Turn struct {
	// Facts is a digest of what must be equal for two turns to mean the same.
	Facts [16]byte
	words []string // canonical words in order, without those that carry no meaning
}

// Read reads a turn. It returns false for a text that is not compared: without
// words, longer than [MaxText], or not UTF-8.
func Read(text string) (Turn, bool) {
	if len(text) > MaxText || !utf8.ValidString(text) {
		return Turn{}, false
	}
	r := reader{}
	r.read(text)
	r.rewrite()
	return r.turn()
}

// kind is what a token contributes to the facts.
type kind uint8

const (
	word    kind = iota // looked up in the vocabulary
	name                // compared in lower case: a word that begins with a capital inside a sentence
	literal             // compared exactly: a number, a name that is also a word, code, a quoted string
)

// token is a word in canonical spelling, or a literal.
type token struct {
	text string
	kind kind
}

// reader turns a text into tokens.
type reader struct {
	tokens []token
	asked  bool // the text has a question mark outside of literals
	begun  bool // the current sentence has a word

	unpaired int // quotation marks without a second one
}

// read splits text into quoted strings, code and words.
func (r *reader) read(text string) {
	for text != "" {
		open, size := utf8.DecodeRuneInString(text)
		switch {
		case unicode.IsSpace(open):
			text = text[size:]
			continue
		case r.unpaired >= maxUnpaired:
		case open == '`':
			fence := text[:len(text)-len(strings.TrimLeft(text, "`"))]
			if body, rest, ok := strings.Cut(text[len(fence):], fence); ok {
				r.literal("`" + body)
				text = rest
				continue
			}
			r.unpaired++
		case closing(open) != 0:
			if body, rest, ok := quoted(text[size:], closing(open)); ok {
				r.literal(`"` + body)
				text = rest
				continue
			}
			r.unpaired++
		}
		end := strings.IndexFunc(text, func(c rune) bool { return unicode.IsSpace(c) || c == '`' || closing(c) != 0 && c != '\'' && c != '’' })
		switch {
		case end < 0:
			end = len(text)
		case end == 0: // an opening quote without an end
			end = size
		}
		r.field(text[:end])
		text = text[end:]
	}
}

// closing returns the rune that ends a string quoted with open, or 0 if open
// does not quote.
func closing(open rune) rune {
	switch open {
	case '"', '\'':
		return open
	case '“', '„':
		return '”'
	case '‘':
		return '’'
	case '«':
		return '»'
	case '「':
		return '」'
	}
	return 0
}

const (
	// maxQuoted is the limit in bytes of a quoted string. What is longer is read
	// as words, so that an unpaired mark does not make the text a literal.
	maxQuoted = 2000
	// maxUnpaired is the number of marks without a second one after which marks
	// are not looked at, because each costs a search.
	maxUnpaired = 16
)

// quoted returns the text up to the closing mark, which a letter must not
// follow: it is an apostrophe then.
func quoted(text string, mark rune) (body, rest string, ok bool) {
	for i, c := range text[:min(len(text), maxQuoted)] {
		if c != mark {
			continue
		}
		rest := text[i+utf8.RuneLen(mark):]
		if next, _ := utf8.DecodeRuneInString(rest); i > 0 && !unicode.IsLetter(next) && !unicode.IsDigit(next) {
			return text[:i], rest, true
		}
	}
	return "", "", false
}

func (r *reader) literal(text string) {
	r.tokens = append(r.tokens, token{text, literal})
	r.begun = true
}

// field reads a piece of text without white space.
func (r *reader) field(f string) {
	bare := strings.TrimRight(strings.TrimLeft(f, "¿¡\"“”"), ".,!?;:…。，！？、；：’”\"'")
	ends := f[strings.Index(f, bare)+len(bare):]
	if strings.ContainsAny(ends, "?？") {
		r.asked = true
	}
	switch {
	case punctuation(f):
	case strings.IndexFunc(bare, wordRune) < 0: // an operator, complete
		r.literal(f)
	case isNumber(bare) && !strings.HasPrefix(ends, "!"): // a factorial
		r.number(bare)
	case isPlain(bare):
		r.plain(bare)
	default: // brackets may be part of code
		r.literal(strings.TrimRight(f, ".,;?:…。，？"))
	}
	if strings.ContainsAny(ends, ".!?…。！？") {
		r.begun = false
	}
}

// punctuation reports whether a piece only divides text. Two marks are an
// operator.
func punctuation(f string) bool {
	return f == "..." || utf8.RuneCountInString(f) == 1 && strings.Contains(".,!?;:…。，！？、；：\"'“”‘’«»„「」¿¡—–", f)
}

func wordRune(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }

// isPlain reports whether f consists of letters, with hyphens and apostrophes
// between them.
func isPlain(f string) bool {
	letter, inner := false, false
	for _, c := range f {
		switch {
		case unicode.IsLetter(c) || unicode.Is(unicode.M, c):
			if letter && inner && unicode.IsUpper(c) {
				return false // camelCase
			}
			letter, inner = true, unicode.IsLower(c)
		case (c == '-' || c == '\'' || c == '’') && letter:
			letter, inner = false, false
		default:
			return false
		}
	}
	return letter
}

func upper(f string) bool { return strings.ToUpper(f) == f }

// isNumber reports whether f is a number with, at most, a sign, a currency and
// a unit next to it.
func isNumber(f string) bool {
	f = strings.TrimLeft(f, "+-−$€£¥~")
	digits := len(f) - len(strings.TrimLeft(f, "0123456789,."))
	return digits > 0 && '0' <= f[0] && f[0] <= '9' &&
		strings.IndexFunc(f[digits:], func(c rune) bool { return !unicode.IsLetter(c) && c != '%' && c != '°' }) < 0
}

// number reads the digits of f as a literal and what precedes and follows them
// as units.
func (r *reader) number(f string) {
	start := strings.IndexAny(f, "0123456789")
	end := strings.LastIndexAny(f, "0123456789") + 1
	digits, unit := f[start:end], strings.ToLower(f[end:])
	if integer, fraction, ok := strings.Cut(digits, ","); ok && len(integer) <= 3 && len(strings.Split(fraction, ".")[0])%4 == 3 {
		digits = strings.ReplaceAll(digits, ",", "")
	}
	sign := f[:start]
	if money := strings.TrimLeft(sign, "+-−~"); money != "" {
		sign, unit = sign[:len(sign)-len(money)], money+unit
	}
	switch unit {
	case "st", "nd", "rd", "th":
		digits, unit = "#"+digits, ""
	}
	r.literal(sign + digits)
	if unit != "" {
		r.literal(canonicalUnit(unit))
	}
}

// plain reads a word, or several with hyphens between them.
func (r *reader) plain(f string) {
	f = strings.ReplaceAll(f, "’", "'")
	acronym := upper(f) && utf8.RuneCountInString(f) > 1 && !strings.Contains(f, "'")
	lower, is := strings.ToLower(f), word
	if r.begun && capitalised(f) && !acronym && !r.afterNumber() { // what follows a number is a unit
		is = name
	}
	if closed := strings.ReplaceAll(lower, "-", ""); spellings[closed] != "" || joined[closed] {
		lower = closed
	}
	for part := range strings.SplitSeq(lower, "-") {
		switch {
		case acronym && spellings[part] != "" && r.afterNumber():
			r.literal(canonicalUnit(part))
			continue
		case acronym && !solid[part]:
			r.literal(strings.ToUpper(part))
			continue
		case r.begun && part == lower && capitalised(f) && f != "I" && !strings.HasPrefix(f, "I'") && (ambiguous[part] || class(part) != fact):
			r.literal(f) // a name that is also a word
			continue
		}
		r.word(part, is)
	}
	r.begun = true
}

// afterNumber reports whether the last token is a number, which a unit follows.
func (r *reader) afterNumber() bool {
	if len(r.tokens) == 0 {
		return false
	}
	last := r.tokens[len(r.tokens)-1]
	return last.kind == literal && isNumber(last.text)
}

func capitalised(f string) bool {
	c, _ := utf8.DecodeRuneInString(f)
	return unicode.IsUpper(c)
}

// word adds a word or a name, with contractions written in full.
func (r *reader) word(w string, is kind) {
	if full, ok := contractions[w]; ok {
		for part := range strings.FieldsSeq(full) {
			r.tokens = append(r.tokens, token{part, word})
		}
		return
	}
	if stem, ok := strings.CutSuffix(w, "n't"); ok {
		r.tokens = append(r.tokens, token{stem, word}, token{"not", word})
		return
	}
	for _, ending := range []string{"'s", "'re", "'ve", "'ll", "'d", "'m", "'"} {
		if stem, ok := strings.CutSuffix(w, ending); ok {
			w = stem
			if ending == "'s" && questions[w] {
				r.tokens = append(r.tokens, token{w, word}, token{"is", word})
				return
			}
			if ending == "'ll" {
				r.tokens = append(r.tokens, token{w, word}, token{"will", word})
				return
			}
			break
		}
	}
	r.tokens = append(r.tokens, token{w, is})
}

// turn sorts the tokens into facts and words.
func (r *reader) turn() (Turn, bool) {
	marks, facts, words := []string{}, []string{}, []string{}
	sentence := false // with a verb, but no word that asks for a thing
	for i := range r.tokens {
		t := &r.tokens[i]
		if t.kind == literal {
			facts, words = append(facts, t.text), append(words, t.text)
			continue
		}
		w := t.text
		c := class(w)
		sentence = sentence || verbs[w]
		r.asked = r.asked && w != "what" && w != "which"
		if c == fact && t.kind == word {
			w = canonical(w)
			c = class(w)
		}
		switch c {
		case mark:
			marks = append(marks, w)
		case fact:
			facts, words = append(facts, w), append(words, w)
		case everyday:
			words = append(words, w)
		}
	}
	if len(words) == 0 {
		return Turn{}, false
	}
	if len(words) > maxLoose {
		facts = words
	}
	if len(marks) == 0 && r.asked && sentence {
		marks = []string{"?"}
	}
	h := sha256.New()
	for _, list := range [][]string{marks, facts} {
		for _, w := range list {
			h.Write([]byte(w))
			h.Write([]byte{0})
		}
		h.Write([]byte{1})
	}
	t := Turn{words: append(marks, words...)}
	copy(t.Facts[:], h.Sum(nil))
	return t, true
}
