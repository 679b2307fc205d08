package provider_test

import (
	"testing"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
)

func TestServicesAreOtherAddressesOfAProvider(t *testing.T) {
	spec := &provider.Spec{ID: "acme", BaseURL: "https://models.{region}.acme.example/inference/v1",
		Options:  []provider.Option{{Name: "region", Default: "north", Host: provider.HostRegion}},
		Services: map[string]provider.Service{"control": {Address: "https://control.{region}.acme.example"}}}
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

// TestTheAddressOfAServiceIsAnOption sets the addresses of services, which are checked as custom
// hosts are. Buckets get no headers that are meant for the provider's models.
func TestTheAddressOfAServiceIsAnOption(t *testing.T) {
	spec := &provider.Spec{ID: "acme", BaseURL: "https://models.acme.example", Auth: provider.Auth{Service: "models"},
		Header:  map[string]string{"X-Version": "1"},
		Options: []provider.Option{{Name: "store_url"}, {Name: "tier", Header: "X-Tier"}},
		Services: map[string]provider.Service{
			"store": {Address: "https://store.acme.example", Option: "store_url", Signed: "s3", Bucket: true},
		}}
	const custom, private = "https://proxy.example", "https://store.private.example:8443/base"
	for _, tt := range []struct {
		host, option, want string // empty if there is no such service
		guarded            bool
	}{
		{"", "", "https://store.acme.example", false},
		{"", private, private, true},
		{custom, "", "", false},
		{custom, private, private, true},
	} {
		s := provider.Settings{CustomHost: tt.host, Options: map[string]string{"tier": "flex"}, Headers: map[string]secret.String{"X-Own": secret.New("v")}}
		if tt.option != "" {
			s.Options["store_url"] = tt.option
		}
		target, err := provider.NewTarget(spec, s)
		if err != nil {
			t.Fatal(err)
		}
		at, err := target.At("store")
		if tt.want == "" {
			if e := apierr.From(err); e == nil || e.Kind != apierr.Unsupported || e.Param != "store_url" {
				t.Errorf("At() behind a custom host = %v, want unsupported", err)
			}
			continue
		}
		if err != nil || at.Base.String() != tt.want || at.Guarded != tt.guarded || at.Auth.Service != "s3" {
			t.Errorf("%+v: At() = %+v, %v", tt, at, err)
			continue
		}
		r, err := provider.NewRequest(t.Context(), at, &provider.Call{Operation: api.Proxy, Method: "GET", Path: "/b/k"})
		if err != nil || len(r.Header) != 0 {
			t.Errorf("the request for an object has the headers %v, %v", r.Header, err)
		}
	}
	for _, address := range []string{"store", "ftp://a.example", "https://u:p@a.example", "https://a.example?x=1"} {
		if _, err := provider.NewTarget(spec, provider.Settings{Options: map[string]string{"store_url": address}}); apierr.From(err) == nil {
			t.Errorf("NewTarget(%s) = nil", address)
		}
	}
}
