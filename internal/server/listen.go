package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"modelgate/internal/base/clientaddr"
	"modelgate/internal/base/oserr"
	"modelgate/internal/limits/inbound"
)

// listen binds the addresses, so that an address in use is an error at the start.
func (s *Server) listen() (err error) {
	if s.apiAddr, err = Bind("API", s.Listen); err != nil || s.AdminListen == "" {
		return err
	}
	if s.adminAddr, err = Bind("admin", s.AdminListen); err != nil {
		return err
	}
	return CheckAdmin(s.adminAddr.Addr(), s.AdminToken)
}

// makeServers creates the servers of the bound addresses.
func (s *Server) makeServers() {
	base, end := context.WithCancelCause(context.Background())
	s.end = end
	s.api = s.httpServer(http.HandlerFunc(s.serveAPI))
	s.api.ConnContext = inbound.WithConn
	if s.certificates != nil {
		s.api.TLSConfig = s.certificates.server()
		s.api.Protocols.SetHTTP2(true)
		s.api.Protocols.SetUnencryptedHTTP2(false)
	}
	if s.first.Listener.ProxyProtocol {
		s.apiAddr = clientaddr.NewListener(s.apiAddr, s.proxies.Load, s.refusedProxy)
	}
	s.apiAddr = s.limitConnections(s.apiAddr)
	s.api.BaseContext = func(net.Listener) context.Context { return base }
	if s.adminAddr != nil {
		s.admin = s.httpServer(s.onCanonicalPath(s.adminRoutes()))
	}
}

// refusedProxy records a connection of a trusted proxy without a valid PROXY header.
func (s *Server) refusedProxy(peer net.Addr, err error) {
	s.metrics.refusedConnections.WithLabelValues("proxy_header").Inc()
	s.Logger.Debug("connection refused", "peer", peer.String(), "err", err.Error())
}

// Bind listens on addr. The error names the address in one line.
func Bind(name, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s address %s is already in use; stop the other process or choose another address (see --help)", name, addr)
	}
	if err != nil {
		return nil, fmt.Errorf("%s address %s cannot be used: %w; choose host:port with an address of this machine (see --help)", name, addr, bindReason(err))
	}
	return l, nil
}

// bindReason returns why an address cannot be listened on, without the address.
func bindReason(err error) error {
	if reason := oserr.ConnectionReason(err); reason != "" {
		return errors.New(reason)
	}
	if e, ok := errors.AsType[*net.AddrError](err); ok {
		return errors.New(e.Err)
	}
	return err
}

// maxStreams is the limit of open requests on one HTTP/2 connection.
const maxStreams = 250

func (s *Server) httpServer(h http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           h,
		Protocols:         protocols,
		ReadHeaderTimeout: s.inbound.headerTime,
		IdleTimeout:       s.inbound.idle,
		MaxHeaderBytes:    s.inbound.headerBytes,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: time.Minute,
			WriteByteTimeout: s.inbound.connections.Stall},
		ErrorLog: s.connectionLog(),
	}
}

// Addr returns the address of the API.
func (s *Server) Addr() net.Addr { return s.apiAddr.Addr() }

// AdminAddr returns the address of the admin listener, nil when there is none.
func (s *Server) AdminAddr() net.Addr {
	if s.adminAddr == nil {
		return nil
	}
	return s.adminAddr.Addr()
}
