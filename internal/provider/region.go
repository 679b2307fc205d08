package provider

import (
	"maps"
	"net/url"
)

// InRegionOf returns the target for requests for model: in the region that its
// name contains, if no option sets one and the address is the provider's own.
// Otherwise it returns t.
func (t *Target) InRegionOf(model string) *Target {
	if t.RegionOf == nil || t.Guarded {
		return t
	}
	region := t.RegionOf(model)
	if region == "" || region == t.Option("region") || t.sets("region") {
		return t
	}
	other := *t
	if other.Options = maps.Clone(t.Options); other.Options == nil {
		other.Options = make(map[string]string, 1)
	}
	other.Options["region"] = region
	base, err := other.expandBase(t.BaseURL)
	if err != nil { // no name of a region
		return t
	}
	if other.Base, err = url.Parse(base); err != nil {
		return t
	}
	other.urls = nil
	return &other
}

// sets reports whether an option has a value of its own.
func (t *Target) sets(option string) bool {
	return t.Options[option] != "" || t.Options[t.OptionPrefix+option] != ""
}
