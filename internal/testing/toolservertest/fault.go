package toolservertest

import (
	"net/http"
	"strings"
)

// Hang answers nothing until the client leaves.
func Hang(x *Exchange) { x.Left() }

// Break breaks the connection before the headers of the response.
func Break(x *Exchange) { x.Break() }

// BreakStream breaks the connection after a part of the stream.
func BreakStream(x *Exchange) {
	x.Progress(1)
	x.Write("event: message\ndata: {\"jsonrpc\":")
	x.Break()
}

// EndStream ends the stream without a response.
func EndStream(x *Exchange) { x.Progress(1); x.stream(); x.answered = true }

// WrongID answers with the id of another request.
func WrongID(x *Exchange) {
	x.Answer(`{"jsonrpc":"2.0","id":"another","result":{"content":[]}}`)
}

// Garbage answers with text that is not JSON.
func Garbage(x *Exchange) { x.write(http.StatusOK, "<html>") }

// Huge answers with a text of n bytes.
func Huge(n int) Handler {
	return func(x *Exchange) { x.Text("%s", strings.Repeat("x", n)) }
}

// Status answers with a status, and with headers that alternate with their values.
func Status(status int, header ...string) Handler {
	return func(x *Exchange) {
		for i := 0; i+1 < len(header); i += 2 {
			x.W.Header().Add(header[i], header[i+1])
		}
		x.answered = true
		x.W.WriteHeader(status)
	}
}

// Times does one thing n times, and then what the server does usually.
func Times(n int, h Handler) Handler {
	return func(x *Exchange) {
		x.server.mu.Lock()
		left := n
		if n > 0 {
			n--
		}
		x.server.mu.Unlock()
		if left > 0 {
			h(x)
			return
		}
		x.Default()
	}
}
