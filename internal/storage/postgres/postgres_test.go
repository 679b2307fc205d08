package postgres_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"modelgate/internal/storage/postgres"
)

func TestPostgreSQLErrorsAreClassified(t *testing.T) {
	said := func(code string) error {
		return fmt.Errorf("writing: %w", &pgconn.PgError{Code: code, Message: "m"})
	}
	for _, tt := range []struct {
		err            error
		conflict, away bool
	}{
		{said("23505"), true, false},
		{said("23503"), true, false},
		{said("23502"), false, false}, // a value that lacks
		{said("23514"), false, false}, // a check
		{said("08006"), false, true},  // the connection failed
		{said("40001"), false, true},  // serialisation
		{said("40P01"), false, true},  // deadlock
		{said("53100"), false, true},  // the disk is full
		{said("53300"), false, true},  // too many connections
		{said("55P03"), false, true},  // a lock
		{said("57P01"), false, true},  // shut down by an operator
		{said("57P03"), false, true},  // starting up
		{said("58030"), false, true},  // the disk failed
		{said("25006"), false, true},  // read-only
		{said("42601"), false, false},
		{said("42P01"), false, false},
		{said("22001"), false, false},
		{said(""), false, false},
		{io.ErrUnexpectedEOF, false, true},
		{driver.ErrBadConn, false, true},
		{context.DeadlineExceeded, false, true},
		{context.Canceled, false, false}, // the client has gone
		{errors.New("any other"), false, false},
	} {
		if conflict, away := postgres.IsConflict(tt.err), postgres.IsUnavailable(tt.err); conflict != tt.conflict || away != tt.away {
			t.Errorf("%v: conflict %t, away %t; want %t, %t", tt.err, conflict, away, tt.conflict, tt.away)
		}
	}
	for err, want := range map[error]bool{
		said("57P01"): true, said("57P03"): false, said("42601"): false, fmt.Errorf("reading: %w", io.ErrUnexpectedEOF): true,
		fmt.Errorf("reading: %w", syscall.ECONNRESET): true, context.DeadlineExceeded: false, errors.New("any other"): false,
	} {
		if got := postgres.IsConnectionLost(err); got != want {
			t.Errorf("Cut(%v) = %t, want %t", err, got, want)
		}
	}
}
