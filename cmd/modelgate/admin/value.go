package admin

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"modelgate/internal/base/oserr"
)

// maxFile is the limit of files that are read into memory, in bytes.
const maxFile = 64 << 20

func errLarge(name string) error { return fmt.Errorf("%s is larger than %d MB", name, maxFile>>20) }

// readLimited reads a file.
func readLimited(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, oserr.File(err)
	}
	defer f.Close()
	return limited(f, name)
}

// timeLayout is the form of times in requests.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// value returns the value of a field from the text of its flag.
func (i *input) value(env *Env) (any, error) {
	last := i.texts[len(i.texts)-1]
	switch i.field.Type {
	case typeTexts, typeNumbers:
		return i.list()
	case typeMap, typeValues:
		return i.object()
	case typeObjects:
		var list []any
		for _, text := range i.texts {
			one, err := parseObject(i.field.Items, text)
			if err != nil {
				return nil, err
			}
			list = append(list, one)
		}
		return list, nil
	case typeAny:
		if name, ok := strings.CutPrefix(last, "@"); ok {
			text, err := env.readFile(name)
			if err != nil {
				return nil, err
			}
			return asJSON(text, name)
		}
		return looseValue(last), nil
	case typeBytes:
		data := []byte(last)
		if name, ok := strings.CutPrefix(last, "@"); ok {
			var err error
			if data, err = env.readFile(name); err != nil {
				return nil, err
			}
		}
		return base64.StdEncoding.EncodeToString(data), nil
	case typeText:
		if name, ok := strings.CutPrefix(last, "@"); ok && slices.Contains(secretMembers, i.field.Name) {
			text, err := env.readFile(name)
			return strings.TrimRight(string(text), "\r\n"), err
		}
	}
	return i.field.scalar(last)
}

// secretMembers are members whose values may be read from a file, so that no list of
// processes shows them: @FILE, and @- for standard input.
var secretMembers = []string{"key", "client_secret", "configurations.client_secret", "code"}

// list returns the values of a list, which commas separate.
func (i *input) list() ([]any, error) {
	list := []any{}
	one := field{Name: i.field.Name, Type: typeText, Enum: i.field.Enum}
	if i.field.Type == typeNumbers {
		one.Type = typeNumber
	}
	for _, text := range i.texts {
		words, err := splitCommas(text)
		if err != nil {
			return nil, err
		}
		for _, w := range words {
			v, err := one.scalar(w)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
	}
	return list, nil
}

// object returns an object from pairs key=value.
func (i *input) object() (map[string]any, error) {
	out := make(map[string]any)
	for _, text := range i.texts {
		pairs, err := splitCommas(text)
		if err != nil {
			return nil, err
		}
		for _, pair := range pairs {
			name, v, ok := strings.Cut(pair, "=")
			if !ok || name == "" {
				return nil, fmt.Errorf("must be key=value, not %.60q", pair)
			}
			if i.field.Type == typeMap {
				out[name] = v
			} else {
				out[name] = looseValue(v)
			}
		}
	}
	return out, nil
}

// splitCommas splits text at commas. Parts with commas are in quotes.
func splitCommas(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	r := csv.NewReader(strings.NewReader(text))
	r.LazyQuotes = true
	words, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("has quotes that do not end: %.60q", text)
	}
	return words, nil
}

// scalar returns a value that is not a list or an object.
func (f *field) scalar(text string) (any, error) {
	if len(f.Enum) > 0 && !slices.Contains(f.Enum, text) {
		return nil, fmt.Errorf("must be %s, not %.60q", orList(f.Enum), text)
	}
	switch f.Type {
	case typeInteger:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("must be an integer, not %.60q", text)
		}
		return n, nil
	case typeNumber:
		if _, err := strconv.ParseFloat(text, 64); err != nil || !json.Valid([]byte(text)) {
			return nil, fmt.Errorf("must be a number, not %.60q", text)
		}
		return json.Number(text), nil
	case typeFlag:
		switch text {
		case "true", "false":
			return text == "true", nil
		}
		return nil, fmt.Errorf("must be true or false, not %.60q", text)
	case typeTime:
		t, err := parseTime(text, time.Now())
		if err != nil {
			return nil, err
		}
		return t.UTC().Format(timeLayout), nil
	}
	return text, nil
}

// orList returns words as text, such as "a, b or c".
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// looseValue returns text as JSON if it is JSON, otherwise as a string.
func looseValue(text string) any {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}

