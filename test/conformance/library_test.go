package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/programtest"
)

// library is one of the gateway's own clients. Its script uses its own option
// names and prints what it was answered as JSON.
type library struct {
	name, runtime, ext string
	script             func(dir string) string
}

var libraries = []library{
	{"Python", "python3", ".py", func(dir string) string {
		return `import json, os, sys
sys.path.insert(0, ` + jsonString(filepath.Join(dir, "python")) + `)
from modelgate import Modelgate, ModelgateError
given = json.loads(os.environ["GIVEN"])
client = Modelgate(base_url=os.environ["GATE"], api_key=os.environ["KEY"], config=given["config"], trace_id="t-python", metadata={"team": "a"},
    forward_headers=["X-My-Custom-Header"], X_My_Custom_Header="mine")
try:
    print(json.dumps(client.chat.completions.create(model="m-1", messages=[{"role": "user", "content": "hi"}])))
except ModelgateError as error:
    print(json.dumps(error.body))
`
	}},
	{"JavaScript", "node", ".mjs", func(dir string) string {
		return `import { Modelgate } from ` + jsonString(filepath.Join(dir, "typescript", "index.js")) + `;
const given = JSON.parse(process.env.GIVEN);
const client = new Modelgate({ baseURL: process.env.GATE, apiKey: process.env.KEY, config: given.config, traceId: 't-javascript', metadata: { team: 'a' },
  forwardHeaders: ['X-My-Custom-Header'], xMyCustomHeader: 'mine' });
const answer = await client.chat.completions.create({ model: 'm-1', messages: [{ role: 'user', content: 'hi' }] }).catch((error) => error.body);
console.log(JSON.stringify(answer));
`
	}},
}

// run runs the script of l against a gateway at base and returns what it printed.
func (l library) run(t *testing.T, base, config string) map[string]any {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", "clients"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "script"+l.ext)
	if err := os.WriteFile(file, []byte(l.script(dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath(l.runtime); err != nil {
		t.Fatalf("%s is missing: %v", l.runtime, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.runtime, file)
	var out, errText bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errText
	cmd.Env = programtest.Env("GATE="+base, "KEY="+bootstrapKey, `GIVEN={"config":`+config+`}`)
	var v map[string]any
	if err := cmd.Run(); err != nil || json.Unmarshal(out.Bytes(), &v) != nil {
		t.Fatalf("%s: %v\n%s%s", l.name, err, out.Bytes(), errText.Bytes())
	}
	return v
}

// TestClientLibrariesSendTheirOptions runs the libraries of clients/.
func TestClientLibrariesSendTheirOptions(t *testing.T) {
	g, _ := start(t)
	for _, l := range libraries {
		prove(t, "S-047 S-421 S-450", l.name+" sends a config as its header", func(t *testing.T) {
			p := newProvider(t, nil)
			got := l.run(t, g.url, leaf(p, `"override_params":{"temperature":0.5}`))
			if at(got, "choices", 0, "message", "content") != "Hello" {
				t.Errorf("the client got %v", got)
			}
			if in := p.only(t); in.field(t, "temperature") != "0.5" || in.field(t, "model") != `"m-1"` {
				t.Errorf("the provider got %s", in.body)
			}
		})
		prove(t, "S-047 S-421", l.name+" names a saved config by its id", func(t *testing.T) {
			got := l.run(t, g.url, `"pc-absent"`)
			if at(got, "error", "source") != "gateway" || !strings.Contains(jsonText(got), "pc-absent") {
				t.Errorf("the client got %v, want the gateway's word that there is no such config", got)
			}
		})
		prove(t, "S-451 S-421", l.name+" forwards a header in its own spelling", func(t *testing.T) {
			p := newProvider(t, nil)
			l.run(t, g.url, leaf(p))
			in := p.only(t)
			if value, _ := in.line("X-My-Custom-Header"); value != "mine" {
				t.Errorf("the provider got\n%s", in.head)
			}
		})
		prove(t, "S-421 S-037 S-038", l.name+" sends a trace id and metadata", func(t *testing.T) {
			p := newProvider(t, nil)
			l.run(t, g.url, leaf(p))
			trace := "t-" + strings.ToLower(l.name)
			list := g.do(t, "GET", "/v1/logs?limit=20&trace_id="+trace, "", "x-gateway-api-key", bootstrapKey).wantOK(t)
			if !strings.Contains(string(list.body), `"team"`) || !strings.Contains(string(list.body), `"`+trace+`"`) {
				t.Errorf("the log holds %.300s", list.body)
			}
		})
		prove(t, "S-450", l.name+" asks the address that it is given", func(t *testing.T) {
			elsewhere := newProvider(t, nil)
			got := l.run(t, elsewhere.url, leaf(elsewhere))
			if in := elsewhere.only(t); in.uri != "/v1/chat/completions" || in.header.Get("X-Gateway-Config") == "" || at(got, "id") != "chatcmpl-1" {
				t.Errorf("%s was asked for; the client got %v", in.uri, got)
			}
		})
	}
}

func jsonText(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}
