package responses_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// TestItemsAreReferredToByTheirIDs continues with items of stored responses, without a chain.
func TestItemsAreReferredToByTheirIDs(t *testing.T) {
	v := newVendor()
	g := start(t, v, gatewaytest.Options{}, "")
	first := ask(t, g, 200, fmt.Sprintf(claude, "the first question", ``))
	item := first["output"].([]any)[0].(map[string]any)
	text := item["content"].([]any)[0].(map[string]any)["text"].(string)
	refer := func(status int, id, more string, h ...string) map[string]any {
		return ask(t, g, status, fmt.Sprintf(`{"model":"@claude/claude-sonnet-4-5","input":[{"type":"message","role":"user","content":"one"},{"type":"item_reference","id":%q},{"type":"message","role":"user","content":"two"}]%s}`, id, more), h...)
	}
	for _, more := range []string{``, `,"store":false`} {
		refer(200, item["id"].(string), more)
		if sent := v.last(); !strings.Contains(sent, text) || strings.Contains(sent, "item_reference") || strings.Contains(sent, "the first question") {
			t.Errorf("sent %s, want the item alone: %q", sent, text)
		}
	}
	inputs := get(t, g, 200, "GET", "/responses/"+first["id"].(string)+"/input_items")
	refer(200, ids(t, inputs)[0], ``)
	if sent := v.last(); !strings.Contains(sent, "the first question") {
		t.Errorf("sent %s, want the item of the input", sent)
	}
	second := ask(t, g, 200, fmt.Sprintf(claude, "another question", ``))
	item = second["output"].([]any)[0].(map[string]any)
	calls := v.calls()
	unknown := refer(400, "msg_unknown", ``)
	get(t, g, 200, "DELETE", "/responses/"+second["id"].(string))
	gone := refer(400, item["id"].(string), `,"store":false`)
	if code(unknown) != "item_not_found" || code(gone) != "item_not_found" || v.calls() != calls {
		t.Errorf("an unknown item: %v, one that was deleted: %v", unknown, gone)
	}
}

func TestMetadataOfResponsesIsLimited(t *testing.T) {
	g := start(t, newVendor(), gatewaytest.Options{}, "")
	var many []string
	for i := range 17 {
		many = append(many, fmt.Sprintf(`"k%d":"v"`, i))
	}
	for name, metadata := range map[string]string{
		"pairs": strings.Join(many, ","), "a key": `"` + strings.Repeat("k", 65) + `":"v"`, "a value": `"k":"` + strings.Repeat("v", 513) + `"`,
	} {
		for _, model := range []string{"@openai/gpt-5", "@claude/claude-sonnet-4-5"} {
			res := ask(t, g, 400, fmt.Sprintf(`{"model":%q,"input":"hi","store":false,"metadata":{%s}}`, model, metadata))
			if fault := res["error"].(map[string]any); fault["param"] != "metadata" {
				t.Errorf("%s at %s: %v", name, model, res)
			}
		}
	}
	ask(t, g, 200, fmt.Sprintf(`{"model":"@openai/gpt-5","input":"hi","metadata":{%s}}`, strings.Join(many[:16], ",")))
}
