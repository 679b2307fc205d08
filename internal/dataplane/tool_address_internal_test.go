package dataplane

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/snapshot"
)

func TestCredentialsOfToolServersAreForOneServerAndTime(t *testing.T) {
	t.Parallel()
	box, err := secret.NewBox(secret.New("the master key of this test"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	sealed := func(says serverToken) string {
		text, err := sealServerToken(box, says)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	valid := serverToken{Slug: "docs", Expires: now.Add(time.Minute).Unix(), Key: make([]byte, 32)}
	other, expired := valid, valid
	other.Slug, expired.Expires = "other", now.Unix()
	for _, tt := range []struct{ name, text, want string }{
		{"of an unknown key", sealed(valid), "was disabled or deleted"},
		{"of another server", sealed(other), "is for another tool server"},
		{"expired", sealed(expired), "models get one with each request"},
		{"changed", sealed(valid)[:60] + "x" + sealed(valid)[61:], "is unknown"},
		{"long", sealed(valid) + strings.Repeat("A", maxServerToken), "is unknown"},
		{"empty", access.ServerTokenPrefix, "is unknown"},
	} {
		a := admission{plane: &Plane{Options: Options{Box: box}}, entry: new(reqlog.Entry)}
		a.request.Received.Header = http.Header{"Authorization": {"Bearer " + tt.text}}
		_, isToken, err := a.serverTokenOwner(new(snapshot.Snapshot), "docs", now)
		if !isToken || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if !access.HasToken(tt.text) && tt.name != "empty" {
			t.Errorf("%s: is not recognised as a token", tt.name)
		}
	}
}
