package server

import (
	"net"
	"net/http"
	"net/netip"
	"time"

	"modelgate/internal/limits/inbound"
	"modelgate/internal/settings"
)

// inboundLimits are the limits of client connections and request bodies, from the
// settings at the start.
type inboundLimits struct {
	connections    inbound.ListenerOptions
	body           inbound.BodyLimits
	model, control inbound.Total
	headerTime     time.Duration
	idle           time.Duration
	headerBytes    int
	headerCount    int
}

func newInboundLimits(set *settings.Settings) inboundLimits {
	l, t := set.Limits, set.Timeouts
	return inboundLimits{
		connections: inbound.ListenerOptions{Keyless: orInt(l.Keyless, 256), Stall: t.Client.Or(5 * time.Minute)},
		body: inbound.BodyLimits{
			Grace: t.BodyGrace.Or(30 * time.Second), Rate: l.BodyRate.Or(512),
			Held: inbound.Total{Time: t.HeldBody.Or(10 * time.Minute), Setting: "timeouts.held_body"},
		},
		model:       inbound.Total{Time: t.RequestBody.Or(6 * time.Hour), Setting: "timeouts.request_body"},
		control:     inbound.Total{Time: t.ControlBody.Or(2 * time.Minute), Setting: "timeouts.control_body"},
		headerTime:  t.RequestHeader.Or(10 * time.Second),
		idle:        t.ConnectionIdle.Or(2 * time.Minute),
		headerBytes: int(l.RequestHeaders.Or(128 << 10)),
		headerCount: orInt(l.HeaderCount, 200),
	}
}

// orInt returns n, def when n is zero, and zero when n is negative.
func orInt(n, def int) int {
	if n == 0 {
		return def
	}
	return max(n, 0)
}

// limitConnections returns l with the limit of unauthenticated connections. Connections
// of trusted proxies carry requests of many clients and are not limited; with the PROXY
// protocol each connection has its client's address.
func (s *Server) limitConnections(l net.Listener) net.Listener {
	o := s.inbound.connections
	o.Plain = s.certificates == nil
	o.Exempt = func(a netip.Addr) bool { return s.proxies.Load().Trusts(a) }
	o.Refused = func(reason string) { s.metrics.refusedConnections.WithLabelValues(reason).Inc() }
	limited := inbound.NewListener(l, o)
	s.metrics.registry.MustRegister(gaugeFunc("modelgate_keyless_connections",
		"Open connections that have shown no valid key.", func() float64 { return float64(limited.Keyless()) }))
	return limited
}

// receive applies the limits to a new request. It returns the request to serve and its
// body, nil for none.
func (s *Server) receive(w http.ResponseWriter, r *http.Request) (*http.Request, *inbound.Body) {
	inbound.EndConnection(w, r)
	return inbound.Limit(w, r, s.inbound.body, s.inbound.control)
}
