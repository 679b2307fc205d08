package ledger

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"modelgate/internal/simulator"
	"modelgate/internal/testing/waittest"
)

// send posts a body and returns the list that the response has under a name; false
// when there was no good one.
func (g *gateway) send(path, body, list string) (ids []string, ok bool) {
	req, err := http.NewRequest("POST", g.url+path, strings.NewReader(body))
	if err != nil {
		return nil, false
	}
	req.Header.Set("x-gateway-api-key", key)
	res, err := g.client.Do(req)
	if err != nil {
		return nil, false
	}
	defer res.Body.Close()
	var out map[string]json.RawMessage
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || json.Unmarshal(text, &out) != nil {
		return nil, false
	}
	return ids, json.Unmarshal(out[list], &ids) == nil
}

// postings are the ids of what gateways said they have.
type postings struct{ exchanges, opinions map[string]bool }

// until posts to a gateway and kills it concurrently, some time after it has taken
// so many.
func (p *postings) until(g *gateway, round, many int) (taken int) {
	for n := 0; ; n++ {
		exchange := fmt.Sprintf(`{"request":{"url":"http://a.example/%d","body":null},"response":{"body":null},"metadata":{"trace_id":"t-%d-%d"}}`, n, round, n)
		ids, ok := g.send("/logs", "["+exchange+","+exchange+"]", "ids")
		for _, id := range ids {
			p.exchanges[id] = true
		}
		given, also := g.send("/feedback", fmt.Sprintf(`{"trace_id":"t-%d-%d","value":1}`, round, n), "feedback_ids")
		for _, id := range given {
			p.opinions[id] = true
		}
		if !ok || !also {
			return taken
		}
		if taken++; taken == many {
			go g.process.Process.Kill()
		}
	}
}

// TestPostedEntriesOutliveAKill posts exchanges and feedback to a gateway until
// it is killed, several times on one data folder. What it said it has is there,
// each once.
func TestPostedEntriesOutliveAKill(t *testing.T) {
	up := httptest.NewServer(simulator.New(simulator.Options{}))
	t.Cleanup(up.Close)
	data := t.TempDir()
	p := postings{make(map[string]bool), make(map[string]bool)}
	for round := range 3 {
		g := start(t, data, up.URL)
		if taken := p.until(g, round, 20+10*round); taken < 20 {
			t.Fatalf("round %d: the gateway took %d exchanges: %s", round, taken, g.errText)
		}
		waittest.Receive(t, g.exited, "the end of the gateway")
	}
	g := start(t, data, up.URL)
	shown := g.read(t, "/feedback?page_size=1000", "data")
	g.stop(t)
	there := make(map[string]int)
	for id, entries := range logged(t, data) {
		there[id.String()] = len(entries)
	}
	for id := range p.exchanges {
		if there[id] != 1 {
			t.Errorf("%s is in the log %d times, want once", id, there[id])
		}
	}
	for id := range p.opinions {
		if strings.Count(shown, `"id":"`+id+`"`) != 1 {
			t.Errorf("the feedback %s is not there once", id)
		}
	}
	t.Logf("%d exchanges and %d opinions over 3 kills", len(p.exchanges), len(p.opinions))
}

// read returns a part of a response.
func (g *gateway) read(t *testing.T, path, name string) string {
	t.Helper()
	req, err := http.NewRequest("GET", g.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-gateway-api-key", key)
	res, err := g.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var out map[string]json.RawMessage
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %d, %v", path, res.StatusCode, err)
	}
	return string(out[name])
}
