package server

import (
	"errors"
	"net/url"

	"modelgate/config"
	"modelgate/internal/base/egress"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/secrets/datakey"
	"modelgate/internal/settings"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
)

// Destination is an address to which a gateway sends model requests.
type Destination struct {
	Owner   string   // such as "provider @main"
	Base    *url.URL // nil if Err is not
	Guarded bool     // the address guard applies, and no proxy is used
	// Err is why there is no address, or why the egress policies allow none of its requests.
	Err error
}

// Destinations returns the addresses of the managed providers and configs of the settings and
// of a stored state, which may be nil. It reads no external secrets, so that addresses in
// them are unknown. The ring may be nil if stored is.
func Destinations(set *settings.Settings, stored *publication.State, ring *datakey.Keyring) (list []Destination) {
	for _, m := range managed(set) {
		list = append(list, destinationOf("provider @"+m.Slug, m.Provider, m.Settings))
	}
	for _, c := range set.Configs {
		list = append(list, configDestinations("config "+c.Slug, c.Text().Reveal())...)
	}
	if stored == nil {
		return list
	}
	opens := secretOpener{ring, stored.DataKeys}
	values := integrationSet{secretValues: secretValues{secretOpener: opens}}
	for i := range stored.Providers {
		p := &stored.Providers[i]
		if p.Withdrawn || p.Row.Status == store.Expired {
			continue
		}
		row := &p.Integration.Row
		opened, err := opens.secrets(row.Organisation, row.Sealed)
		d := Destination{Owner: "provider @" + p.Row.Slug, Err: err}
		if err == nil {
			d = destinationOf(d.Owner, row.Provider, values.settingsFor(&row.Configuration, opened, ""))
		}
		if d.Guarded {
			policies := egress.Policies{Organisation: stored.Egress[row.Organisation], Workspace: stored.Egress[p.Row.Workspace]}
			d.Err = policies.Check(egress.Request{Managed: true, Host: d.Base})
		}
		list = append(list, d)
	}
	for i := range stored.Configs {
		list = append(list, configDestinations("config "+stored.Configs[i].Row.Slug, stored.Configs[i].Current().Text)...)
	}
	return list
}

func destinationOf(owner, id string, s provider.Settings) Destination {
	d := Destination{Owner: owner}
	spec, ok := table.Lookup(id)
	if !ok {
		return d // such as a provider of tests; nothing is known of its address
	}
	target, err := provider.NewTarget(spec, s)
	if err != nil {
		d.Err = err
		return d
	}
	d.Base, d.Guarded = target.Base, target.Guarded
	return d
}

// configDestinations returns the custom hosts of a config, which may be invalid.
func configDestinations(owner, text string) (list []Destination) {
	root, err := config.Parse([]byte(text))
	if err != nil {
		return nil
	}
	for node := range root.All() {
		if node.CustomHost == "" {
			continue
		}
		d := Destination{Owner: owner, Guarded: true}
		if u, err := url.Parse(node.CustomHost); err == nil && u.Host != "" {
			d.Base = u
		} else {
			d.Err = errors.New("custom_host is not an address; write it as https://host/path")
		}
		list = append(list, d)
	}
	return list
}
