package toolserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of what is read of a server.
const (
	MaxItems       = 5000     // that a server offers
	MaxDefinition  = 64 << 10 // of an item, in bytes
	MaxDefinitions = 16 << 20 // of all items together, in bytes
	MaxItemName    = 2048     // in bytes

	maxIcons     = 8
	maxIconLink  = 2048     // in bytes
	maxIconData  = 32 << 10 // in bytes, as a data address
	maxFlags     = 32       // capabilities that a server declares
	maxShortText = 255      // in bytes
	maxLongText  = 2048     // in bytes
)

// Found is what a server says of itself and offers. Nothing in it is trusted: it is used after
// [Found.Bound].
type Found struct {
	Title, Description, Name, Version, Protocol string // empty if the server does not say

	Icons        []Icon
	Capabilities map[string]bool // names that the server declares
	Items        []FoundItem
	Status       int // of HTTP; zero for other transports
}

// FoundItem is something that a server offers.
type FoundItem struct {
	Item
	Definition []byte // as the server wrote it
}

// Icon is an icon of a server. It is never fetched.
type Icon struct {
	Source string   `json:"src"` // an address of https or data
	Type   string   `json:"mimeType,omitempty"`
	Sizes  []string `json:"sizes,omitempty"`
}

// Bound leaves out what is too long, too much or malformed, and describes what it left out;
// empty is nothing. An error means that f offers too much to be used at all.
func (f *Found) Bound() (omitted string, err error) {
	if len(f.Items) > MaxItems {
		return "", fmt.Errorf("the server offers %d items, and at most %d are read", len(f.Items), MaxItems)
	}
	for _, text := range [...]*string{&f.Title, &f.Name, &f.Version, &f.Protocol} {
		*text = clean(*text, maxShortText)
	}
	f.Description = clean(f.Description, maxLongText)
	f.boundFlags()
	f.boundIcons()
	return f.boundItems()
}

// clean returns text without control characters, shortened to n bytes of valid UTF-8.
func clean(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if len(text) > n {
		text = strings.ToValidUTF8(text[:n], "")
	}
	return strings.TrimSpace(text)
}

func (f *Found) boundFlags() {
	kept := make(map[string]bool, min(len(f.Capabilities), maxFlags))
	for name, set := range f.Capabilities {
		if len(kept) < maxFlags && isPlain(name, maxShortText) {
			kept[name] = set
		}
	}
	f.Capabilities = kept
}

func (f *Found) boundIcons() {
	var kept []Icon
	for _, i := range f.Icons {
		if len(kept) < maxIcons && isIconSource(i.Source) && len(i.Type) <= maxShortText && utf8.ValidString(i.Type) {
			kept = append(kept, Icon{i.Source, clean(i.Type, maxShortText), iconSizes(i.Sizes)})
		}
	}
	f.Icons = kept
}

func iconSizes(list []string) (kept []string) {
	for _, s := range list {
		if len(kept) < maxIcons && isPlain(s, maxShortText) {
			kept = append(kept, s)
		}
	}
	return kept
}

// isIconSource reports whether an address can be shown: of https, or an image of pixels as
// data.
func isIconSource(address string) bool {
	if !isPlain(address, maxIconData) || strings.ContainsAny(address, " \"'<>`\\") {
		return false
	}
	for _, kind := range [...]string{"png", "jpeg", "webp", "gif"} {
		if strings.HasPrefix(address, "data:image/"+kind+";base64,") {
			return true
		}
	}
	host, ok := strings.CutPrefix(address, "https://")
	return ok && host != "" && len(address) <= maxIconLink
}

// boundItems leaves out items that are malformed or occur twice.
func (f *Found) boundItems() (omitted string, err error) {
	seen, total, kept := make(map[Item]bool, len(f.Items)), 0, make([]FoundItem, 0, len(f.Items))
	var malformed, long, twice int
	for _, i := range f.Items {
		switch {
		case i.Check() != nil || i.Name == "*" || !json.Valid(i.Definition) || !utf8.Valid(i.Definition):
			malformed++
		case len(i.Definition) > MaxDefinition:
			long++
		case seen[i.Item]:
			twice++
		default:
			seen[i.Item] = true
			total += len(i.Definition)
			kept = append(kept, i)
		}
	}
	if total > MaxDefinitions {
		return "", fmt.Errorf("the definitions of the server have %d bytes, and at most %d are read", total, MaxDefinitions)
	}
	f.Items = kept
	var parts []string
	for _, p := range [...]struct {
		n   int
		why string
	}{{malformed, "malformed"}, {long, fmt.Sprintf("longer than %d bytes", MaxDefinition)}, {twice, "offered twice"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.why))
		}
	}
	if len(parts) == 0 {
		return "", nil
	}
	return "items were left out: " + strings.Join(parts, ", "), nil
}

// Check returns an error for an item whose name or kind no server can offer.
func (i Item) Check() error {
	if !isKind(string(i.Kind)) || i.Kind == "*" {
		return errors.New("the type must be tool, prompt, resource or resource_template")
	}
	if !isPlain(i.Name, MaxItemName) {
		return fmt.Errorf("the name must have 1 to %d bytes, and no control characters", MaxItemName)
	}
	return nil
}

// isPlain reports whether text is not empty, of at most n bytes, and valid UTF-8 without
// control characters.
func isPlain(text string, n int) bool {
	return text != "" && len(text) <= n && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}
