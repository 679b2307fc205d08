package store_test

import (
	"net/url"
	"testing"

	"modelgate/internal/storage/postgres"
	"modelgate/internal/testing/storetest"
)

// Whoever looks at the server sees whose connections there are.
func TestConnectionsHaveAName(t *testing.T) {
	address := storetest.Postgres(t)
	for suffix, want := range map[string]string{"": "modelgate", "application_name=node-1": "node-1"} {
		s, err := postgres.ParseServer(withOption(address, suffix), postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var name string
		err = c.QueryRow(t.Context(), "SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()").Scan(&name)
		if c.Close(t.Context()); err != nil || name != want {
			t.Errorf("with %q: the server knows the connection as %q (%v), want %q", suffix, name, err, want)
		}
	}
}

// withOption returns an address with a further option.
func withOption(address, option string) string {
	if option == "" {
		return address
	}
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += option
	return u.String()
}
