package checks

import (
	"regexp"
	"regexp/syntax"
)

// compilePartial returns a pattern that matches, at the end of a text, every
// beginning of a match of re. Nil means that it would be too large.
func compilePartial(re *syntax.Regexp) *regexp.Regexp {
	b := &partials{}
	p := b.of(re.Simplify())
	if b.size > maxProgram {
		return nil
	}
	out, err := regexp.Compile(`(?:` + p.String() + `)\z`)
	if err != nil {
		return nil
	}
	return out
}

// partials builds patterns of beginnings.
type partials struct{ size int }

var nothing = &syntax.Regexp{Op: syntax.OpEmptyMatch}

// of returns a pattern that matches the beginnings of matches of re, the empty
// one included.
func (b *partials) of(re *syntax.Regexp) *syntax.Regexp {
	if b.size++; b.size > maxProgram {
		return nothing
	}
	switch re.Op {
	case syntax.OpLiteral:
		b.size += len(re.Rune)
		p := nothing
		for i := len(re.Rune) - 1; i >= 0; i-- {
			one := &syntax.Regexp{Op: syntax.OpLiteral, Flags: re.Flags, Rune: re.Rune[i : i+1]}
			p = optional(sequence(one, p))
		}
		return p
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return optional(re)
	case syntax.OpCapture, syntax.OpQuest:
		return b.of(re.Sub[0])
	case syntax.OpStar, syntax.OpPlus:
		return sequence(&syntax.Regexp{Op: syntax.OpStar, Flags: re.Flags, Sub: re.Sub[:1]}, b.of(re.Sub[0]))
	case syntax.OpConcat:
		p := b.of(re.Sub[len(re.Sub)-1])
		for i := len(re.Sub) - 2; i >= 0; i-- {
			p = either(sequence(re.Sub[i], p), b.of(re.Sub[i]))
		}
		return p
	case syntax.OpAlternate:
		list := make([]*syntax.Regexp, len(re.Sub))
		for i, sub := range re.Sub {
			list[i] = b.of(sub)
		}
		return either(list...)
	}
	return nothing // matches no character
}

func optional(re *syntax.Regexp) *syntax.Regexp {
	return &syntax.Regexp{Op: syntax.OpQuest, Sub: []*syntax.Regexp{re}}
}

func sequence(list ...*syntax.Regexp) *syntax.Regexp {
	return &syntax.Regexp{Op: syntax.OpConcat, Sub: list}
}

func either(list ...*syntax.Regexp) *syntax.Regexp {
	return &syntax.Regexp{Op: syntax.OpAlternate, Sub: list}
}
