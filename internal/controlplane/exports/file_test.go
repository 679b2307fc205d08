package exports_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"modelgate/internal/controlplane/exports"
	"modelgate/internal/records/reqlog"
)

func TestOnlyWhoHasALinkReadsAFile(t *testing.T) {
	d := newDesk(t)
	d.record(&reqlog.Entry{Result: reqlog.Result{Status: 200}})
	id, other := createDraft(d.root, "csv", ""), createDraft(d.root, "csv", "")
	text := d.download(d.root, id)
	d.download(d.root, other)
	var link struct {
		URL string `json:"signed_url"`
	}
	d.root.Must("GET", "/logs/exports/"+id+"/download", "", &link)
	u, err := url.Parse(link.URL)
	if err != nil || u.Scheme != "http" || u.Host != "listen.example:8787" {
		t.Fatalf("link %s, %v", link.URL, err)
	}
	q := u.Query()
	with := func(path, expires, signature string) string {
		return path + "?expires=" + url.QueryEscape(expires) + "&signature=" + url.QueryEscape(signature)
	}
	for name, bad := range map[string]string{
		"later":          with(u.Path, "99999999999", q.Get("signature")),
		"other":          with(strings.Replace(u.Path, id, other, 1), q.Get("expires"), q.Get("signature")),
		"unknown":        with(strings.Replace(u.Path, id, "x", 1), q.Get("expires"), q.Get("signature")),
		"no signature":   with(u.Path, q.Get("expires"), ""),
		"bare":           u.Path,
		"more":           link.URL + "&x=1",
		"another's text": with(u.Path, q.Get("expires")+"\n", q.Get("signature")),
	} {
		if w := d.fetch("GET", bad); w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), id) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if w := d.fetch("POST", link.URL); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	w := d.fetch("GET", link.URL)
	if w.Code != 200 || w.Body.String() != text || w.Header().Get("Content-Type") != "text/csv; charset=utf-8" ||
		w.Header().Get("Content-Disposition") != `attachment; filename="logs-`+id+`.csv"` || !strings.Contains(w.Header().Get("Cache-Control"), "no-store") {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if a := d.root.Call("GET", "/logs/exports/"+id, ""); strings.Contains(a.Body, q.Get("signature")) || strings.Contains(a.Body, "link") {
		t.Errorf("an export shows its links: %s", a.Body)
	}
	d.Exec(`UPDATE exports SET status = 'expired' WHERE id = $1`, id)
	if w := d.fetch("GET", link.URL); w.Code != http.StatusForbidden {
		t.Errorf("a link to an export that is expired: %d", w.Code)
	}
	d.Exec(`UPDATE exports SET status = 'success' WHERE id = $1`, id)
	if w := d.fetch("HEAD", link.URL); w.Code != http.StatusOK || w.Body.Len() > 0 {
		t.Errorf("HEAD: %d", w.Code)
	}
	d.Clock = d.Clock.Add(exports.LinkLife)
	if w := d.fetch("GET", link.URL); w.Code != http.StatusForbidden {
		t.Errorf("a link that has run out: %d", w.Code)
	}
}
