package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
)

// pooledConnector makes connections through a pooler that gives a server's connection to each
// transaction. Settings of a session would stay there for others, so each statement has a
// transaction with settings of its own.
type pooledConnector struct {
	driver.Connector
	settings string // statements of a transaction
}

// Connect implements [driver.Connector].
func (c pooledConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	own, ok := conn.(*stdlib.Conn)
	if !ok {
		return nil, errors.Join(errors.New("a connection of another driver"), conn.Close())
	}
	return &pooledConn{own, c.settings}, nil
}

// localSettings returns the statements that set for one transaction what a session would set.
func localSettings(session string) string {
	local := strings.ReplaceAll(session, "SET ", "SET LOCAL ")
	return strings.ReplaceAll(local, "default_transaction_read_only", "transaction_read_only")
}

// pooledConn is a connection through such a pooler. It has no prepared statements, which
// belong to a session too.
type pooledConn struct {
	*stdlib.Conn
	settings string
}

var (
	_ driver.ConnBeginTx        = (*pooledConn)(nil)
	_ driver.ExecerContext      = (*pooledConn)(nil)
	_ driver.QueryerContext     = (*pooledConn)(nil)
	_ driver.ConnPrepareContext = (*pooledConn)(nil)
)

// errPrepare is the error of a statement that would be prepared. No store prepares any.
var errPrepare = errors.New("statements are not prepared through a pooler of transactions")

// Prepare implements [driver.Conn].
func (c *pooledConn) Prepare(string) (driver.Stmt, error) { return nil, errPrepare }

// PrepareContext implements [driver.ConnPrepareContext].
func (c *pooledConn) PrepareContext(context.Context, string) (driver.Stmt, error) {
	return nil, errPrepare
}

// BeginTx implements [driver.ConnBeginTx].
func (c *pooledConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	if _, err := c.Conn.ExecContext(ctx, c.settings, nil); err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return tx, nil
}

// inTransaction reports whether a transaction has begun.
func (c *pooledConn) inTransaction() bool { return c.Conn.Conn().PgConn().TxStatus() != 'I' }

// ExecContext implements [driver.ExecerContext].
func (c *pooledConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	if c.inTransaction() {
		return c.Conn.ExecContext(ctx, text, args)
	}
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	res, err := c.Conn.ExecContext(ctx, text, args)
	if err := c.end(ctx, err); err != nil {
		return nil, err
	}
	return res, nil
}

// QueryContext implements [driver.QueryerContext]. The transaction ends with the rows.
func (c *pooledConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	if c.inTransaction() {
		return c.Conn.QueryContext(ctx, text, args)
	}
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	rows, err := c.Conn.QueryContext(ctx, text, args)
	if err != nil {
		return nil, c.end(ctx, err)
	}
	return &pooledRows{rows, c, ctx}, nil
}

// begin begins the transaction of one statement, in one round trip.
func (c *pooledConn) begin(ctx context.Context) error {
	_, err := c.Conn.ExecContext(ctx, "BEGIN; "+c.settings, nil)
	if err != nil && c.inTransaction() {
		return c.end(ctx, err)
	}
	return err
}

// endTime is the time limit for the end of a statement's transaction.
const endTime = 5 * time.Second

// end ends the transaction of one statement, also if its request has ended: it commits, or
// rolls back if the statement failed with err, which it returns. If that fails, database/sql
// closes the connection, because a transaction is open.
func (c *pooledConn) end(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if err == nil {
		_, err = c.Conn.ExecContext(ctx, "COMMIT", nil)
		return err
	}
	c.Conn.ExecContext(ctx, "ROLLBACK", nil)
	return err
}

// pooledRows are the rows of a statement with a transaction of its own.
type pooledRows struct {
	driver.Rows
	conn *pooledConn
	ctx  context.Context
}

// Close implements [driver.Rows].
func (r *pooledRows) Close() error { return r.conn.end(r.ctx, r.Rows.Close()) }
