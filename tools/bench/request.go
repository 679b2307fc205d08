package bench

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// responseTokens makes the simulator's response 1.5 KB long, and requestBytes is
// about how long a request's body is.
const (
	responseTokens = 190
	requestBytes   = 4 << 10
)

// sample is what every target is asked, and the right response.
type sample struct {
	request  []byte
	response []byte
	// says is what a right response says where its bytes are not always the same.
	says *expectedResponse
}

// learn asks the simulator itself what the right response is.
func learn(ctx context.Context, addr string) (s sample, err error) {
	s.request = chatRequest("sim-1", requestBytes, "")
	c, err := dial(ctx, addr)
	if err != nil {
		return s, err
	}
	defer c.Close()
	s.response, err = c.roundTrip(s.request)
	s.response = bytes.Clone(s.response)
	return s, err
}

// chatRequest returns the bytes of a request whose body is about size bytes.
// members is put into the body before its messages. The same bytes go to every
// target; only the gateway looks at the headers that are meant for it.
func chatRequest(model string, size int, members string) []byte {
	return chatDoor.request("simulator", model, size, members)
}

// clientAPI is how clients of one dialect ask.
type clientAPI struct {
	path         string
	before, ask  string // what is before the long text of a body, and behind it
	complete     string // what is before the text of a complete response
	delta, piece string // what the events with text hold, and what is before each text
	end          string // what the end of a stream holds
}

var chatDoor = clientAPI{
	path:     "/v1/chat/completions",
	before:   `"temperature": 0.7, "max_tokens": 1024, "messages": [{"role": "system", "content": "`,
	ask:      `"}, {"role": "user", "content": "What is it about?"}]}`,
	complete: `"content":"`, delta: `"delta":`, piece: `"content":"`, end: "data: [DONE]",
}

// request returns the bytes of a request for a managed provider.
func (d *clientAPI) request(slug, model string, size int, members string) []byte {
	head := `{"model": "` + model + `", ` + members + d.before
	body := head + prose(size-len(head)-len(d.ask)) + d.ask
	return []byte("POST " + d.path + " HTTP/1.1\r\n" +
		"Host: gateway.example\r\n" +
		"User-Agent: bench\r\n" +
		"Accept: */*\r\n" +
		"Content-Type: application/json\r\n" +
		"X-Gateway-Api-Key: " + gatewayKey + "\r\n" +
		"X-Gateway-Provider: @" + slug + "\r\n" +
		"Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

// prose returns n bytes of text with the escapes that text has.
func prose(n int) string {
	const sentence = `The house rests upon hills, and \"below\" it lies the river.\nNobody crosses it in winter; `
	n = max(n, 0)
	repeats := n / len(sentence)
	return strings.Repeat(sentence, repeats) + strings.Repeat("x", n%len(sentence))
}

// askAgain sends the sample on c, or on a fresh connection where c is nil. It
// returns the connection for the next time, nil when this one can't be used again.
func (s *sample) askAgain(ctx context.Context, c *conn, addr string) (*conn, error) {
	if c == nil {
		var err error
		if c, err = dial(ctx, addr); err != nil {
			return nil, err
		}
	}
	if err := s.askOn(c); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// askOn sends the sample once and checks the response: byte for byte, except for one
// that is translated.
func (s *sample) askOn(c *conn) error {
	got, err := c.roundTrip(s.request)
	if err != nil {
		return err
	}
	if s.says != nil {
		return s.says.check(got)
	}
	if !bytes.Equal(got, s.response) {
		return fmt.Errorf("a wrong response: %d bytes instead of %d, or others: %.120q", len(got), len(s.response), got)
	}
	return nil
}

// patience is how long a response may take before it counts as an error.
const patience = 60 * time.Second
