package dataplane

import "testing"

func TestQueriesLoseTheirGrants(t *testing.T) {
	for _, tt := range []struct{ query, want string }{
		{"", ""},
		{"alt=media&key=%41", "alt=media&key=%41"},
		{"gateway_grant=x", ""},
		{"gateway_grant=x&a=1", "a=1"},
		{"a=1&gateway_grant=x&gateway_grant=y&b", "a=1&b"},
		{"a=1&%67ateway_grant=x", "a=1"},
		{"a=1&gateway%5Fgrant=x", "a=1"},
		{"a=1&Gateway_Grant=x", "a=1"},
		{"a=gateway_grant&my_grant=x", "a=gateway_grant&my_grant=x"},
	} {
		if got := withoutGrants(tt.query); got != tt.want {
			t.Errorf("withoutGrants(%q) = %q, want %q", tt.query, got, tt.want)
		}
	}
}
