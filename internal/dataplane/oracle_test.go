package dataplane_test

import (
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// Clients of every protocol reach the models of Cohere at Oracle.
func TestModelsOfCohereAtOracleAnswerEveryProtocol(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: u, Settings: pairSettings + `
  - {slug: oracle, provider: oracle, custom_host: SIMULATOR, options: {compartment_id: "ocid1.compartment.oc1..x"}}
`})
	const last = `{"apiFormat":"COHERE","text":"echo: hello","finishReason":"COMPLETE","usage":{"promptTokens":3,"completionTokens":4}}`
	for _, client := range clientFormats {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s stream %t", client.name, stream), func(t *testing.T) {
				heads := begin(t, client.ask(t, g, "x-gateway-provider", "@oracle", "cohere.command-a-03-2025", stream))
				c := u.next()
				var body any
				if err := json.Unmarshal(c.Body, &body); err != nil || at(body, "chatRequest.apiFormat") != "COHERE" || at(body, "chatRequest.message") != "hello" ||
					at(body, "servingMode.modelId") != "cohere.command-a-03-2025" || at(body, "compartmentId") != "ocid1.compartment.oc1..x" {
					t.Errorf("sent %s", c.Body)
				}
				end := "complete"
				if stream {
					end = "done"
					c.events()
					c.send("data: {\"apiFormat\":\"COHERE\",\"text\":\"echo:\"}\n\ndata: {\"apiFormat\":\"COHERE\",\"text\":\" hello\"}\n\ndata: " + last + "\n\n")
				} else {
					c.send(`{"modelId":"cohere.command-a-03-2025","chatResponse":` + last + `}`)
				}
				c.finish()
				res := receive(t, heads, "the head")
				got, err := io.ReadAll(res.Body)
				h := client.readResponse(t, gatewaytest.Response{Status: res.StatusCode, Header: res.Header, Body: got})
				if err != nil || h.end != end || h.text != "echo: hello" {
					t.Errorf("read %+v, %v: %s", h, err, got)
				}
				if e := g.Entry(gatewaytest.Response{Header: res.Header}); at(e, "usage.prompt_tokens") != 3.0 || at(e, "usage.completion_tokens") != 4.0 {
					t.Errorf("recorded %v", e["usage"])
				}
			})
		}
	}
}
