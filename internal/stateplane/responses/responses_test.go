package responses_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/storetest"
)

const claude = `{"model":"@claude/claude-sonnet-4-5","input":%q%s}`

func TestGatewayKeepsResponsesOfProvidersThatStoreNone(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		v := newVendor()
		o := gatewaytest.Options{}
		if !strings.HasPrefix(dsn, "file:") {
			o.Database = dsn
		}
		g := start(t, v, o, "")
		first := ask(t, g, 200, fmt.Sprintf(claude, "one", ``))
		id, _ := first["id"].(string)
		if first["store"] != true || !strings.HasPrefix(id, "resp_") {
			t.Fatalf("the response is not stored: %v", first)
		}
		if got := get(t, g, 200, "GET", "/responses/"+id); got["id"] != id || fmt.Sprint(got["output"]) != fmt.Sprint(first["output"]) {
			t.Errorf("read %v, want %v", got, first)
		}
		second := ask(t, g, 200, fmt.Sprintf(claude, "two", `,"previous_response_id":"`+id+`","instructions":"be brief"`))
		if sent := v.last(); !strings.Contains(sent, `"one"`) || !strings.Contains(sent, `turn 1`) || !strings.Contains(sent, `"two"`) {
			t.Errorf("the provider got %s, want both turns", sent)
		}
		if second["previous_response_id"] != id || second["id"] == id {
			t.Errorf("the second response has id %v after %v", second["id"], second["previous_response_id"])
		}
		third := ask(t, g, 200, fmt.Sprintf(claude, "three", `,"store":true,"previous_response_id":"`+second["id"].(string)+`"`))
		if sent := v.last(); strings.Contains(sent, "be brief") || third["instructions"] != nil {
			t.Errorf("instructions were carried over: %s", sent)
		}
		items := get(t, g, 200, "GET", "/responses/"+third["id"].(string)+"/input_items?order=asc")
		if n := len(items["data"].([]any)); n != 5 {
			t.Errorf("%d items, want those of two turns before and its own: %v", n, items)
		}
		page := get(t, g, 200, "GET", "/responses/"+third["id"].(string)+"/input_items?order=asc&limit=2&after="+ids(t, items)[1])
		if !slices.Equal(ids(t, page), ids(t, items)[2:4]) || page["has_more"] != true {
			t.Errorf("the second page is %v", page)
		}
		calls := v.calls()
		get(t, g, 200, "DELETE", "/responses/"+second["id"].(string))
		get(t, g, 404, "GET", "/responses/"+second["id"].(string))
		broken := ask(t, g, 400, fmt.Sprintf(claude, "four", `,"previous_response_id":"`+third["id"].(string)+`"`))
		if code(broken) != "previous_response_not_found" || v.calls() != calls {
			t.Errorf("a chain without its middle: %v", broken)
		}
		unstored := ask(t, g, 200, fmt.Sprintf(claude, "five", `,"store":false`))
		if unstored["store"] != false {
			t.Errorf("store false was stored: %v", unstored)
		}
		get(t, g, 404, "GET", "/responses/"+unstored["id"].(string))
	})
}

func TestStreamedResponseIsReadableAtItsEnd(t *testing.T) {
	v := newVendor()
	g := start(t, v, gatewaytest.Options{}, "")
	res := g.Do(g.Request("POST", "/responses", fmt.Sprintf(claude, "one", `,"stream":true`), "x-gateway-provider", ""))
	var id string
	for line := range strings.SplitSeq(string(res.Body), "\n") {
		if _, rest, ok := strings.Cut(line, `"response":{"id":"`); ok {
			now, _, _ := strings.Cut(rest, `"`)
			if id != "" && now != id {
				t.Errorf("the id changes from %s to %s", id, now)
			}
			id = now
		}
	}
	if !strings.Contains(string(res.Body), "response.completed") {
		t.Fatalf("the stream is %s", res.Body)
	}
	if got := get(t, g, 200, "GET", "/responses/"+id); got["status"] != "completed" || !strings.Contains(fmt.Sprint(got["output"]), "turn 1 done") {
		t.Errorf("read %v", got)
	}
	if res := get(t, g, 400, "GET", "/responses/"+id+"?stream=true"); code(res) == "" {
		t.Errorf("%v", res)
	}
}

