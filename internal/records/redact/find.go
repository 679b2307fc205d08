package redact

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The finders search a text in a single pass. They find nothing inside of a
// word.

func digit(c byte) bool { return c >= '0' && c <= '9' }
func upper(c byte) bool { return c >= 'A' && c <= 'Z' }
func alpha(c byte) bool { return upper(c) || c >= 'a' && c <= 'z' }
func alnum(c byte) bool { return alpha(c) || digit(c) }

// begins reports whether a word may begin at i, and ends whether a word may end
// before it.
func begins(s string, i int) bool { return i == 0 || !alnum(s[i-1]) && s[i-1] != '_' }
func ends(s string, i int) bool   { return i == len(s) || !alnum(s[i]) && s[i] != '_' }

// findEmails finds common addresses: up to 64 bytes before the at sign, and a
// domain with a dot.
func findEmails(s string, found func(from, to int)) {
	past := 0
	for i := strings.IndexByte(s, '@'); i >= 0; i = after(s, past) {
		from, to := localPart(s, past, i), domainPart(s, i+1)
		domain := s[i+1 : to]
		last := strings.LastIndexByte(domain, '.')
		if from < i && last > 0 && domain[0] != '.' && len(domain)-last > 2 && !digit(domain[last+1]) {
			found(from, to)
			past = to
		}
		past = max(past, i+1)
	}
}

// after returns the index of the next at sign, or -1.
func after(s string, past int) int {
	if n := strings.IndexByte(s[past:], '@'); n >= 0 {
		return past + n
	}
	return -1
}

// latin reports whether r is a letter or digit of an address. Letters of
// scripts without spaces are excluded, since they would include preceding text.
func latin(r rune) bool { return r < 0x250 && (unicode.IsLetter(r) || unicode.IsDigit(r)) }

func localPart(s string, past, at int) int {
	from := at
	for from > past && at-from < 64 {
		r, n := utf8.DecodeLastRuneInString(s[past:from])
		if !latin(r) && !strings.ContainsRune("._%+-'", r) {
			break
		}
		from -= n
	}
	return from
}

func domainPart(s string, at int) int {
	to := at
	for to < len(s) && to-at < 255 {
		r, n := utf8.DecodeRuneInString(s[to:])
		if !latin(r) && r != '.' && r != '-' {
			break
		}
		to += n
	}
	for to > at && (s[to-1] == '.' || s[to-1] == '-') {
		to--
	}
	return to
}

// numbers calls at for each digit that begins a group, and for signs before
// one.
func numbers(s string, at func(i int) (next int)) {
	for i := 0; i < len(s); {
		c := s[i]
		if !digit(c) && c != '+' && c != '(' || !begins(s, i) {
			i++
			continue
		}
		next := at(i)
		if next <= i {
			for next = i + 1; digit(c) && next < len(s) && digit(s[next]); {
				next++
			}
		}
		i = next
	}
}

// findSSNs finds social security numbers with their dashes.
// https://www.ssa.gov/employer/randomization.html
func findSSNs(s string, found func(from, to int)) {
	numbers(s, func(i int) int {
		if len(s)-i < 11 || i > 0 && s[i-1] == '-' {
			return 0
		}
		n := s[i : i+11]
		for k := range len(n) {
			if dash := k == 3 || k == 6; dash && n[k] != '-' || !dash && !digit(n[k]) {
				return 0
			}
		}
		if !ends(s, i+11) || i+11 < len(s) && s[i+11] == '-' || n[:3] == "000" || n[:3] == "666" || n[0] == '9' || n[4:6] == "00" ||
			n[7:] == "0000" {
			return 0
		}
		found(i, i+11)
		return i + 11
	})
}

// findCards finds numbers of 13 to 19 digits, grouped or not, with a valid
// check digit.
func findCards(s string, found func(from, to int)) {
	numbers(s, func(i int) int {
		if s[i] < '2' || s[i] > '6' { // otherwise times in milliseconds would match; '(' and '+' are below
			return 0
		}
		var digits [19]byte
		n, best := 0, 0
		for j := i; j < len(s) && n < len(digits); j++ {
			if !digit(s[j]) {
				if s[j] != ' ' && s[j] != '-' || j+1 == len(s) || !digit(s[j+1]) {
					break
				}
				continue
			}
			digits[n] = s[j] - '0'
			n++
			if n >= 13 && ends(s, j+1) && luhn(digits[:n]) {
				best = j + 1
			}
		}
		if best > 0 {
			found(i, best)
		}
		return best
	})
}

func luhn(digits []byte) bool {
	sum := 0
	for i, d := range digits {
		n := int(d)
		if (len(digits)-i)%2 == 0 {
			if n *= 2; n > 9 {
				n -= 9
			}
		}
		sum += n
	}
	return sum%10 == 0
}

