package checks

import (
	"regexp"
	"strings"
)

// keywords are strings of which every match of a pattern contains at least one.
type keywords struct {
	exact  []string
	folded []string // in lower case; found in any case. No s and k, which equal letters outside of ASCII
	// digit is true if matches contain a digit as well.
	digit bool
}

// nearKeywords returns a finder for a pattern that takes long to search for: only text
// around keywords is searched. What was found is the first group of the pattern, whose
// matches have at most longest bytes.
func nearKeywords(category, pattern string, longest int, k keywords) finder {
	re := regexp.MustCompile(pattern)
	return finder{category: category, pattern: pattern, find: func(s string, found func(from, to int)) {
		for _, part := range k.around(s, longest+2) { // with the characters on both sides
			for _, at := range re.FindAllStringSubmatchIndex(s[part[0]:part[1]], -1) {
				found(part[0]+at[2], part[0]+at[3])
			}
		}
	}}
}

// around returns the parts of s within reach of a keyword, in order and apart from each
// other. A match that only the cut of a part makes possible contains no keyword, so there
// is none.
func (k *keywords) around(s string, reach int) (parts [][2]int) {
	if k.digit && !strings.ContainsAny(s, "0123456789") {
		return nil
	}
	var starts []int
	for _, word := range k.exact {
		starts = appendIndexes(starts, s, word)
	}
	if len(k.folded) > 0 {
		lower := lowerASCII(s)
		for _, word := range k.folded {
			starts = appendIndexes(starts, lower, word)
		}
	}
	if len(starts) == 0 {
		return nil
	}
	marked := make([]bool, len(s)/reach+1) // blocks with a keyword
	for _, at := range starts {
		marked[at/reach] = true
	}
	for i, keyword := range marked {
		if !keyword {
			continue
		}
		// Two blocks on each side: a keyword may begin at the end of its block.
		from, to := max(0, i-1)*reach, min(len(s), (i+3)*reach)
		if n := len(parts); n > 0 && from <= parts[n-1][1] {
			parts[n-1][1] = to
			continue
		}
		parts = append(parts, [2]int{from, to})
	}
	return parts
}

func appendIndexes(list []int, s, word string) []int {
	for at := 0; ; {
		n := strings.Index(s[at:], word)
		if n < 0 {
			return list
		}
		list = append(list, at+n)
		at += n + len(word)
	}
}

// lowerASCII returns s with the letters of ASCII in lower case. It has the length of s.
func lowerASCII(s string) string {
	b := make([]byte, len(s))
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		b[i] = c
	}
	return string(b)
}
