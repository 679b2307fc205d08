package clientaddr_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"modelgate/internal/base/clientaddr"
)

func mustPolicy(t testing.TB, header string, proxies ...string) *clientaddr.Policy {
	t.Helper()
	p, err := clientaddr.New(proxies, header)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestClientAddressIsTheRightMostUntrustedOne(t *testing.T) {
	const peer = "10.0.0.1:4000" // trusted
	hops := strings.Repeat("10.0.0.9, ", 40)
	for _, tt := range []struct {
		name, header, peer string
		lines              []string
		want               string
	}{
		{"no header", "", peer, nil, peer},
		{"one hop", "", peer, []string{"192.0.2.1"}, "192.0.2.1:0"},
		{"client claims to be another", "", peer, []string{"127.0.0.1, 192.0.2.1"}, "192.0.2.1:0"},
		{"client claims in a line of its own", "", peer, []string{"127.0.0.1", "192.0.2.1"}, "192.0.2.1:0"},
		{"two trusted hops", "", peer, []string{"6.6.6.6, 192.0.2.1, 10.0.0.2"}, "192.0.2.1:0"},
		{"trusted hops in lines", "", peer, []string{"6.6.6.6, 192.0.2.1", "10.0.0.2,10.0.0.3"}, "192.0.2.1:0"},
		{"untrusted peer", "", "192.0.2.9:1", []string{"127.0.0.1"}, "192.0.2.9:1"},
		{"all trusted", "", peer, []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3:0"},
		{"garbage behind a trusted hop", "", peer, []string{"192.0.2.1, garbage, 10.0.0.2"}, "10.0.0.2:0"},
		{"garbage only", "", peer, []string{"garbage"}, peer},
		{"unspecified address", "", peer, []string{"0.0.0.0"}, peer},
		{"empty items", "", peer, []string{"192.0.2.1, ,"}, "192.0.2.1:0"},
		{"empty line", "", peer, []string{""}, peer},
		{"with port", "", peer, []string{"192.0.2.1:99"}, "192.0.2.1:0"},
		{"IPv6", "", peer, []string{"2001:db8::1"}, "[2001:db8::1]:0"},
		{"IPv6 in brackets", "", peer, []string{"[2001:db8::1]"}, "[2001:db8::1]:0"},
		{"IPv6 with port", "", peer, []string{"[2001:db8::1]:8"}, "[2001:db8::1]:0"},
		{"IPv4 written as IPv6", "", peer, []string{"::ffff:192.0.2.1"}, "192.0.2.1:0"},
		{"trusted proxy written as IPv6", "", "[::ffff:10.0.0.1]:5", []string{"192.0.2.1"}, "192.0.2.1:0"},
		{"trusted hop written as IPv6", "", peer, []string{"192.0.2.1, ::ffff:10.0.0.2"}, "192.0.2.1:0"},
		{"zone is dropped", "", peer, []string{"fe80::1%eth0"}, "[fe80::1]:0"},
		{"more hops than are read", "", peer, []string{"6.6.6.6, " + strings.TrimSuffix(hops, ", ")}, "10.0.0.9:0"},
		{"the other header is not read", "", peer, nil, peer},

		{"Forwarded", "Forwarded", peer, []string{"for=192.0.2.1"}, "192.0.2.1:0"},
		{"Forwarded with all parameters", "Forwarded", peer, []string{`proto=https;FOR="192.0.2.1:7";by=10.0.0.1;host=a.example`}, "192.0.2.1:0"},
		{"Forwarded with IPv6", "Forwarded", peer, []string{`for="[2001:db8::1]:7"`}, "[2001:db8::1]:0"},
		{"Forwarded claims another", "Forwarded", peer, []string{"for=127.0.0.1, for=192.0.2.1"}, "192.0.2.1:0"},
		{"Forwarded with an open quote", "Forwarded", peer, []string{`for="127.0.0.1, for=192.0.2.1`}, "192.0.2.1:0"},
		{"Forwarded with a comma in quotes", "Forwarded", peer, []string{`for=192.0.2.1;host="a, for=127.0.0.1"`}, "192.0.2.1:0"},
		{"Forwarded with an escaped quote", "Forwarded", peer, []string{`for=192.0.2.1;host="a\", for=127.0.0.1"`}, "192.0.2.1:0"},
		{"Forwarded twice in an element", "Forwarded", peer, []string{"for=127.0.0.1;for=192.0.2.1"}, peer},
		{"Forwarded unknown", "Forwarded", peer, []string{"for=127.0.0.1, for=unknown"}, peer},
		{"Forwarded hidden", "Forwarded", peer, []string{"for=127.0.0.1, for=_secret"}, peer},
		{"Forwarded without for", "Forwarded", peer, []string{"for=127.0.0.1, proto=http"}, peer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := mustPolicy(t, tt.header, "10.0.0.0/24")
			name := tt.header
			if name == "" {
				name = "X-Forwarded-For"
			}
			r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{name: tt.lines}}
			if name == "Forwarded" {
				r.Header["X-Forwarded-For"] = []string{"6.6.6.6"}
			} else {
				r.Header["Forwarded"] = []string{"for=6.6.6.6"}
			}
			if got := p.RemoteAddr(r); got != tt.want {
				t.Errorf("RemoteAddr(%q from %s) = %s, want %s", tt.lines, tt.peer, got, tt.want)
			}
		})
	}
}

