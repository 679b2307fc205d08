package config

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// Limits of the memory that a config takes, whatever the length of its text.
const (
	// MaxPattern is the maximum length of a $regex in bytes.
	MaxPattern = 4096
	// MaxPatterns is the maximum number of instructions to which all $regex of
	// a config compile. Eight ranges of a character class count as one.
	MaxPatterns = 20_000
	// MaxSize is the maximum size of a compiled config in bytes, as estimated
	// by [Config.Size].
	MaxSize = 8 << 20
)

// Sizes in bytes of the parts of a compiled config, as measured.
const (
	nodeSize        = 2800 // a node with its inherited settings, handlers and state
	itemSize        = 160  // an element of a list, a value or a query
	patternSize     = 1000 // of every pattern, in addition to its instructions
	instructionSize = 100
)

// Size returns the approximate memory in bytes of c when it is compiled.
func (c *Config) Size() int { return c.size }

// inherited is the number of items that a node inherits. Each of its targets
// has a compiled form of them.
type inherited struct{ merged, replaced int }

// measure returns the size of a node and all nodes below it. It stops above
// MaxSize: a small text can describe a very large tree.
func (c *Config) measure(from inherited) int {
	own := len(c.DropParams) + len(c.ForwardHeaders) + len(c.BeforeHooks) + len(c.AfterHooks) +
		len(c.InputGuardrails) + len(c.OutputGuardrails) + len(c.InputMutators) + len(c.OutputMutators)
	from.merged += len(c.OverrideParams) + len(c.DefaultParams)
	from.replaced = max(from.replaced, own)
	size := nodeSize + len(c.Path)*4 + itemSize*(from.merged+from.replaced+len(c.Deployments)+len(c.Options))
	for _, t := range c.Targets {
		if size > MaxSize {
			break
		}
		size += t.measure(from)
	}
	return size
}

// measure checks the size of the tree before anything is built from it.
func (r *reader) measure(root *Config) bool {
	root.size = root.measure(inherited{}) + r.values*itemSize + r.patterns*patternSize + r.instructions*instructionSize
	if root.size <= MaxSize {
		return true
	}
	r.fault("$", fmt.Sprintf("takes more than %d bytes of memory when it is compiled; use fewer targets, shorter lists, or parameters set at the targets that need them", MaxSize))
	return false
}

// compile returns the pattern of a $regex, or what is wrong with it. Its cost
// is computed before it is compiled, because repetitions multiply.
func (r *reader) compile(text string) (*regexp.Regexp, string) {
	if len(text) > MaxPattern {
		return nil, fmt.Sprintf("has a pattern of %d bytes; at most %d are allowed", len(text), MaxPattern)
	}
	if r.instructions > MaxPatterns {
		return nil, "" // reported where the limit was exceeded
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, "is not a pattern that RE2 takes (" + strings.TrimPrefix(err.Error(), "error parsing regexp: ") +
			"); write it without look-around, back-references and unclosed brackets"
	}
	r.patterns++
	r.instructions += instructions(tree) + ranges(tree)/8
	if r.instructions > MaxPatterns {
		return nil, fmt.Sprintf("makes the patterns of this config larger than %d instructions; shorten them, above all repetitions such as {1000}", MaxPatterns)
	}
	// The group prevents a one-pass program, whose size can be the square of
	// the pattern's.
	pattern, err := regexp.Compile("(" + text + ")")
	if err != nil {
		return nil, "is too large a pattern; shorten it"
	}
	return pattern, ""
}

// instructions returns the maximum number of instructions of a pattern.
func instructions(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpRepeat:
		return n*max(re.Max, re.Min, 1) + max(re.Max-re.Min, 1) // each optional repetition is a branch
	case syntax.OpConcat:
		return n
	case syntax.OpAlternate:
		return n + len(re.Sub)
	case syntax.OpCapture:
		return n + 2
	}
	return n + 1
}

// ranges returns the number of range ends in the character classes of a
// pattern, which its repetitions share.
func ranges(re *syntax.Regexp) int {
	n := 0
	if re.Op == syntax.OpCharClass {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += ranges(sub)
	}
	return n
}
