package bundle

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strings"
	"testing"
)

func TestSecretsAreFoundInAllEncodings(t *testing.T) {
	const canary = `canary/"key"+1=`
	c := newCleaner(Options{Environ: []string{"SOME_KEY=" + canary, "SOME_URL=redis://user:canary%20pass@h:1", "HOME=/srv/canary-of-harmless"}})
	for _, form := range []string{
		canary, url.QueryEscape(canary), url.PathEscape(canary), hex.EncodeToString([]byte(canary)),
		base64.StdEncoding.EncodeToString([]byte(canary)), base64.RawURLEncoding.EncodeToString([]byte(canary)),
		`canary/\"key\"+1=`, "canary pass", "canary%20pass", "someone@canary.example", "sk-ant-api03-canarycanarycanarycanary",
	} {
		if got := string(c.clean([]byte("before " + form + " after"))); strings.Contains(got, form) || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
			t.Errorf("clean(%s) = %s", form, got)
		}
	}
	if got := string(c.clean([]byte("/srv/canary-of-harmless"))); got != "/srv/canary-of-harmless" {
		t.Errorf("a harmless value became %s", got)
	}
}

func TestHostsAreHiddenEverywhere(t *testing.T) {
	c := newCleaner(Options{HideHosts: true, Environ: []string{"A=postgres://u:secret-pass@dbhost:5432/d", "B=1"}})
	got := string(c.clean([]byte("name at dbhost, api.example.com and 10.1.2.3, not modelgate.yaml, 127.0.0.1 or 1; api.example.com")))
	if strings.Contains(got, "dbhost") || strings.Contains(got, "example") || strings.Contains(got, "10.1.2.3") {
		t.Errorf("a host is left: %s", got)
	}
	if !strings.Contains(got, "modelgate.yaml, 127.0.0.1 or 1;") || strings.Count(got, "host-2") != 2 {
		t.Errorf("more than hosts was replaced, or not each by one name: %s", got)
	}
}