func TestNilPolicyBelievesNobody(t *testing.T) {
	var p *clientaddr.Policy
	r := &http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{"X-Forwarded-For": {"192.0.2.1"}}}
	if got := p.RemoteAddr(r); got != r.RemoteAddr || p.Trusts(netip.MustParseAddr("10.0.0.1")) {
		t.Errorf("nil policy: RemoteAddr = %s, want %s and no trust", got, r.RemoteAddr)
	}
}

func TestPolicyRejectsWhatWouldTrustTooMany(t *testing.T) {
	for _, tt := range []struct {
		proxy, header, want string
	}{
		{"0.0.0.0/0", "", "trusts every address"},
		{"::/0", "", "trusts every address"},
		{"10.0.0.0/33", "", "not an address or a CIDR"},
		{"proxy.example", "", "not an address or a CIDR"},
		{"fe80::1%eth0", "", "not an address or a CIDR"},
		{"", "", "not an address or a CIDR"},
		{"::ffff:0.0.0.0/90", "", "mixes IPv4 and IPv6"},
		{"10.0.0.1", "X-Real-IP", "not supported"},
	} {
		if _, err := clientaddr.New([]string{tt.proxy}, tt.header); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("New(%q, %q) = %v, want %q", tt.proxy, tt.header, err, tt.want)
		}
	}
}

func FuzzForwarded(f *testing.F) {
	for _, s := range []string{"192.0.2.1", "127.0.0.1, 10.0.0.2", `for="[2001:db8::1]:7";proto=https, for=192.0.2.1`, `for="\", for=1.1.1.1`, ",,;=\"\"", "[::1", "for=for=1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		for _, header := range []string{"X-Forwarded-For", "Forwarded"} {
			p := mustPolicy(t, header, "10.0.0.0/24")
			untrusted := &http.Request{RemoteAddr: "192.0.2.9:1", Header: http.Header{header: {list}}}
			if got := p.RemoteAddr(untrusted); got != untrusted.RemoteAddr {
				t.Errorf("untrusted peer became %s by %q", got, list)
			}
			// What a proxy appends wins over all that came before it.
			own := "203.0.113.5"
			if header == "Forwarded" {
				own = "for=203.0.113.5"
			}
			r := &http.Request{RemoteAddr: "10.0.0.1:1", Header: http.Header{header: {list + ", " + own}}}
			if got := p.RemoteAddr(r); got != "203.0.113.5:0" {
				t.Errorf("client = %s by %q, want what the proxy has appended", got, list)
			}
			r.Header[header] = []string{list}
			if !clientaddr.Host(p.RemoteAddr(r)).IsValid() {
				t.Errorf("client = %s by %q, want an address", p.RemoteAddr(r), list)
			}
		}
	})
}
