package dataplane_test

import (
	"encoding/base64"
	"strings"
	"testing"
)

// describedDocuments are a conversation with the source of a search result, in a
// message and in the result of a call, and with the description of a document.
var describedDocuments = map[string]string{
	"messages": `{"model":%q,"stream":%t,"max_tokens":100,"messages":[{"role":"user","content":[
		{"type":"search_result","source":"https://one.example","title":"first","content":[{"type":"text","text":"words one"}]},
		{"type":"document","source":{"type":"text","media_type":"text/plain","data":"words two"},"title":"second","context":"described two"},{"type":"text","text":"hello"}]},
		{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"f","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"search_result","source":"https://three.example","title":"third","content":[{"type":"text","text":"words three"}]}]}]}],
		"tools":[{"name":"f","input_schema":{"type":"object"}}]}`,
	"converse": `{"messages":[{"role":"user","content":[{"text":"hello"},
		{"document":{"format":"txt","name":"second","context":"described two","source":{"text":"words two"}}}]}]}`,
}

// A model cites documents by their source.
func TestDescriptionsOfDocumentsReachEveryTarget(t *testing.T) {
	t.Parallel()
	send := newRequestRecorder(t)
	for _, client := range []clientFormat{clientFormats[1], clientFormats[4]} {
		for _, target := range dialectTargets {
			if target == client.name {
				continue
			}
			t.Run(client.name+" to "+target, func(t *testing.T) {
				wants := []string{"described two", "words two"}
				if client.name == "messages" {
					wants = append(wants, "https://one.example", "words one", "https://three.example", "words three")
				}
				res, sent, _ := send(client, describedDocuments[client.name], target, "m")
				for _, want := range wants {
					if !strings.Contains(sent, want) && !strings.Contains(sent, base64.StdEncoding.EncodeToString([]byte(want))) {
						t.Errorf("status %d, %s was not sent: %s\n%s", res.Status, want, sent, res.Body)
					}
				}
			})
		}
	}
}
