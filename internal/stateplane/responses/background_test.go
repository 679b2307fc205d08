package responses_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// streamed is an event of a response.
type streamed struct {
	Type     string `json:"type"`
	Sequence int64  `json:"sequence_number"`
	Response map[string]any
}

// events reads events until a stream ends, or most of them.
func events(t *testing.T, r io.Reader, most int) (list []streamed) {
	t.Helper()
	lines := bufio.NewScanner(r)
	for len(list) < most && lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var e streamed
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatalf("%v: %s", err, data)
			}
			list = append(list, e)
		}
	}
	return list
}

func open(t *testing.T, ctx context.Context, g *gatewaytest.Gateway, method, path, body string) *http.Response {
	t.Helper()
	res, err := http.DefaultClient.Do(g.Request(method, path, body, "x-gateway-provider", "").WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != 200 {
		b, _ := io.ReadAll(res.Body)
		t.Fatalf("status %d: %s", res.StatusCode, b)
	}
	return res
}

func awaitStatus(t *testing.T, g *gatewaytest.Gateway, id, want string) (res map[string]any) {
	t.Helper()
	waittest.Until(t, "the response is "+want, func() bool {
		res = get(t, g, 200, "GET", "/responses/"+id)
		return res["status"] == want
	})
	return res
}

// A client whose connection is cut joins again without losing or repeating an event.
func TestBackgroundSurvivesTheClient(t *testing.T) {
	v := newVendor()
	v.hold = make(chan struct{})
	g := start(t, v, gatewaytest.Options{}, "")
	ctx, cut := context.WithCancel(t.Context())
	first := events(t, open(t, ctx, g, "POST", "/responses", fmt.Sprintf(claude, "one", `,"background":true,"stream":true`)).Body, 4)
	cut()
	if first[0].Type != "response.created" || first[0].Response["status"] != "queued" || first[0].Response["background"] != true {
		t.Errorf("the first event is %+v", first[0])
	}
	id := first[0].Response["id"].(string)
	awaitStatus(t, g, id, "in_progress")
	close(v.hold)
	done := awaitStatus(t, g, id, "completed")
	if !strings.Contains(fmt.Sprint(done["output"]), "turn 1 done") || done["id"] != id {
		t.Errorf("the response is %v", done)
	}
	last := first[len(first)-1].Sequence
	rest := events(t, open(t, t.Context(), g, "GET", fmt.Sprintf("/responses/%s?stream=true&starting_after=%d", id, last), "").Body, 1000)
	all := slices.Concat(first, rest)
	for i, e := range all {
		if e.Sequence != int64(i) {
			t.Errorf("event %d has the number %d", i, e.Sequence)
		}
	}
	if end := all[len(all)-1]; end.Type != "response.completed" || end.Response["id"] != id {
		t.Errorf("the last event is %+v", end)
	}
	if n := v.calls(); n != 1 {
		t.Errorf("the provider got %d requests", n)
	}
	next := ask(t, g, 200, fmt.Sprintf(claude, "two", `,"previous_response_id":"`+id+`"`))
	if !strings.Contains(v.last(), "turn 1 done") {
		t.Errorf("the next turn %v was sent as %s", next, v.last())
	}
}

func TestCancelledBackgroundStopsTheProvider(t *testing.T) {
	v := newVendor()
	v.hold = make(chan struct{})
	g := start(t, v, gatewaytest.Options{}, "")
	id := ask(t, g, 200, fmt.Sprintf(claude, "one", `,"background":true`))["id"].(string)
	waittest.Until(t, "the provider is asked", func() bool { return v.calls() == 1 })
	stream := open(t, t.Context(), g, "GET", "/responses/"+id+"?stream=true", "")
	for range 2 { // it may be repeated
		if res := post(t, g, 200, "/responses/"+id+"/cancel", ""); res["status"] != "cancelled" {
			t.Errorf("cancelled: %v", res)
		}
	}
	waittest.Receive(t, v.gone, "the provider to lose its client")
	list := events(t, stream.Body, 1000)
	if end := list[len(list)-1]; end.Type != "response.cancelled" {
		t.Errorf("the stream ends with %+v", end)
	}
	if res := get(t, g, 200, "GET", "/responses/"+id); res["status"] != "cancelled" {
		t.Errorf("read %v", res)
	}
	stored := ask(t, g, 200, fmt.Sprintf(claude, "two", `,"background":false,"stream":false`)) // hold is for streams only
	if res := post(t, g, 400, "/responses/"+stored["id"].(string)+"/cancel", ""); code(res) != "not_background" {
		t.Errorf("%v", res)
	}
}

func TestFailedBackgroundSaysWhy(t *testing.T) {
	v := newVendor()
	g := start(t, v, gatewaytest.Options{}, "")
	hook := g.Post("/webhook_endpoints", `{"name":"n","url":"https://hooks.example.com/x","event_types":["response.failed"]}`).JSON(t)
	c := post(t, g, 200, "/conversations", "")["id"].(string)
	id := ask(t, g, 200, fmt.Sprintf(claude, "please fail", `,"background":true,"conversation":"`+c+`"`))["id"].(string)
	res := awaitStatus(t, g, id, "failed")
	if e, _ := res["error"].(map[string]any); e["code"] != "server_error" || !strings.Contains(fmt.Sprint(e["message"]), "that fails") {
		t.Errorf("the error is %v", res["error"])
	}
	if res := g.Get("/webhook_endpoints/" + fmt.Sprint(hook["id"]) + "/deliveries"); !strings.Contains(string(res.Body), id) {
		t.Errorf("the endpoint of %v gets %s", hook, res.Body)
	}
	if list := ids(t, get(t, g, 200, "GET", "/conversations/"+c+"/items")); len(list) != 0 {
		t.Errorf("the failed response has added %v", list)
	}
	ask(t, g, 400, fmt.Sprintf(claude, "x", `,"background":true,"store":false`))
}

// A node that stops returns the response to the queue, and another one makes it again.
func TestBackgroundSurvivesItsNode(t *testing.T) {
	v := newVendor()
	v.hold = make(chan struct{})
	dsn := "file:" + filepath.Join(t.TempDir(), "modelgate.db")
	a := start(t, v, gatewaytest.Options{Database: dsn}, "drain: {max: 1s}\n")
	id := ask(t, a, 200, fmt.Sprintf(claude, "one", `,"background":true`))["id"].(string)
	waittest.Until(t, "the provider is asked", func() bool { return v.calls() == 1 })
	awaitStatus(t, a, id, "in_progress")
	a.Now()
	a.Stop()
	b := start(t, v, gatewaytest.Options{Database: dsn}, "")
	close(v.hold)
	res := awaitStatus(t, b, id, "completed")
	if res["restarts"] != 1.0 || v.calls() != 2 {
		t.Errorf("after %d requests the response is %v", v.calls(), res)
	}
	list := events(t, open(t, t.Context(), b, "GET", "/responses/"+id+"?stream=true", "").Body, 1000)
	for i, e := range list {
		if e.Sequence != int64(i) {
			t.Errorf("event %d has the number %d", i, e.Sequence)
		}
	}
}

// The events are in the database, so that any node has them.
func TestBackgroundIsJoinedOnAnotherNode(t *testing.T) {
	storetest.Addresses(t, joinOnAnotherNode)
}

func joinOnAnotherNode(t *testing.T, dsn string) {
	v := newVendor()
	v.hold = make(chan struct{})
	a := start(t, v, gatewaytest.Options{Database: dsn}, "")
	b := start(t, v, gatewaytest.Options{Database: dsn}, "")
	first := events(t, open(t, t.Context(), a, "POST", "/responses", fmt.Sprintf(claude, "one", `,"background":true,"stream":true`)).Body, 3)
	id := first[0].Response["id"].(string)
	joined := open(t, t.Context(), b, "GET", fmt.Sprintf("/responses/%s?stream=true&starting_after=%d", id, first[len(first)-1].Sequence), "")
	close(v.hold)
	all := slices.Concat(first, events(t, joined.Body, 1000))
	for i, e := range all {
		if e.Sequence != int64(i) {
			t.Errorf("event %d has the number %d", i, e.Sequence)
		}
	}
	if end := all[len(all)-1]; end.Type != "response.completed" {
		t.Errorf("the last event is %+v", end)
	}
}
