package server

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// linesPerMinute is the limit of lines with the same message that the process log
// writes per minute, so that clients cannot fill its disk.
const linesPerMinute = 100

// maxMessages is the number of messages counted separately. The code has fewer;
// messages of net/http count as one.
const maxMessages = 512

// lineLimit is a slog.Handler that limits the lines per minute of each message. The
// first line after a pause has the number of dropped lines. It is safe for concurrent
// use.
type lineLimit struct {
	slog.Handler
	message string // counts for every line if it is not empty
	counts  *lineCounts
}

type lineCounts struct {
	mu    sync.Mutex
	lines map[string]*lineCount // by message; guarded by mu
}

type lineCount struct {
	minute  time.Time
	n, left int
}

func newLineLimit(h slog.Handler) *lineLimit {
	return &lineLimit{Handler: h, counts: &lineCounts{lines: make(map[string]*lineCount)}}
}

// as returns a handler that counts all lines as one message, for messages that contain
// what clients send.
func (l *lineLimit) as(message string) *lineLimit {
	return &lineLimit{l.Handler, message, l.counts}
}

// Handle implements slog.Handler.
func (l *lineLimit) Handle(ctx context.Context, r slog.Record) error {
	message := l.message
	if message == "" {
		message = r.Message
	}
	left, ok := l.counts.take(message, r.Time)
	if !ok {
		return nil
	}
	if left > 0 {
		r = r.Clone()
		r.Add("left_out", left)
	}
	return l.Handler.Handle(ctx, r)
}

// take counts a line. It returns the number of lines dropped since the last written
// one, and whether to write this one.
func (c *lineCounts) take(message string, now time.Time) (left int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	line := c.lines[message]
	if line == nil {
		if len(c.lines) >= maxMessages {
			message = ""
		}
		if line = c.lines[message]; line == nil {
			line = new(lineCount)
			c.lines[message] = line
		}
	}
	if minute := now.Truncate(time.Minute); !minute.Equal(line.minute) {
		line.minute, line.n = minute, 0
	}
	if line.n++; line.n > linesPerMinute {
		line.left++
		return 0, false
	}
	left, line.left = line.left, 0
	return left, true
}

// WithAttrs implements slog.Handler.
func (l *lineLimit) WithAttrs(a []slog.Attr) slog.Handler {
	return &lineLimit{l.Handler.WithAttrs(a), l.message, l.counts}
}

// WithGroup implements slog.Handler.
func (l *lineLimit) WithGroup(name string) slog.Handler {
	return &lineLimit{l.Handler.WithGroup(name), l.message, l.counts}
}
