package toolauth_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider/toolauth"
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
		"":                                                                nil,
	} {
		if got := toolauth.Challenge(text); !maps.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%s: %v, want %v", text, got, want)
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