// asJSON returns a file of JSON or YAML as JSON.
func asJSON(text []byte, name string) (json.RawMessage, error) {
	if json.Valid(text) {
		return text, nil
	}
	out, err := yaml.YAMLToJSON(text)
	if err != nil || len(bytes.TrimSpace(out)) == 0 || !json.Valid(out) {
		return nil, fmt.Errorf("%s is neither JSON nor YAML", fileName(name))
	}
	return bytes.TrimSpace(out), nil
}

func fileName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// parseObject returns an object of a list from name=value pairs that commas separate. Members
// that are required may be written without their names, with colons between them; if the last
// of them is a flag, it may be left out and is true.
func parseObject(items []field, text string) (map[string]any, error) {
	pairs, err := splitCommas(text)
	if err != nil {
		return nil, err
	}
	out := make(map[string]any)
	for n, pair := range pairs {
		name, v, ok := strings.Cut(pair, "=")
		at := slices.IndexFunc(items, func(f field) bool { return f.Name == name || flagName(f.Name) == name })
		if above, below, nested := strings.Cut(name, "."); ok && at < 0 && nested {
			at = slices.IndexFunc(items, func(f field) bool { return f.Name == above && (f.Type == typeValues || f.Type == typeMap) })
			if at >= 0 {
				inner, _ := out[above].(map[string]any)
				if inner == nil {
					inner = make(map[string]any)
				}
				if inner[below] = v; items[at].Type == typeValues {
					inner[below] = looseValue(v)
				}
				out[above] = inner
				continue
			}
		}
		switch {
		case ok && at >= 0:
			if out[items[at].Name], err = items[at].looseScalar(v); err != nil {
				return nil, fmt.Errorf("%s %w", name, err)
			}
		case n == 0:
			if err := takeShort(out, items, pair); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("has the part %.60q; use %s", pair, objectForm(items))
		}
	}
	return out, nil
}

// looseScalar is [field.scalar] for members whose values may have several types.
func (f *field) looseScalar(text string) (any, error) {
	if f.Type == typeAny {
		return looseValue(text), nil
	}
	if f.Type == typeTexts {
		list := []any{}
		for w := range strings.SplitSeq(text, "|") {
			list = append(list, w)
		}
		return list, nil
	}
	return f.scalar(text)
}

// takeShort sets the required members of an object from the short form of it.
func takeShort(out map[string]any, items []field, text string) error {
	var required []field
	for _, f := range items {
		if f.Required {
			required = append(required, f)
		}
	}
	if len(required) == 0 || len(required) > 2 {
		return fmt.Errorf("must be %s, not %.60q", objectForm(items), text)
	}
	first, rest := text, ""
	cut := false
	if len(required) == 2 {
		separator := shortSeparator(required)
		if i := strings.LastIndex(text, separator); i >= 0 {
			first, rest, cut = text[:i], text[i+len(separator):], true
		}
		last := required[1]
		if last.Type == typeFlag && rest != "true" && rest != "false" {
			first, rest, cut = text, "true", true
		}
		if !cut {
			return fmt.Errorf("must be %s, not %.60q", objectForm(items), text)
		}
	}
	for i, v := range []string{first, rest}[:len(required)] {
		value, err := required[i].looseScalar(v)
		if err != nil {
			return fmt.Errorf("%s %w", required[i].Name, err)
		}
		out[required[i].Name] = value
	}
	return nil
}

// shortSeparator returns what separates two members in the short form.
func shortSeparator(required []field) string {
	if required[0].Name == "key" && required[1].Name == "value" {
		return "="
	}
	return ":"
}

// objectForm returns the form of an object of a list, as in "id:role".
func objectForm(items []field) string {
	var required, optional []string
	var two []field
	for _, f := range items {
		if f.Required {
			required, two = append(required, f.Name), append(two, f)
		} else {
			optional = append(optional, f.Name+"=...")
		}
	}
	switch {
	case len(required) == 1:
		return strings.Join(append(required, optional...), ",")
	case len(required) == 2 && two[1].Type == typeFlag:
		return strings.Join(append([]string{required[0] + "[:true|false]"}, optional...), ",")
	case len(required) == 2:
		return strings.Join(append([]string{strings.Join(required, shortSeparator(two))}, optional...), ",")
	}
	for i := range required {
		required[i] += "=..."
	}
	return strings.Join(append(required, optional...), ",")
}
