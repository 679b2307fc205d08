package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"modelgate/internal/base/oserr"
)

// advice is what to change if the server responds with an error of a code, %s being the
// setting with the address.
// https://www.postgresql.org/docs/current/errcodes-appendix.html
var advice = map[string]string{
	"25006": "name the primary server in %s, not a read-only one",
	"28000": "check the user in %s, DB_SSL and pg_hba.conf of the server",
	"28P01": "check the user and the password in %s",
	"3D000": "create the database or name another in %s",
	"3F000": "grant the user in %s the right to use a schema",
	"42501": "grant this right to the user in %s",
	"53100": "make room on the disk of the server",
	"53300": "raise max_connections of the server, or stop programs that use it",
	"57P03": "try again when the server in %s has started",
}

// explained is an error of the driver with a text that says what to change. It contains
// no address.
type explained struct {
	text  string
	cause error
}

func (e *explained) Error() string { return e.text }

func (e *explained) Unwrap() error { return e.cause }

// Explain returns err as one sentence that says what is wrong and which setting to check,
// without the address. An error that is not the driver's is returned as it is.
func (s *Server) Explain(err error) error {
	if e, ok := errors.AsType[*explained](err); ok {
		return e
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		said := cmp.Or(advice[e.Code], "check the server's log")
		return &explained{e.Message + "; " + strings.ReplaceAll(said, "%s", s.setting), err}
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok || IsUnavailable(err) {
		return &explained{s.connectReason(err), err}
	}
	return err
}

// Reason returns the text of [Server.Explain].
func (s *Server) Reason(err error) string { return s.Explain(err).Error() }

// refusedTLS is the text by which alone the driver reports a server without encryption.
const refusedTLS = "server refused TLS connection"

// connectReason returns why there is no connection, and what to check.
func (s *Server) connectReason(err error) string {
	_, unknown := errors.AsType[*net.DNSError](err)
	switch reason := oserr.ConnectionReason(err); {
	case strings.Contains(err.Error(), refusedTLS):
		return "the server does not offer TLS; turn ssl on there, or set DB_SSL to PREFERRED or DISABLED"
	case oserr.TLSReason(err) != "":
		return reason + "; check DB_SSL, DB_SSL_CA and the host in " + s.setting
	case unknown:
		return reason + "; check the host in " + s.setting
	case pgconn.Timeout(err):
		return fmt.Sprintf("no response in time; check the host and the port in %s, and that the server runs", s.setting)
	default:
		return fmt.Sprintf("%s; check the host and the port in %s, and that the server runs", cmp.Or(reason, "no connection"), s.setting)
	}
}
