package server

import (
	"context"
	"log/slog"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/settings"
)

// keylessPerDay returns how many bytes per day requests without a valid key may take,
// in the request log and in the audit log each.
func keylessPerDay(set *settings.Settings) int64 { return set.Logs.KeylessPerDay.Or(4 << 20) }

// keylessRecorder records model requests without a valid key: it counts all and logs
// those that fit the allowance.
type keylessRecorder struct {
	metrics   *metrics
	allowance *reqlog.Allowance
	next      reqlog.Recorder
}

func (s *Server) keylessRecorder(set *settings.Settings) reqlog.Recorder {
	r := s.recorder()
	if counting, ok := r.(recorder); ok {
		counting.metrics = nil // counted before the allowance
		r = counting
	}
	return keylessRecorder{s.metrics, reqlog.NewAllowance(keylessPerDay(set)), r}
}

// Record implements reqlog.Recorder.
func (k keylessRecorder) Record(ctx context.Context, e *reqlog.Entry) {
	k.metrics.count(e)
	k.metrics.keyless.WithLabelValues(e.ErrorCode).Inc()
	if k.allowance.Take(reqlog.KeylessCost, time.Now()) {
		k.next.Record(ctx, e)
	}
}

// countKeyless counts a control-plane request without a valid key.
func (s *Server) countKeyless(err error) {
	s.metrics.keyless.WithLabelValues(apierr.From(err).CodeOrDefault()).Inc()
}

// httpLines returns the logger of net/http for connections. Its messages contain what
// clients send.
func (s *Server) httpLines() slog.Handler {
	if l, ok := s.Logger.Handler().(*lineLimit); ok {
		return l.as("net/http")
	}
	return s.Logger.Handler()
}
