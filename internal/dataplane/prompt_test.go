package dataplane_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// textless is how many frames a protocol's stream begins with before its first
// text.
var textless = map[string]int{"chat": 1, "messages": 2, "gemini": 0, "converse": 1, "cohere": 2, "responses": 4}

// spoken finds the text in a stream as the clients of a protocol get it.
var spoken = map[string]*regexp.Regexp{
	"chat":      regexp.MustCompile(`"content":"([^"]+)"`),
	"messages":  regexp.MustCompile(`"text":"([^"]+)"`),
	"responses": regexp.MustCompile(`"delta":"([^"]+)"`),
	"gemini":    regexp.MustCompile(`"text":"([^"]+)"`),
	"converse":  regexp.MustCompile(`"text":"([^"]+)"`),
	"invoke":    regexp.MustCompile(`"bytes":"eyJ0eXBlIjoiY29udGVudF9ibG9ja19kZWx0`), // {"type":"content_block_delt
}

// TestTextWaitsForNoLaterEvent stops the provider before a frame, and wants
// every text that it sent until then.
func TestTextWaitsForNoLaterEvent(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings})
	for _, client := range clientFormats {
		for _, target := range pairTargets {
			t.Run(client.name+" to "+target, func(t *testing.T) {
				wire := target
				if !translates(client.name, target) {
					wire = client.name
				}
				for texts := 1; texts <= 3; texts++ {
					model := fmt.Sprintf("sim-1+tokens=9+stall=1h@%d", textless[wire]+texts+1)
					if got := heardUntil(t, g, client, target, model, texts); got != texts {
						t.Errorf("%d texts came, want the %d that were sent", got, texts)
					}
				}
			})
		}
	}
}

// heardUntil reads a stream until it has so many texts, and returns how many
// came.
func heardUntil(t *testing.T, g *gatewaytest.Gateway, client clientFormat, target, model string, texts int) (n int) {
	ctx, cancel := context.WithTimeout(t.Context(), stallTimer)
	defer cancel()
	req := client.ask(t, g, "x-gateway-provider", "@"+target, model, true)
	res, err := http.DefaultTransport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var body []byte
	for buf := make([]byte, 4<<10); n < texts; {
		k, err := res.Body.Read(buf)
		body = append(body, buf[:k]...)
		n = len(spoken[client.name].FindAll(body, -1))
		if err != nil {
			if err != io.EOF && ctx.Err() == nil {
				t.Errorf("after %d texts: %v", n, err)
			}
			return n
		}
	}
	return n
}