// findPhones finds numbers that begin with a plus, ten digits grouped as in
// North America, and numbers that begin with a zero and an area code. Ten
// digits in a row are not matched.
func findPhones(s string, found func(from, to int)) {
	numbers(s, func(i int) int {
		n := dialled(s[i:])
		if n == 0 || !ends(s, i+n) || i+n+1 < len(s) && (s[i+n] == '-' || s[i+n] == '.') && digit(s[i+n+1]) {
			return 0
		}
		found(i, i+n)
		return i + n
	})
}

// dialled returns the length of the phone number at the start of s, or 0.
func dialled(s string) (best int) {
	var room [6]group
	groups := grouped(s, room[:0])
	total := 0
	for k, g := range groups {
		total += g.digits
		switch {
		case s[0] == '+':
			if total >= 7 && total <= 15 {
				best = g.end
			}
		case k == 2 && american(groups[:3]), k == 3 && s[0] == '1' && groups[0].digits == 1 && american(groups[1:4]):
			return g.end
		case total >= 9 && total <= 12 && groups[0].digits >= 3 && groups[0].digits <= 5 && strings.TrimPrefix(s, "(")[0] == '0':
			if !strings.Contains(s[:g.end], ".") { // otherwise a number with a fraction
				best = g.end
			}
		}
	}
	return best
}

func american(g []group) bool { return g[0].digits == 3 && g[1].digits == 3 && g[2].digits == 4 }

// group is a number of digits in a row, and their end.
type group struct{ digits, end int }

// grouped appends the groups of digits at the start of s, at most six of 16.
func grouped(s string, groups []group) []group {
	i := 0
	for i < len(s) && (s[i] == '+' && i == 0 || s[i] == '(' && i < 2) {
		i++
	}
	for len(groups) < 6 {
		start := i
		for i < len(s) && digit(s[i]) && i-start < 16 {
			i++
		}
		if i == start {
			break
		}
		end := i
		groups = append(groups, group{i - start, end})
		for i < len(s) && i-end < 2 && strings.IndexByte(" -./()", s[i]) >= 0 {
			i++
		}
		if i == end {
			break
		}
	}
	return groups
}

func findIPv4(s string, found func(from, to int)) {
	numbers(s, func(i int) int {
		to := i
		for to < len(s) && to-i < 16 && (digit(s[to]) || s[to] == '.') {
			to++
		}
		for to > i && s[to-1] == '.' {
			to--
		}
		_, err := netip.ParseAddr(s[i:to])
		if err != nil || !ends(s, to) || i > 0 && s[i-1] == '.' {
			return 0
		}
		found(i, to)
		return to
	})
}

// findIPv6 finds addresses with at least four digits: shorter ones occur in
// source code.
func findIPv6(s string, found func(from, to int)) {
	if strings.Count(s, ":") < 2 {
		return
	}
	hex := func(c byte) bool { return digit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }
	for i := 0; i < len(s); {
		if !hex(s[i]) && s[i] != ':' || !begins(s, i) {
			i++
			continue
		}
		to, digits, colons := i, 0, 0
		for to < len(s) && (hex(s[to]) || s[to] == ':' || s[to] == '.') {
			if s[to] == ':' {
				colons++
			} else if s[to] != '.' {
				digits++
			}
			to++
		}
		next := to
		for to > i && (s[to-1] == '.' || s[to-1] == ':' && !strings.HasSuffix(s[i:to], "::")) {
			to--
		}
		if colons >= 2 && digits >= 4 && to-i <= 45 && ends(s, to) {
			if a, err := netip.ParseAddr(s[i:to]); err == nil && a.Is6() {
				found(i, to)
			}
		}
		i = next
	}
}

// findIBANs finds account numbers, in groups of four or not, with valid check
// digits.
func findIBANs(s string, found func(from, to int)) {
	for i := 0; i+15 <= len(s); i++ {
		if !upper(s[i]) || !upper(s[i+1]) || !digit(s[i+2]) || !digit(s[i+3]) || !begins(s, i) {
			continue
		}
		if to := ibanEnd(s, i); to > 0 {
			found(i, to)
			i = to - 1
		}
	}
}

// ibanEnd returns the end of the longest number that begins at i, or 0.
func ibanEnd(s string, i int) (best int) {
	var chars [34]byte
	n := 0
	for j := i; j < len(s) && n < len(chars); j++ {
		if c := s[j]; c == ' ' && n%4 == 0 && j+1 < len(s) && s[j+1] != ' ' {
			continue
		} else if !digit(c) && !upper(c) {
			break
		}
		chars[n] = s[j]
		n++
		if n >= 15 && ends(s, j+1) && mod97(chars[:n]) == 1 {
			best = j + 1
		}
	}
	return best
}

// mod97 returns the remainder of an account number as defined by ISO 7064.
func mod97(chars []byte) (rest int) {
	for k := range chars {
		c := chars[(k+4)%len(chars)]
		if digit(c) {
			rest = (rest*10 + int(c-'0')) % 97
		} else {
			rest = (rest*100 + int(c-'A') + 10) % 97
		}
	}
	return rest
}