func TestResponsesOfProvidersHaveRecords(t *testing.T) {
	v := newVendor()
	g := start(t, v, gatewaytest.Options{}, "")
	for _, stream := range []string{"", `,"stream":true`} {
		res := g.Do(g.Request("POST", "/responses", `{"model":"@openai/gpt-5","input":"hi"`+stream+`}`, "x-gateway-provider", ""))
		_, rest, _ := strings.Cut(string(res.Body), `"id":"resp_`)
		id, _, _ := strings.Cut("resp_"+rest, `"`)
		if stream == "" {
			id = res.JSON(t)["id"].(string)
		}
		if got := get(t, g, 200, "GET", "/responses/"+id); got["id"] != id {
			t.Errorf("read %v of %s", got, id)
		}
		get(t, g, 200, "GET", "/responses/"+id+"/input_items")
		next := ask(t, g, 200, `{"model":"gpt-5","input":"more","previous_response_id":"`+id+`"}`)
		if sent := v.last(); !strings.Contains(sent, id) || next["id"] == id {
			t.Errorf("the next turn was sent as %s", sent)
		}
		calls := v.calls()
		elsewhere := ask(t, g, 400, fmt.Sprintf(claude, "more", `,"previous_response_id":"`+id+`"`))
		if text := fmt.Sprint(elsewhere); code(elsewhere) != "previous_response_elsewhere" || !strings.Contains(text, "@openai") || !strings.Contains(text, "@claude") || v.calls() != calls {
			t.Errorf("sent elsewhere: %v", elsewhere)
		}
		get(t, g, 200, "DELETE", "/responses/"+id)
		get(t, g, 404, "GET", "/responses/"+id)
	}
	calls := v.calls()
	unstored := ask(t, g, 200, `{"model":"@openai/gpt-5","input":"hi","store":false}`)
	get(t, g, 404, "GET", "/responses/"+unstored["id"].(string))
	for _, provider := range []string{"@openai", "@claude"} { // an account that other workspaces share
		if got := get(t, g, 404, "GET", "/responses/resp_unknown", "x-gateway-provider", provider); got["error"] == nil {
			t.Errorf("%v", got)
		}
	}
	if n := v.calls(); n != calls+1 {
		t.Errorf("%d requests reached the provider, want 1", n-calls)
	}
}

