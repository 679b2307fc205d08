package upstream_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"modelgate/internal/upstream"
)

func TestPublicHostsPass(t *testing.T) {
	c := upstream.New(upstream.Options{})
	for _, tt := range []struct{ raw, want string }{
		{"https://models.example.com", "https://models.example.com"},
		{"https://models.example.com/v1", "https://models.example.com/v1"},
		{"  https://models.example.com/v1/ ", "https://models.example.com/v1/"},
		{"HTTPS://Models.Example.COM/V1", "https://models.example.com/V1"},
		{"http://models.example.com:8080/v1", "http://models.example.com:8080/v1"},
		{"https://8.8.8.8/v1", "https://8.8.8.8/v1"},
		{"https://[2606:4700::1111]/v1", "https://[2606:4700::1111]/v1"},
		{"https://[2606:4700::1111]:8443", "https://[2606:4700::1111]:8443"},
		{"https://[::ffff:8.8.8.8]/", "https://[::ffff:8.8.8.8]/"},
		{"https://[64:ff9b::8.8.8.8]/", "https://[64:ff9b::8.8.8.8]/"},
		{"https://a.b.c.d.e.f.g.h.i.com", "https://a.b.c.d.e.f.g.h.i.com"},
		{"https://models.example.com/a%2Fb", "https://models.example.com/a%2Fb"},
		{"https://home.example.com", "https://home.example.com"},
		{"https://notlocalhost.com", "https://notlocalhost.com"},
		{"https://172.32.0.1", "https://172.32.0.1"},
		{"https://100.128.0.1", "https://100.128.0.1"},
	} {
		u, err := c.CheckHost(tt.raw)
		if err != nil || u.String() != tt.want {
			t.Errorf("CheckHost(%q) = %v, %v; want %s", tt.raw, u, err, tt.want)
		}
	}
}

func TestEachRuleRefuses(t *testing.T) {
	c := upstream.New(upstream.Options{OwnHosts: []string{"gateway.example.com", "203.0.114.7:8787"}})
	for _, tt := range []struct{ raw, rule string }{
		{"", upstream.RuleEmpty},
		{" \t ", upstream.RuleEmpty},
		{"https://", upstream.RuleEmpty},
		{"https:///v1", upstream.RuleEmpty},
		{"https://a.com/" + strings.Repeat("x", 2048), upstream.RuleLength},
		{"https://a.com/" + strings.Repeat("ä", 500), upstream.RuleLength},
		{"https://a.com/\x00", upstream.RuleCharacters},
		{"https://a.com\r\nx: y", upstream.RuleCharacters},
		{"\nhttps://a.com", upstream.RuleCharacters},
		{"https://a.com\x7f", upstream.RuleCharacters},
		{"https://a b.com", upstream.RuleCharacters},
		{`https:\\a.com`, upstream.RuleCharacters},
		{`https://a.com\@b.com`, upstream.RuleCharacters},
		{`https://a.com/\x`, upstream.RuleCharacters},
		{"https://a%2ecom", upstream.RuleCharacters},
		{"https://127.0.0.1%2f@a.com", upstream.RuleCharacters},
		{"https://[fe80::1%25eth0]/", upstream.RuleCharacters},
		{"https://ä.com", upstream.RuleCharacters},
		{"https://a。com", upstream.RuleCharacters},
		{"https://①②⑦.com", upstream.RuleCharacters},
		{"https://a_b.com", upstream.RuleCharacters},
		{"https://a!b.com", upstream.RuleCharacters},
		{"https://[::1", upstream.RuleSyntax},
		{"a.com", upstream.RuleScheme},
		{"//a.com", upstream.RuleScheme},
		{"localhost:11434", upstream.RuleScheme},
		{"file:///etc/passwd", upstream.RuleScheme},
		{"data:text/plain,x", upstream.RuleScheme},
		{"gopher://a.com", upstream.RuleScheme},
		{"ftp://a.com", upstream.RuleScheme},
		{"ftps://a.com", upstream.RuleScheme},
		{"ws://a.com", upstream.RuleScheme},
		{"https:a.com", upstream.RuleScheme},
		{"https://user@a.com", upstream.RuleUserInfo},
		{"https://user:pw@a.com", upstream.RuleUserInfo},
		{"https://@a.com", upstream.RuleUserInfo},
		{"https://a.com@127.0.0.1", upstream.RuleUserInfo},
		{"https://a.com?x=", upstream.RuleQuery},
		{"https://a.com/v1?", upstream.RuleQuery},
		{"https://a.com/#", upstream.RuleQuery},
		{"https://a.com#@b.com", upstream.RuleQuery},
		{"https://a.com:", upstream.RulePort},
		{"https://a.com:0", upstream.RulePort},
		{"https://a.com:65536", upstream.RulePort},
		{"https://a.com:http", upstream.RulePort},
		{"https://a.com:-1", upstream.RulePort},
		{"https://[2606:4700::1]:x", upstream.RulePort},
		{"https://a.com:22", upstream.RuleBlockedPort},
		{"https://a.com:25", upstream.RuleBlockedPort},
		{"https://a.com:445", upstream.RuleBlockedPort},
		{"https://a.com:3306", upstream.RuleBlockedPort},
		{"https://a.com:5432", upstream.RuleBlockedPort},
		{"https://a.com:6379", upstream.RuleBlockedPort},
		{"https://a.com:06379", upstream.RuleBlockedPort},
		{"https://a.com:6443", upstream.RuleBlockedPort},
		{"https://a.com:9200", upstream.RuleBlockedPort},
		{"https://a.com:27017", upstream.RuleBlockedPort},
		{"https://8.8.8.8:6379", upstream.RuleBlockedPort},
		{"https://a.com.", upstream.RuleTrailingDot},
		{"https://localhost.", upstream.RuleTrailingDot},
		{"https://127.0.0.1.", upstream.RuleTrailingDot},
		{"https://a.b.c.d.e.f.g.h.i.j.com", upstream.RuleLabels},
		{"https://a..com", upstream.RuleLabels},
		{"https://.com", upstream.RuleLabels},
		{"https://xn--bcher-kva.example", upstream.RulePunycode},
		{"https://a.xn--p1ai", upstream.RulePunycode},
		{"http://2130706433", upstream.RuleIPNotation},
		{"http://0x7f000001", upstream.RuleIPNotation},
		{"http://0X7F.0.0.1", upstream.RuleIPNotation},
		{"http://0x7f.0.0.0x1", upstream.RuleIPNotation},
		{"http://017700000001", upstream.RuleIPNotation},
		{"http://0177.0.0.1", upstream.RuleIPNotation},
		{"http://127.0.0.01", upstream.RuleIPNotation},
		{"http://127.1", upstream.RuleIPNotation},
		{"http://127.0.1", upstream.RuleIPNotation},
		{"http://1.2.3.4.5", upstream.RuleIPNotation},
		{"http://256.256.256.256", upstream.RuleIPNotation},
		{"http://10.0.0.0x", upstream.RuleIPNotation},
		{"https://gateway.example.com/v1", upstream.RuleOwnHost},
		{"https://GATEWAY.example.com:8443", upstream.RuleOwnHost},
		{"http://203.0.114.7:8787", upstream.RuleOwnHost},
		{"http://localhost:11434", upstream.RuleBlockedName},
		{"http://LOCALHOST", upstream.RuleBlockedName},
		{"http://metadata", upstream.RuleBlockedName},
		{"http://a.localhost", upstream.RuleBlockedSuffix},
		{"http://printer.local", upstream.RuleBlockedSuffix},
		{"http://localhost.localdomain", upstream.RuleBlockedSuffix},
		{"http://db.internal", upstream.RuleBlockedSuffix},
		{"http://host.docker.internal", upstream.RuleBlockedSuffix},
		{"http://a.intranet", upstream.RuleBlockedSuffix},
		{"http://a.lan", upstream.RuleBlockedSuffix},
		{"http://a.home", upstream.RuleBlockedSuffix},
		{"http://router.home.arpa", upstream.RuleBlockedSuffix},
		{"http://a.corp", upstream.RuleBlockedSuffix},
		{"http://a.test", upstream.RuleBlockedSuffix},
		{"http://a.invalid", upstream.RuleBlockedSuffix},
		{"http://a.onion", upstream.RuleBlockedSuffix},
		{"http://127.0.0.1.nip.io", upstream.RuleDNSHelper},
		{"http://10-0-0-1.sslip.io", upstream.RuleDNSHelper},
		{"http://xip.io", upstream.RuleDNSHelper},
		{"http://localtest.me", upstream.RuleDNSHelper},
		{"http://a.lvh.me", upstream.RuleDNSHelper},
		{"http://a.vcap.me", upstream.RuleDNSHelper},
		{"http://a.traefik.me", upstream.RuleDNSHelper},
		{"http://a.localhost.run", upstream.RuleDNSHelper},
	} {
		wantRefused(t, c, tt.raw, tt.rule)
	}
}

func TestAddressesThatAreNotPublicAreRefused(t *testing.T) {
	c := upstream.New(upstream.Options{})
	for _, tt := range []struct{ addr, rule string }{
		{"0.0.0.0", upstream.RuleUnspecified},
		{"0.1.2.3", upstream.RuleUnspecified},
		{"10.0.0.5", upstream.RulePrivate},
		{"10.255.255.255", upstream.RulePrivate},
		{"100.64.0.1", upstream.RuleShared},
		{"100.127.255.255", upstream.RuleShared},
		{"127.0.0.1", upstream.RuleLoopback},
		{"127.255.255.254", upstream.RuleLoopback},
		{"169.254.1.1", upstream.RuleLinkLocal},
		{"172.16.0.1", upstream.RulePrivate},
		{"172.31.255.255", upstream.RulePrivate},
		{"192.0.0.1", upstream.RuleReserved},
		{"192.0.2.1", upstream.RuleReserved},
		{"192.88.99.1", upstream.RuleReserved},
		{"192.168.1.1", upstream.RulePrivate},
		{"198.18.0.1", upstream.RuleReserved},
		{"198.19.255.255", upstream.RuleReserved},
		{"198.51.100.1", upstream.RuleReserved},
		{"203.0.113.1", upstream.RuleReserved},
		{"224.0.0.1", upstream.RuleMulticast},
		{"239.255.255.255", upstream.RuleMulticast},
		{"240.0.0.1", upstream.RuleReserved},
		{"255.255.255.255", upstream.RuleReserved},
		{"169.254.169.254", upstream.RuleMetadata},
		{"169.254.169.1", upstream.RuleMetadata},
		{"169.254.170.2", upstream.RuleMetadata},
		{"169.254.170.23", upstream.RuleMetadata},
		{"100.100.100.200", upstream.RuleMetadata},
		{"168.63.129.16", upstream.RuleMetadata},
		{"192.0.0.192", upstream.RuleMetadata},
		{"[fd00:ec2::254]", upstream.RuleMetadata},
		{"[fd20:ce::254]", upstream.RuleMetadata},
		{"[::]", upstream.RuleUnspecified},
		{"[::1]", upstream.RuleLoopback},
		{"[0:0:0:0:0:0:0:1]", upstream.RuleLoopback},
		{"[fc00::1]", upstream.RulePrivate},
		{"[fdff::1]", upstream.RulePrivate},
		{"[fec0::1]", upstream.RulePrivate},
		{"[fe80::1]", upstream.RuleLinkLocal},
		{"[ff02::1]", upstream.RuleMulticast},
		{"[2001:db8::1]", upstream.RuleReserved},
		{"[2001:10::1]", upstream.RuleReserved},
		{"[3fff::1]", upstream.RuleReserved},
		{"[100::1]", upstream.RuleReserved},
		{"[100:0:0:1::1]", upstream.RuleReserved},
		{"[5f00::1]", upstream.RuleReserved},
		{"[4000::1]", upstream.RuleReserved},
		{"[::ffff:127.0.0.1]", upstream.RuleLoopback},
		{"[::ffff:7f00:1]", upstream.RuleLoopback},
		{"[::ffff:10.0.0.1]", upstream.RulePrivate},
		{"[::ffff:169.254.169.254]", upstream.RuleMetadata},
		{"[64:ff9b::10.0.0.1]", upstream.RulePrivate},
		{"[64:ff9b::169.254.169.254]", upstream.RuleMetadata},
		{"[64:ff9b:1::8.8.8.8]", upstream.RuleEmbeddedIPv4},
		{"[::8.8.8.8]", upstream.RuleEmbeddedIPv4},
		{"[::169.254.169.254]", upstream.RuleMetadata},
		{"[::ffff:0:127.0.0.1]", upstream.RuleEmbeddedIPv4},
		{"[2002:7f00:1::]", upstream.RuleEmbeddedIPv4},
		{"[2002:a9fe:a9fe::]", upstream.RuleMetadata},
		{"[2001:0:4136:e378:8000:63bf:3fff:fdd2]", upstream.RuleEmbeddedIPv4},
	} {
		wantRefused(t, c, "http://"+tt.addr+"/v1", tt.rule)
	}
}

