// Package browser looks at the gateway's pages in a real browser.
//
// It promises that the browser is Chromium as Debian has it, without a word said
// to it but the address. What the routes behind the pages do is tested elsewhere.
package browser

import (
	"context"
	"encoding/json"
	"html"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
)

// page returns what a browser makes of an address, as HTML, when everything on
// it has settled.
func page(t *testing.T, address string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// Without --no-sandbox it does not start as root.
	c := exec.CommandContext(ctx, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(),
		"--virtual-time-budget=10000", "--dump-dom", address)
	var told strings.Builder
	c.Stderr = &told
	out, err := c.Output()
	if err != nil {
		t.Fatalf("chromium %s: %v; is it installed (apt-get install chromium)?\n%s", address, err, told.String())
	}
	return string(out)
}

func TestTheReferenceShowsEveryRouteAndOpensTheOneNamed(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{})
	var described struct {
		Paths map[string]map[string]struct {
			Name    string `json:"operationId"`
			Summary string
		}
	}
	res, err := http.Get(g.Root + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&described); err != nil || len(described.Paths) < 30 {
		t.Fatalf("/openapi.json has %d paths: %v", len(described.Paths), err)
	}
	shown := page(t, g.Root+"/reference#create-config")
	for path, methods := range described.Paths {
		for method, op := range methods {
			want := `<b>` + strings.ToUpper(method) + `</b><code>` + path + `</code><span>` + html.EscapeString(op.Summary) + `</span>`
			if !strings.Contains(strings.ReplaceAll(shown, "'", "&#39;"), want) {
				t.Errorf("the page does not show %s", want)
			}
		}
	}
	_, opened, _ := strings.Cut(shown, `<details id="create-config" open="">`)
	opened, _, _ = strings.Cut(opened, "</details>")
	for _, want := range []string{"Requires configs.create", "<code>name</code> *", "characters", "<code>slug</code>"} {
		if !strings.Contains(opened, want) {
			t.Errorf("the opened route does not show %q: %s", want, opened)
		}
	}
	if n := strings.Count(shown, `open=""`); n != 1 {
		t.Errorf("%d routes are open, want 1", n)
	}
}

func TestTheClaimPageTakesTheTokenOutOfItsAddress(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{})
	for path, want := range map[string]string{"/claim?token=canary-token": "Claim this modelgate", "/accept-invite?token=canary-token": "Accept your invite"} {
		shown := page(t, g.Root+path)
		if !strings.Contains(shown, want) || strings.Contains(shown, "canary-token") {
			t.Errorf("%s shows %s", path, shown)
		}
	}
}