func TestConversationsGrowInOrder(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		v := newVendor()
		o := gatewaytest.Options{}
		if !strings.HasPrefix(dsn, "file:") {
			o.Database = dsn
		}
		g := start(t, v, o, "")
		c := post(t, g, 200, "/conversations", `{"metadata":{"a":"b"},"items":[{"role":"user","content":"zero"}]}`)
		id := c["id"].(string)
		with := `,"conversation":"` + id + `"`
		res := ask(t, g, 200, fmt.Sprintf(claude, "one", with))
		if sent := v.last(); !strings.Contains(sent, "zero") || !strings.Contains(sent, "one") {
			t.Errorf("the provider got %s", sent)
		}
		if in, _ := res["conversation"].(map[string]any); in["id"] != id {
			t.Errorf("the response has the conversation %v", res["conversation"])
		}
		ask(t, g, 400, fmt.Sprintf(claude, "please fail", with))
		before := ids(t, get(t, g, 200, "GET", "/conversations/"+id+"/items?order=asc&limit=100"))
		if len(before) != 3 {
			t.Fatalf("the items are %v, want the first, a question and its response", before)
		}
		var all sync.WaitGroup
		for n := range 6 {
			all.Go(func() { ask(t, g, 200, fmt.Sprintf(claude, fmt.Sprint("at once ", n), with)) })
		}
		all.Wait()
		list := get(t, g, 200, "GET", "/conversations/"+id+"/items?order=asc&limit=100")["data"].([]any)
		if len(list) != 15 {
			t.Fatalf("%d items, want 15", len(list))
		}
		for i := 3; i < 15; i += 2 {
			if a, b := list[i].(map[string]any), list[i+1].(map[string]any); a["role"] != "user" || b["role"] != "assistant" {
				t.Errorf("turn at %d has the roles %v and %v", i, a["role"], b["role"])
			}
		}
		one := before[1]
		get(t, g, 200, "GET", "/conversations/"+id+"/items/"+one)
		get(t, g, 200, "DELETE", "/conversations/"+id+"/items/"+one)
		get(t, g, 404, "GET", "/conversations/"+id+"/items/"+one)
		if changed := post(t, g, 200, "/conversations/"+id, `{"metadata":{"c":"d"}}`); fmt.Sprint(changed["metadata"]) != "map[c:d]" {
			t.Errorf("changed to %v", changed)
		}
		both := ask(t, g, 400, fmt.Sprintf(claude, "x", with+`,"previous_response_id":"`+res["id"].(string)+`"`))
		if code(both) != "mutually_exclusive_parameters" {
			t.Errorf("both: %v", both)
		}
		get(t, g, 200, "DELETE", "/conversations/"+id)
		get(t, g, 404, "GET", "/conversations/"+id)
		ask(t, g, 404, fmt.Sprintf(claude, "x", with))
	})
}

func TestConversationsRefuseWhatIsBeyondTheirLimits(t *testing.T) {
	g := start(t, newVendor(), gatewaytest.Options{}, "")
	items := func(n int) string {
		return `{"items":[` + strings.TrimSuffix(strings.Repeat(`{"role":"user","content":"x"},`, n), ",") + `]}`
	}
	pairs := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`"k%d":"v"`, i))
		}
		return `{"metadata":{` + strings.Join(list, ",") + `}}`
	}
	for _, tt := range []struct {
		name, body string
		status     int
	}{
		{"twenty items", items(20), 200}, {"more items", items(21), 400}, {"sixteen pairs", pairs(16), 200}, {"more pairs", pairs(17), 400},
		{"a long key", `{"metadata":{"` + strings.Repeat("k", 64) + `":"` + strings.Repeat("v", 512) + `"}}`, 200},
		{"a longer key", `{"metadata":{"` + strings.Repeat("k", 65) + `":"v"}}`, 400},
		{"a longer value", `{"metadata":{"k":"` + strings.Repeat("v", 513) + `"}}`, 400},
		{"another member", `{"name":"x"}`, 400}, {"no items", `{"items":"x"}`, 400}, {"nothing", ``, 200},
	} {
		t.Run(tt.name, func(t *testing.T) { post(t, g, tt.status, "/conversations", tt.body) })
	}
}

func TestTextsOfMessagesAreReadAsLists(t *testing.T) {
	g := start(t, newVendor(), gatewaytest.Options{}, "")
	c := post(t, g, 200, "/conversations", `{"items":[{"role":"user","content":"a \"question\""},{"role":"assistant","content":"an answer"},{"role":"user","content":[{"type":"input_text","text":"a list"}]}]}`)
	list := get(t, g, 200, "GET", "/conversations/"+c["id"].(string)+"/items?order=asc")
	var got []string
	for _, item := range list["data"].([]any) {
		text, err := json.Marshal(item.(map[string]any)["content"])
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(text))
	}
	want := []string{`[{"text":"a \"question\"","type":"input_text"}]`, `[{"annotations":[],"text":"an answer","type":"output_text"}]`, `[{"text":"a list","type":"input_text"}]`}
	if !slices.Equal(got, want) {
		t.Errorf("the contents are %q, want %q", got, want)
	}
}
