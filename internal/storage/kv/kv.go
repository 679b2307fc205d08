// Package kv connects to Redis or Valkey.
//
// A [Conn] has one pipelined connection, which is made again when it breaks. It
// guarantees that a call ends when its context does, and that no error contains the
// address, which may hold a password. It does not know what is stored.
package kv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"modelgate/internal/base/secret"
)

const (
	connectTimeout = 2 * time.Second
	// responseTimeout is after how long without a response a connection is closed.
	responseTimeout = time.Second
	reconnectPause  = time.Second
)

// Options configure a connection.
type Options struct {
	URL     secret.String // redis://, rediss:// or unix://
	Setting string        // where URL is set, for messages, such as cache.url
	Logger  *slog.Logger
	// Effect is what happens while Redis is not connected yet, for the log.
	Effect string
	// Check is called on each new client. An error that satisfies Permanent is not
	// expected to pass; nil is none.
	Check     func(context.Context, rueidis.Client) error
	Permanent func(error) bool
}

// Conn is a connection. It is safe for concurrent use.
type Conn struct {
	Options
	option rueidis.ClientOption
	client atomic.Pointer[rueidis.Client] // nil until Redis was reached once
	stop   context.CancelFunc
	ended  sync.WaitGroup
}

// New returns a connection that is not connected yet.
func New(o Options) (*Conn, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	option, err := rueidis.ParseURL(o.URL.Reveal())
	if err != nil || len(option.InitAddress) == 0 {
		return nil, fmt.Errorf("%s must have the form redis://user:password@host:6379/0, or rediss:// with TLS", o.Setting)
	}
	option.DisableCache = true // client-side caching needs CLIENT TRACKING, which proxies lack
	option.DisableRetry = true // a call may have been executed
	option.AlwaysPipelining = true
	option.Dialer.Timeout = connectTimeout
	option.ConnWriteTimeout = responseTimeout
	option.ClientName = "modelgate"
	return &Conn{Options: o, option: option, stop: func() {}}, nil
}

// Connect connects. If Redis cannot be reached it is connected later; if it rejects
// the connection or Check fails permanently, Connect returns an error. The caller
// must call Close after success.
func (c *Conn) Connect(ctx context.Context) error {
	err := c.connect(ctx)
	if err != nil && !c.isUnavailable(err) {
		c.closeClient()
		return c.explain(err)
	}
	running, stop := context.WithCancel(context.Background())
	c.stop = stop
	if err != nil {
		c.Logger.Warn("Redis unavailable; "+c.Effect, "err", c.explain(err).Error())
		c.ended.Go(func() { c.reconnect(running) })
	}
	return nil
}

// Ping connects, asks for a sign of life and closes the connection. Its errors are those of
// [Conn.Connect], also if Redis cannot be reached.
func Ping(ctx context.Context, o Options) error {
	o.Check = func(ctx context.Context, client rueidis.Client) error {
		return client.Do(ctx, client.B().Ping().Build()).Error()
	}
	c, err := New(o)
	if err != nil {
		return err
	}
	defer c.closeClient()
	if err := c.connect(ctx); err != nil {
		return c.explain(err)
	}
	return nil
}

// isUnavailable reports an error that may pass without a change of the settings.
func (c *Conn) isUnavailable(err error) bool {
	if e, ok := rueidis.IsRedisErr(err); ok {
		text := e.Error()
		return strings.HasPrefix(text, "LOADING") || strings.HasPrefix(text, "MASTERDOWN") || strings.HasPrefix(text, "BUSY ")
	}
	return c.Permanent == nil || !c.Permanent(err)
}

func (c *Conn) connect(ctx context.Context) error {
	client, err := rueidis.NewClient(c.option)
	if err != nil {
		return err
	}
	c.client.Store(&client)
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return c.Check(ctx, client)
}

func (c *Conn) reconnect(ctx context.Context) {
	t := time.NewTicker(reconnectPause)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		c.closeClient()
		err := c.connect(ctx)
		if err == nil {
			c.Logger.Info("Redis available")
			return
		}
		if !c.isUnavailable(err) {
			c.Logger.Error("Redis rejects the connection; "+c.Effect, "err", c.explain(err).Error())
		}
	}
}

// Stop ends attempts to connect.
func (c *Conn) Stop() {
	c.stop()
	c.ended.Wait()
}

// Close ends the connection.
func (c *Conn) Close() {
	c.Stop()
	c.closeClient()
}

func (c *Conn) closeClient() {
	if old := c.client.Swap(nil); old != nil {
		(*old).Close()
	}
}

// errUnconnected is the error of calls before Redis was reached once.
var errUnconnected = &net.OpError{Op: "dial", Net: "redis", Err: errors.New("not connected yet")}

// Client returns the client, or an error if Redis was not reached yet.
func (c *Conn) Client() (rueidis.Client, error) {
	if p := c.client.Load(); p != nil {
		return *p, nil
	}
	return nil, errUnconnected
}
