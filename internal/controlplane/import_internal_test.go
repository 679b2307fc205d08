package controlplane

import (
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/logstore"
)

func FuzzWhatIsPostedIsTakenOrRefusedByName(f *testing.F) {
	for _, s := range []string{
		`{"request":{"url":"http://a.example/p?q","body":{"model":"m","stream":true}},"response":{"body":{"usage":{"prompt_tokens":1}}}}`,
		`[{"request":{"url":"/p","method":"get","headers":{},"body":""},"response":{"status":503,"body":null,"response_time":0.001},"metadata":{"trace_id":"t","k":"v"}}]`,
		`[{},1,null]`, `{"request":null}`, ` [ ] `, `{"metadata":{"":""}}`,
	} {
		f.Add([]byte(s))
	}
	who := &access.Identity{Organisation: "o", Workspace: "w", KeyID: "k", Metadata: map[string]string{"of": "key"}}
	now := time.UnixMilli(1_800_000_000_000)
	f.Fuzz(func(t *testing.T, body []byte) {
		var in oneOrMany[importedExchange]
		if json.Unmarshal(body, &in) != nil {
			return
		}
		list, err := in.elements(maxPosted)
		for _, e := range list {
			var p *importedExchange
			if p, err = readPosted(e); err != nil {
				break
			}
			entry := p.entry(who, now)
			back, err := logstore.ParseEntry(logstore.AppendEntry(nil, entry))
			if err != nil {
				t.Fatalf("the log can't read %s: %v", body, err)
			}
			if diff := cmp.Diff(entry.Metadata, back.Metadata); diff != "" || back.Path == "" || len(back.Path) > 600 || back.TraceID == "" || !utf8.ValidString(back.Model) {
				t.Fatalf("%s became %+v %s", body, back, diff)
			}
			if back.Total < 0 || back.Total > 24*time.Hour || back.Status < 100 || back.Status > 599 || back.Metadata["of"] != "key" {
				t.Fatalf("%s became %+v", body, back)
			}
		}
		if err != nil {
			if e := apierr.From(err); e.Kind != apierr.Invalid || e.Param == "" {
				t.Fatalf("%s: %v names no field", body, err)
			}
		}
	})
}
