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

// in reports whether text contains the literal. No literal is in every text.
func (l literal) in(text string) bool {
	if !l.fold || l.text == "" {
		return strings.Contains(text, l.text)
	}
	first := l.text[:1]
	if upper := strings.ToUpper(first); upper != first {
		return l.begins(text, first) || l.begins(text, upper)
	}
	return l.begins(text, first)
}

// begins reports whether text contains the literal, in any case, where first is.
func (l literal) begins(text, first string) bool {
	for len(text) >= len(l.text) {
		at := strings.Index(text, first)
		if at < 0 || len(text)-at < len(l.text) {
			return false
		}
		if text = text[at:]; strings.EqualFold(text[:len(l.text)], l.text) {
			return true
		}
		text = text[1:]
	}
	return false
}
