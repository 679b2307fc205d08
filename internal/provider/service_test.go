package provider_test

import (
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/provider"
)

func TestServicesAreOtherAddressesOfAProvider(t *testing.T) {
	spec := &provider.Spec{ID: "acme", BaseURL: "https://models.{region}.acme.example/inference/v1",
		Options:  []provider.Option{{Name: "region", Default: "north", Host: provider.HostRegion}},
		Services: map[string]string{"control": "https://control.{region}.acme.example"}}
	own, err := provider.NewTarget(spec, provider.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	custom, err := provider.NewTarget(spec, provider.Settings{CustomHost: "https://proxy.example/v1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		to      *provider.Target
		service string
		want    string // empty if there is no such service
	}{
		{own, "", "https://models.north.acme.example/inference/v1"},
		{own, provider.ServiceHost, "https://models.north.acme.example"},
		{own, "control", "https://control.north.acme.example"},
		{own, "other", ""},
		{custom, provider.ServiceHost, "https://proxy.example"},
		{custom, "control", ""}, // its credential belongs to the custom host
	} {
		at, err := tt.to.At(tt.service)
		switch {
		case tt.want == "":
			if e := apierr.From(err); e == nil || e.Kind != apierr.Unsupported {
				t.Errorf("At(%q) of %s = %v, want unsupported", tt.service, tt.to.Base, err)
			}
		case err != nil || at.Base.String() != tt.want:
			t.Errorf("At(%q) of %s = %v, %v, want %s", tt.service, tt.to.Base, at, err, tt.want)
		}
	}
	if own.Base.Path != "/inference/v1" {
		t.Errorf("the target itself changed to %s", own.Base)
	}
}
