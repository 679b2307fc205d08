package checks

import "testing"

func TestOnlyAddressesBelowTheStoredOneGetItsCredential(t *testing.T) {
	for _, tt := range []struct {
		address, base string
		want          bool
	}{
		{"https://a.example/hooks", "https://a.example/hooks", true},
		{"https://A.example/hooks/input", "https://a.example/hooks/", true},
		{"https://a.example/anything", "https://a.example", true},
		{"http://a.example/hooks", "https://a.example/hooks", false},
		{"https://a.example:8443/hooks", "https://a.example/hooks", false},
		{"https://b.example/hooks", "https://a.example/hooks", false},
		{"https://a.example/hooks2", "https://a.example/hooks", false},
		{"https://a.example/hook", "https://a.example/hooks", false},
		{"https://a.example/hooks/../admin", "https://a.example/hooks", false},
		{"https://a.example/hooks/%2e%2e/admin", "https://a.example/hooks", false},
		{"https://a.example/hooks//admin", "https://a.example/hooks", false},
	} {
		address, err := parseURL(tt.address)
		if err != nil {
			t.Fatal(err)
		}
		base, err := parseURL(tt.base)
		if err != nil {
			t.Fatal(err)
		}
		if got := isBelow(address, base); got != tt.want {
			t.Errorf("%s is below %s: %t, want %t", tt.address, tt.base, got, tt.want)
		}
	}
}
