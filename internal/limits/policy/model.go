package policy

import "strings"

// canonicalModel returns the one form of the spellings that some provider accepts for a
// model: in other case, with surrounding spaces, or with the prefix of Google's protocol;
// and of those that only choose who serves it.
func canonicalModel(name string) string {
	name = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(name)), "models/")
	for {
		base, variant, ok := cutLast(name, ':')
		if !ok || base == "" || !sameModel[variant] {
			return name
		}
		name = base
	}
}

// sameModel are the variants of a model that are the model itself.
//
//   - https://openrouter.ai/docs/features/provider-routing
//   - https://docs.ollama.com/api
var sameModel = map[string]bool{"nitro": true, "floor": true, "exacto": true, "online": true, "latest": true}

func cutLast(text string, sep byte) (before, after string, ok bool) {
	i := strings.LastIndexByte(text, sep)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}

// eachModel calls visit with the canonical name of a model, and with every shorter one of
// which it is a variant or a dated version.
func (f *Facts) eachModel(name string, visit func(name string)) {
	visit(name)
	for i := len(name) - 1; i > 0; i-- {
		switch name[i] {
		case ':', '-', '@', '/':
			if f.isVariant(name[i:]) {
				visit(name[:i])
			}
		}
	}
}

// isModel reports whether a model, by its canonical name, is of, a variant of it, or a dated
// version of it.
func (f *Facts) isModel(name, of string) bool {
	rest, ok := strings.CutPrefix(name, of)
	return ok && (rest == "" || of != "" && f.isVariant(rest))
}

// undated returns the canonical name of a model without the date of its version. A variant
// is another model: it keeps its own name.
func (f *Facts) undated(name string) string {
	for i := 1; i < len(name) && name[i] != ':'; i++ {
		if name[i] != '-' && name[i] != '@' || !f.isVariant(name[i:]) {
			continue
		}
		end := strings.IndexAny(name[i:], ":/")
		if end < 0 || isDigits(name[i+end+1:]) { // the last number of a version of Bedrock
			return name[:i]
		}
		return name[:i] + name[i+end:]
	}
	return name
}

// isVariant reports whether a name that ends in rest is a variant or a dated version of the
// model that is named without it.
func (f *Facts) isVariant(rest string) bool {
	if rest[0] == ':' || rest[0] == '/' && f.ModelInPath {
		return len(rest) > 1
	}
	if rest[0] != '-' && rest[0] != '@' {
		return false
	}
	date, _, _ := strings.Cut(rest[1:], ":")
	if f.ModelInPath {
		date, _, _ = strings.Cut(date, "/")
	}
	if before, version, ok := cutLast(date, '-'); ok && len(version) > 1 && version[0] == 'v' && isDigits(version[1:]) { // of Bedrock
		date = before
	}
	return date == "latest" || isDate(date)
}

// dates are the forms in which vendors date versions: the number of digits in each part.
var dates = map[string]bool{
	"3": true, "4": true, "6": true, "8": true, // 002, 0613, 202405, 20250514
	"422": true, "42": true, "24": true, "22": true, // 2024-08-06, 2024-08, 08-2024, 05-06
}

func isDate(text string) bool {
	var form [8]byte
	n := 0
	for part := range strings.SplitSeq(text, "-") {
		if !isDigits(part) || len(part) > 8 || n == len(form) {
			return false
		}
		form[n] = '0' + byte(len(part))
		n++
	}
	return dates[string(form[:n])]
}

func isDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }
