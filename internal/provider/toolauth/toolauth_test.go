package toolauth_test

import (
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider/toolauth"
	"modelgate/internal/provider/toolserver"
)

func TestChallengesAreRead(t *testing.T) {
	for text, want := range map[string]map[string]string{
		`Bearer resource_metadata="https://a.example.com/x", scope="a b"`: {"resource_metadata": "https://a.example.com/x", "scope": "a b"},
		`Basic realm="Bearer x", bearer error=insufficient_scope,scope=a`: {"error": "insufficient_scope", "scope": "a"},
		`Bearer realm="a, \"b\"", scope="x", DPoP algs="y"`:               {"realm": `a, "b"`, "scope": "x"},
		`Bearer scope="first", scope="second"`:                            {"scope": "first"},
		`Bearer`:                                                          {},
		`Bearer scope="a`:                                                 {},
		`NotBearer scope=a`:                                               nil,
		`Digest realm="x"`:                                                nil,
		`Basic realm="İİİ", BEARER scope=a`:                               {"scope": "a"},
		`Bearer scope=a, x="` + strings.Repeat("bearer,", 2000) + `"`:     nil, // longer than a challenge may be
		"": nil,
	} {
		if got := toolauth.Challenge(text); !maps.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestScopesAreBounded(t *testing.T) {
	var many []string
	for i := range 60 {
		many = append(many, strings.Repeat("x", 200)+strconv.Itoa(i))
	}
	if got := len(strings.Join(toolauth.Union(many), " ")); got < 3000 || got > 4096 {
		t.Errorf("%d bytes of scopes", got)
	}
}

// TestOwnDocumentNeedsTheIssuer has authorization servers that would take the gateway's document as
// an id. It has one redirect URI for all of them.
func TestOwnDocumentNeedsTheIssuer(t *testing.T) {
	for _, names := range []bool{true, false} {
		m := &toolauth.Metadata{Issuer: "https://a.example.com", Documents: true, NamesIssuer: names}
		if _, ok := m.FindRegistration(&toolserver.Server{}, "https://gate.example.com/oauth/client.json"); ok != names {
			t.Errorf("names the issuer: %t, uses the document: %t", names, ok)
		}
		if got := m.Callback(); (got == "") != names {
			t.Errorf("names the issuer: %t, %q", names, got)
		}
	}
}

func TestLinksAreSealedAndExpire(t *testing.T) {
	box, err := secret.NewBox(secret.New("a master key of a test, long enough"))
	if err != nil {
		t.Fatal(err)
	}
	links := toolauth.Links{Box: box, Address: func() string { return "https://gate.example.com" }}
	now := time.Unix(1_000_000, 0)
	address, id := links.New(toolauth.Link{User: "ann", Server: "notes"}, now)
	text := strings.NewReplacer("%2B", "+", "%2F", "/", "%3D", "=").Replace(address[strings.Index(address, "link=")+len("link="):])
	if l, err := links.Parse(text, now.Add(9*time.Minute)); err != nil || l.User != "ann" || l.Server != "notes" || l.ID != id {
		t.Errorf("%+v, %v", l, err)
	}
	if strings.Contains(address, "ann") {
		t.Error("the link shows its user")
	}
	other := strings.TrimPrefix(box.Seal(secret.New(`{"user":"ann","until":99999999999}`)), "sealed:v1:")
	for name, l := range map[string]struct {
		text string
		at   time.Time
	}{
		"expired": {text, now.Add(toolauth.LinkTime)}, "altered": {text[:len(text)-8] + "AAAAAAAA", now}, "without its mark": {text[4:], now},
		"something else that is sealed": {"mgl_" + other, now}, "empty": {"", now},
	} {
		if got, err := links.Parse(l.text, l.at); err == nil || got.User != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