func TestTrustedHostsPass(t *testing.T) {
	c := upstream.New(upstream.Options{TrustedHosts: []string{
		"ollama", "GPU.internal", "*.models.corp", "vault.lan:8443", "*.svc.lan:8000", "10.1.0.0/16", "10.2.0.7", "192.168.0.9:8080",
		"fd12::/16", "[fd34::1]:9000", "fd56::1", "my_service", "db.example.com:5432", "xn--bcher-kva.example", "::ffff:10.3.0.1",
	}})
	for _, raw := range []string{
		"http://ollama:11434", "http://gpu.internal", "http://gpu.internal:6379", "http://a.models.corp", "http://a.b.models.corp",
		"https://vault.lan:8443", "http://x.svc.lan:8000", "http://10.1.2.3", "http://10.1.2.3:22", "http://10.2.0.7", "http://192.168.0.9:8080",
		"http://[fd12::9]", "http://[fd34::1]:9000", "http://[fd56::1]", "http://my_service:80", "http://db.example.com:5432",
		"http://xn--bcher-kva.example", "http://[::ffff:10.1.0.1]", "http://10.3.0.1",
	} {
		if _, err := c.CheckHost(raw); err != nil {
			t.Errorf("CheckHost(%q) = %v, want it to pass", raw, err)
		}
	}
	for _, tt := range []struct{ raw, rule string }{
		{"http://models.corp", upstream.RuleBlockedSuffix},
		{"http://evilmodels.corp", upstream.RuleBlockedSuffix},
		{"http://vault.lan", upstream.RuleBlockedSuffix},
		{"https://vault.lan:8444", upstream.RuleBlockedSuffix},
		{"http://x.svc.lan", upstream.RuleBlockedSuffix},
		{"http://10.2.0.8", upstream.RulePrivate},
		{"http://192.168.0.9", upstream.RulePrivate},
		{"http://[fd34::1]", upstream.RulePrivate},
		{"http://db.example.com:3306", upstream.RuleBlockedPort},
		{"http://gpu.internal:0", upstream.RulePort},
		{"http://user@gpu.internal", upstream.RuleUserInfo},
	} {
		wantRefused(t, c, tt.raw, tt.rule)
	}
}

func TestMetadataIsRefusedThoughTrusted(t *testing.T) {
	c := upstream.New(upstream.Options{TrustLoopback: true, TrustedHosts: []string{
		"0.0.0.0/0", "::/0", "*.internal", "169.254.169.254", "metadata.google.internal", "instance-data", "fd00:ec2::254",
	}})
	for _, raw := range []string{
		"http://169.254.169.254", "http://metadata.google.internal", "http://instance-data", "http://[fd00:ec2::254]",
		"http://[::ffff:169.254.169.254]", "http://[2002:a9fe:a9fe::1]", "http://168.63.129.16", "http://100.100.100.200",
	} {
		wantRefused(t, c, raw, upstream.RuleMetadata)
	}
	if _, err := c.CheckHost("http://10.0.0.1"); err != nil {
		t.Errorf("an address of a trusted range is refused: %v", err)
	}
}

