package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// conn is one connection of the load. It writes requests as bytes that are
// ready and reads only what has to be checked, since load and target share a
// machine.
type conn struct {
	net.Conn
	response response
	body     []byte
}

func dial(ctx context.Context, addr string) (*conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second}
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: nc, response: response{r: bufio.NewReaderSize(nc, 4<<10)}, body: make([]byte, 0, 4<<10)}, nil
}

// send writes a request. The response has to be complete within patience.
func (c *conn) send(request []byte) error {
	c.SetDeadline(time.Now().Add(patience))
	_, err := c.Write(request)
	return err
}

// roundTrip sends a request and returns the body of its response, valid until the
// next call. Any status but 200 is an error.
func (c *conn) roundTrip(request []byte) ([]byte, error) {
	if err := c.send(request); err != nil {
		return nil, err
	}
	return c.receive()
}

func (c *conn) receive() ([]byte, error) {
	if err := c.response.begin(); err != nil {
		return nil, err
	}
	c.body = c.body[:0]
	for {
		if len(c.body) == cap(c.body) {
			c.body = append(c.body, 0)[:len(c.body)]
		}
		n, err := c.response.Read(c.body[len(c.body):cap(c.body)])
		c.body = c.body[:len(c.body)+n]
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("after %d bytes of the response: %w", len(c.body), err)
		}
	}
	if c.response.status != 200 {
		return nil, fmt.Errorf("status %d: %.200s", c.response.status, c.body)
	}
	return c.body, nil
}

// response reads responses one after another: begin reads a head, Read the body
// behind it until io.EOF.
type response struct {
	r       *bufio.Reader
	status  int
	left    int64 // of the body, or of the chunk
	chunked bool
	started bool // a chunk was read before
}

var (
	errLength   = errors.New("a response without a length")
	errChunk    = errors.New("a malformed chunk")
	headLength  = []byte("content-length")
	headCoding  = []byte("transfer-encoding")
	codeChunked = []byte("chunked")
)

// begin reads status line and headers of the next response, after the body
// before it was read to its end.
func (a *response) begin() error {
	line, err := a.line()
	if err != nil {
		return err
	}
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return fmt.Errorf("not a status line: %.60q", line)
	}
	if a.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return fmt.Errorf("not a status line: %.60q", line)
	}
	a.left, a.chunked, a.started = -1, false, false
	for {
		line, err := a.line()
		if err != nil {
			return err
		}
		if len(line) == 0 {
			break
		}
		if err := a.header(line); err != nil {
			return err
		}
	}
	if a.left < 0 && !a.chunked {
		return errLength
	}
	return nil
}

func (a *response) header(line []byte) (err error) {
	before, after, ok := bytes.Cut(line, []byte{':'})
	if !ok {
		return fmt.Errorf("not a header: %.60q", line)
	}
	name, value := before, bytes.TrimSpace(after)
	switch {
	case len(name) == len(headLength) && bytes.EqualFold(name, headLength):
		a.left, err = strconv.ParseInt(string(value), 10, 64)
	case len(name) == len(headCoding) && bytes.EqualFold(name, headCoding):
		a.chunked = bytes.EqualFold(value, codeChunked)
		a.left = 0
	}
	return err
}

// line returns the next line without its end, valid until the next read.
func (a *response) line() ([]byte, error) {
	b, err := a.r.ReadSlice('\n')
	if err != nil {
		return nil, midBodyError(err)
	}
	return bytes.TrimRight(b, "\r\n"), nil
}

// Read reads of the body what is there.
func (a *response) Read(p []byte) (int, error) {
	if a.left == 0 && a.chunked {
		if err := a.chunk(); err != nil {
			return 0, err
		}
	}
	if a.left == 0 {
		return 0, io.EOF
	}
	n, err := a.r.Read(p[:min(int64(len(p)), a.left)])
	a.left -= int64(n)
	return n, midBodyError(err)
}

// chunk reads the line before the next chunk. After the last it reads the
// empty line that ends the body: trailers are not expected.
func (a *response) chunk() error {
	if a.started {
		if line, err := a.line(); err != nil || len(line) > 0 {
			return errors.Join(err, errChunk)
		}
	}
	a.started = true
	line, err := a.line()
	if err != nil {
		return err
	}
	if a.left, err = strconv.ParseInt(string(line), 16, 64); err != nil || a.left < 0 {
		return errChunk
	}
	if a.left > 0 {
		return nil
	}
	a.chunked = false
	if line, err = a.line(); err != nil || len(line) > 0 {
		return errors.Join(err, errChunk)
	}
	return nil
}

// midBodyError keeps an end of the connection from looking like one of the body.
func midBodyError(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
