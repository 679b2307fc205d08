package access_test

import (
	"errors"
	"strings"
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
)

func TestAKeyIsUsedFromItsAddressesAlone(t *testing.T) {
	for _, tt := range []struct {
		name    string
		allowed []string
		remote  string
		want    bool
	}{
		{"no list", nil, "203.0.113.9:4711", true},
		{"the address", []string{"10.0.0.7"}, "10.0.0.7:4711", true},
		{"the next address", []string{"10.0.0.7"}, "10.0.0.8:4711", false},
		{"a network", []string{"10.0.0.0/8"}, "10.255.255.255:4711", true},
		{"outside the network", []string{"10.0.0.0/8"}, "11.0.0.0:4711", false},
		{"the second of a list", []string{"10.0.0.0/8", "2001:db8::7"}, "[2001:db8::7]:4711", true},
		{"none of a list", []string{"10.0.0.0/8", "2001:db8::7"}, "[2001:db8::8]:4711", false},
		{"IPv4 written as IPv6", []string{"10.0.0.0/8"}, "[::ffff:10.1.2.3]:4711", true},
		{"no address", []string{"10.0.0.0/8"}, "@", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			prefixes, err := access.ParseAddresses(tt.allowed)
			if err != nil {
				t.Fatal(err)
			}
			err = (&access.Identity{AllowedAddresses: prefixes}).CheckAddress(tt.remote)
			if got := err == nil; got != tt.want {
				t.Fatalf("CheckAddress(%s) = %v, want allowed %t", tt.remote, err, tt.want)
			}
			if refused, ok := errors.AsType[*apierr.Error](err); ok == tt.want || ok && refused.CodeOrDefault() != "address_not_allowed" {
				t.Errorf("CheckAddress(%s) = %v, want the code address_not_allowed", tt.remote, err)
			}
		})
	}
}

func TestAnAddressThatCannotBeReadAllowsNobody(t *testing.T) {
	prefixes, err := access.ParseAddresses([]string{"first", "second", "10.0.0.7"})
	if err == nil || !strings.Contains(err.Error(), "first") {
		t.Errorf("ParseAddresses() = %v, want the first invalid address", err)
	}
	if len(prefixes) != 3 {
		t.Fatalf("ParseAddresses() = %v, want one prefix for each of three texts", prefixes)
	}
	id := &access.Identity{AllowedAddresses: prefixes[:2]}
	for _, remote := range []string{"10.0.0.7:1", "0.0.0.0:1", "[::]:1", ""} {
		if id.CheckAddress(remote) == nil {
			t.Errorf("CheckAddress(%q) allows the address by %v", remote, prefixes[:2])
		}
	}
	id.AllowedAddresses = prefixes
	if err := id.CheckAddress("10.0.0.7:1"); err != nil {
		t.Errorf("CheckAddress(10.0.0.7:1) = %v next to invalid addresses, want allowed", err)
	}
}
