package table

import (
	"fmt"
	"strings"

	"modelgate/config"
	"modelgate/internal/provider"
)

// Shortened is a custom host whose address was shortened, because it ended in what the paths
// of the provider's operations begin with; see [provider.Spec.WithoutSurplus].
type Shortened struct {
	Field   string // path of the custom host
	Removed string // end of the address, such as /chat/completions
}

// String says what was done, for who wrote the address.
func (s Shortened) String() string {
	return fmt.Sprintf("%s: %q was left out at the end, because the gateway adds the path of each operation", s.Field, s.Removed)
}

// ShortenedHost returns what is left out of a custom host of the provider with this id, empty
// for nothing.
func ShortenedHost(id string, s provider.Settings) (removed string) {
	spec, ok := Lookup(id)
	if !ok || s.CustomHost == "" {
		return ""
	}
	t, err := provider.NewTarget(spec, s)
	if err != nil {
		return ""
	}
	return t.Surplus
}

// ShortenedHosts returns the custom hosts of a config whose addresses are shortened. It
// cannot know those of targets that name a managed provider.
func ShortenedHosts(root *config.Config) []Shortened {
	return shortened(nil, root, nil)
}

func shortened(list []Shortened, n *config.Config, inherited *config.Config) []Shortened {
	n = config.Inherit(inherited, n)
	for _, t := range n.Targets {
		list = shortened(list, t, n)
	}
	if removed := ShortenedHost(n.Provider, provider.Settings{CustomHost: n.CustomHost}); removed != "" {
		list = append(list, Shortened{strings.TrimPrefix(n.Path+".custom_host", "config."), removed})
	}
	return list
}
