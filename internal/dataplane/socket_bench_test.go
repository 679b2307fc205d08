package dataplane_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// BenchmarkTurn compares the processor time of a turn of 300 events over a connection with that
// of the same stream over HTTP, client and provider included in both.
func BenchmarkTurn(b *testing.B) {
	b.Setenv("PAIR_KEY", gatewaytest.SimulatorKey)
	g := gatewaytest.New(b, gatewaytest.Options{Settings: pairSettings})
	const body = `"model":"sim-1+tokens=300+size=4","input":"hello"`
	header := g.Request(http.MethodGet, "/responses", "", toChat, "@chat").Header
	b.Run("http", func(b *testing.B) {
		from := waittest.CPUTime(b)
		for b.Loop() {
			res, err := http.DefaultTransport.RoundTrip(g.Request(http.MethodPost, "/responses", `{`+body+`,"stream":true}`, toChat, "@chat"))
			if err != nil {
				b.Fatal(err)
			}
			for lines := bufio.NewScanner(res.Body); lines.Scan(); {
				if strings.HasPrefix(lines.Text(), "event: response.completed") {
					break
				}
			}
			res.Body.Close()
		}
		b.ReportMetric(float64((waittest.CPUTime(b)-from).Microseconds())/float64(b.N), "cpu-us/op")
	})
	b.Run("websocket", func(b *testing.B) {
		c, _, err := websocket.Dial(context.Background(), g.URL+"/responses", &websocket.DialOptions{HTTPHeader: header})
		if err != nil {
			b.Fatal(err)
		}
		defer c.CloseNow()
		c.SetReadLimit(1 << 20)
		from := waittest.CPUTime(b)
		for b.Loop() {
			if err := c.Write(context.Background(), websocket.MessageText, []byte(`{"type":"response.create",`+body+`}`)); err != nil {
				b.Fatal(err)
			}
			for {
				_, data, err := c.Read(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				if strings.HasPrefix(string(data[:min(len(data), 40)]), `{"type":"response.completed"`) {
					break
				}
			}
		}
		b.ReportMetric(float64((waittest.CPUTime(b)-from).Microseconds())/float64(b.N), "cpu-us/op")
	})
}
