package checks

import (
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// literal is a string that every match of a pattern contains. To look for it takes a
// hundredth of the time that the pattern takes on a text without a match.
type literal struct {
	text string // empty if there is none; in lower case if fold is true
	fold bool   // also matches upper-case letters of ASCII
	rare int    // index of the byte of text to look for if fold is true
}

// requiredLiteral returns the longest literal that it finds.
func requiredLiteral(re *syntax.Regexp) (l literal) {
	switch re.Op {
	case syntax.OpLiteral:
		return literalOf(re.Rune, re.Flags&syntax.FoldCase != 0)
	case syntax.OpCapture, syntax.OpPlus:
		return requiredLiteral(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return requiredLiteral(re.Sub[0])
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if other := requiredLiteral(sub); len(other.text) > len(l.text) {
				l = other
			}
		}
	}
	return l
}

// literalOf returns the longest part of the runes of a pattern that a text contains
// literally. Bytes that are not UTF-8 match the replacement character.
func literalOf(runes []rune, fold bool) literal {
	parts := strings.FieldsFunc(string(runes), func(r rune) bool {
		return r == utf8.RuneError || fold && (r > unicode.MaxASCII || hasFurtherCase(r))
	})
	l := literal{fold: fold}
	for _, part := range parts {
		if len(part) > len(l.text) {
			l.text = part
		}
	}
	if fold {
		l.text = strings.ToLower(l.text)
		l.rare = rarest(l.text)
	}
	return l
}

// hasFurtherCase reports whether a letter of ASCII equals one outside of ASCII in
// another case, as k equals the Kelvin sign.
func hasFurtherCase(r rune) bool {
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		if next > unicode.MaxASCII {
			return true
		}
	}
	return false
}

// commonBytes are the bytes that English text has most of, the commonest first.
const commonBytes = " etaoinshrdlcumwfgypbvk"

// rarest returns the index of the byte of text that a search meets least often.
func rarest(text string) (at int) {
	best := -1
	for i := range len(text) {
		rank := strings.IndexByte(commonBytes, text[i])
		if rank < 0 {
			return i
		}
		if rank > best {
			best, at = rank, i
		}
	}
	return at
}

// in reports whether text contains the literal. No literal is in every text.
func (l literal) in(text string) bool {
	if !l.fold || l.text == "" {
		return strings.Contains(text, l.text)
	}
	c := l.text[l.rare]
	return l.around(text, c) || 'a' <= c && c <= 'z' && l.around(text, c-'a'+'A')
}

// around reports whether text contains the literal, in any case, around the
// byte c.
func (l literal) around(text string, c byte) bool {
	for begin := 0; begin+len(l.text) <= len(text); begin++ {
		next := strings.IndexByte(text[begin+l.rare:], c)
		if next < 0 {
			return false
		}
		begin += next
		if begin+len(l.text) <= len(text) && strings.EqualFold(text[begin:begin+len(l.text)], l.text) {
			return true
		}
	}
	return false
}