func TestLoopbackIsTrustedOnlyOnRequest(t *testing.T) {
	open := upstream.New(upstream.Options{TrustLoopback: true})
	shut := upstream.New(upstream.Options{})
	for _, raw := range []string{
		"http://localhost:11434", "http://a.localhost", "http://127.0.0.1:8080", "http://[::1]:8080", "http://[::ffff:127.0.0.1]",
	} {
		if _, err := open.CheckHost(raw); err != nil {
			t.Errorf("with TrustLoopback CheckHost(%q) = %v, want it to pass", raw, err)
		}
		if _, err := shut.CheckHost(raw); err == nil {
			t.Errorf("without TrustLoopback CheckHost(%q) passes", raw)
		}
	}
	wantRefused(t, open, "http://10.0.0.1", upstream.RulePrivate)
	wantRefused(t, open, "http://2130706433", upstream.RuleIPNotation)
}

func TestTrustedHostsWithoutMeaningAreReported(t *testing.T) {
	bad := []string{"", "*", "*.", "http://a.com", "a.com:0", "a.com:x", "a.com:70000", "10.0.0.0/33", "a b", "a.com/v1", "127.1", "a..b"}
	for _, e := range bad {
		if upstream.CheckTrusted(e) == nil {
			t.Errorf("CheckTrusted(%q) = nil, want an error", e)
		}
	}
	c := upstream.New(upstream.Options{TrustedHosts: bad})
	wantRefused(t, c, "http://10.0.0.1", upstream.RulePrivate)
	wantRefused(t, c, "http://a.lan", upstream.RuleBlockedSuffix)
}

func TestRefusalsTellWhatToDoAndNothingElse(t *testing.T) {
	c := upstream.New(upstream.Options{})
	_, err := c.CheckHost("http://10.0.0.5:8080/secret-path")
	want := `custom host "10.0.0.5" is refused by rule private-address: the address is of a private network; if it is meant to be reached, list it in upstream.trusted_hosts`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	for _, raw := range []string{"https://user:pl4nted@a.com", "https://a.com/?key=pl4nted", "https://a.com:pl4nted", "https://a b:pl4nted@x"} {
		if _, err := c.CheckHost(raw); err == nil || strings.Contains(err.Error(), "pl4nted") {
			t.Errorf("CheckHost(%q) = %v, want an error without the credential", raw, err)
		}
	}
}

func wantRefused(t *testing.T, c *upstream.Client, raw, rule string) {
	t.Helper()
	_, err := c.CheckHost(raw)
	e, ok := errors.AsType[*upstream.RefusedError](err)
	if !ok || e.Rule != rule {
		t.Errorf("CheckHost(%q) = %v, want rule %s", raw, err, rule)
		return
	}
	if !strings.Contains(e.Error(), rule+": ") || strings.HasSuffix(e.Error(), ": ") {
		t.Errorf("the text %q does not tell rule %s and a reason", e, rule)
	}
}

// FuzzCheckHost: whatever passes is a web address whose host is a plain name
// or a public address, and passing it again changes nothing.
func FuzzCheckHost(f *testing.F) {
	for _, s := range []string{
		"https://a.com/v1", "http://[::1]:80", "http://127.1", "https://a@b", "http://[::ffff:7f00:1]/", "http://0x7f.1", "https://a.com:22",
		"http://[fe80::1%25a]", `http:\\a`, "http://a?b#c", "http://a%00.com", "HTTP://A.LOCAL.", "http://[64:ff9b::a00:1]",
	} {
		f.Add(s)
	}
	c := upstream.New(upstream.Options{})
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := c.CheckHost(raw)
		if err != nil {
			if _, ok := errors.AsType[*upstream.RefusedError](err); !ok {
				t.Fatalf("CheckHost(%q) = %T, want *RefusedError", raw, err)
			}
			return
		}
		if u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "http" && u.Scheme != "https" {
			t.Fatalf("CheckHost(%q) passes %q", raw, u)
		}
		host := u.Hostname()
		if strings.ContainsAny(host, "%\\@/ \t\r\n") || strings.HasSuffix(host, ".") {
			t.Fatalf("CheckHost(%q) passes host %q", raw, host)
		}
		if a, err := netip.ParseAddr(host); err == nil {
			a = a.Unmap()
			if a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() {
				t.Fatalf("CheckHost(%q) passes address %s", raw, a)
			}
		}
		again, err := c.CheckHost(u.String())
		if err != nil || again.String() != u.String() {
			t.Fatalf("CheckHost(%q) = %q, and of that %v, %v", raw, u, again, err)
		}
	})
}
