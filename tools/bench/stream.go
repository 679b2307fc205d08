package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// frames notes when each event of a stream came.
type frames struct {
	at   []time.Time
	line []byte // the line so far
	data bool   // the event so far holds data
	last []byte // the latest data
}

var dataPrefix = []byte("data:")

// add takes bytes that came at a time. Lines end in "\n", as both the simulator
// and what is in front of it write them.
func (f *frames) add(b []byte, at time.Time) {
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			f.line = append(f.line, b...)
			return
		}
		f.line = append(f.line, b[:i]...)
		b = b[i+1:]
		f.endLine(at)
	}
}

func (f *frames) endLine(at time.Time) {
	switch {
	case len(f.line) == 0 && f.data:
		f.at = append(f.at, at)
		f.data = false
	case bytes.HasPrefix(f.line, dataPrefix):
		f.data = true
		f.last = append(f.last[:0], bytes.TrimSpace(f.line[len(dataPrefix):])...)
	}
	f.line = f.line[:0]
}

// isComplete reports whether the stream came to its proper end.
func (f *frames) isComplete() bool { return string(f.last) == "[DONE]" }

// streamed is what one load of streams measured.
type streamed struct {
	first, late samples // until the first event; what a gap is longer than the pace
	frames      int
	lost        int
	cpuMicros   float64 // of one frame
}

// measureStreams measures every target with paced streams.
func (r *run) measureStreams(ctx context.Context) error {
	for _, count := range r.Scale.Streams {
		for _, t := range r.targets {
			s, err := r.streamLoad(ctx, t, count)
			if err != nil {
				return err
			}
			r.report.addStreams(t.name, count, s)
			r.progressf("  %d streams, %s: first p50 %s, gaps late by p99 %s, lost %d", count, t.name,
				s.first.quantile(0.5), s.late.quantile(0.99), s.lost)
		}
	}
	return nil
}

// framesAround is the number of events of a stream in addition to those with its text:
// the role, the finish reason, [DONE].
const framesAround = 3

// streamStagger is the time between the openings of two streams, so that they do not
// tick together.
const streamStagger = time.Millisecond

// streamLoad opens count streams and reads them to their ends.
func (r *run) streamLoad(ctx context.Context, t *target, count int) (s streamed, err error) {
	model := "sim-1+tokens=" + strconv.Itoa(r.Scale.Frames-framesAround) + "+pace=" + r.Scale.Pace.String()
	request := chatRequest(model, requestBytes, `"stream": true, `)
	before, err := t.child.ask("usage")
	if err != nil {
		return s, err
	}
	var (
		mu      sync.Mutex
		running sync.WaitGroup
	)
	for i := range count {
		running.Go(func() {
			if pause(ctx, time.Duration(i)*streamStagger) != nil {
				return
			}
			f, began, err := r.stream(ctx, t, request)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				r.report.faults(t.name).add(err)
			}
			s.take(f, began, &r.Scale)
		})
	}
	running.Wait()
	after, err := t.child.ask("usage")
	if err != nil {
		return s, err
	}
	s.cpuMicros = float64(after.CPUMicros-before.CPUMicros) / float64(max(s.frames, 1))
	return s, ctx.Err()
}

// take adds the frames of one stream.
func (s *streamed) take(f *frames, began time.Time, scale *Scale) {
	s.frames += len(f.at)
	s.lost += max(scale.Frames-len(f.at), 0)
	for i, at := range f.at {
		if i == 0 {
			s.first = append(s.first, at.Sub(began))
			continue
		}
		if i < scale.Frames-1 { // [DONE] comes without a pause
			s.late = append(s.late, max(at.Sub(f.at[i-1])-scale.Pace, 0))
		}
	}
}

// stream reads one stream to its end.
func (r *run) stream(ctx context.Context, t *target, request []byte) (*frames, time.Time, error) {
	f := &frames{at: make([]time.Time, 0, r.Scale.Frames)}
	c, err := dial(ctx, t.addr)
	if err != nil {
		return f, time.Now(), err
	}
	defer c.Close()
	began := time.Now()
	if err := c.send(request); err != nil {
		return f, began, err
	}
	if err := c.response.begin(); err != nil {
		return f, began, err
	}
	for {
		n, err := c.response.Read(c.body[:cap(c.body)])
		f.add(c.body[:n], time.Now())
		if err == io.EOF {
			break
		}
		if err != nil {
			return f, began, fmt.Errorf("after %d events: %w", len(f.at), err)
		}
	}
	if len(f.at) != r.Scale.Frames || !f.isComplete() || c.response.status != 200 {
		return f, began, fmt.Errorf("status %d and %d events of %d, the last %.80q", c.response.status, len(f.at), r.Scale.Frames, f.last)
	}
	return f, began, nil
}
