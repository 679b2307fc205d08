package credentials

import (
	"modelgate/config"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/store"
)

// AddressWarnings says what is left out of the address that a request g has set for i; see
// [table.Shortened]. Nil means that the address is used as it is.
func AddressWarnings(g CredentialInput, i *store.Integration) []string {
	if !g.Fields.Set {
		return nil
	}
	removed := table.ShortenedHost(i.Provider, provider.Settings{CustomHost: i.Configuration.CustomHost,
		Options: i.Configuration.TargetOptions(store.Secrets{}, "")})
	if removed == "" {
		return nil
	}
	return []string{table.Shortened{Field: g.Path + customHost, Removed: removed}.String()}
}

// ConfigWarnings says what is left out of the addresses of a config, given as JSON.
func ConfigWarnings(text []byte) (list []string) {
	root, err := config.Parse(text)
	if err != nil {
		return nil
	}
	for _, s := range table.ShortenedHosts(root) {
		s.Field = "config." + s.Field
		list = append(list, s.String())
	}
	return list
}
