package server

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// linesPerMinute is how many lines with the same message the process log takes in
// a minute. What outsiders send must not fill a disk that keeps it.
const linesPerMinute = 100

// maxMessages is the number of messages that are counted apart. The code has
// fewer; what net/http writes counts as one.
const maxMessages = 512

// lineLimit is a slog.Handler that writes a bounded number of lines a minute for
// each message. The first line after a pause says how many were left out. It is
// safe for concurrent use.
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

// as returns a handler for lines whose messages are made of what clients send.
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

// take counts a line. It returns how many were left out since the last one that
// was written, and whether this one is.
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
