package postgres

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

// session identifies a write connection.
type session struct {
	token int64     // key of an advisory lock that its backend holds until it ends
	at    time.Time // when it was connected
}

// sessionKey is the key in the connection's custom data.
const sessionKey = "session"

// noteSession takes an advisory lock with a unique key. It shows later whether the
// connection's backend has ended, without the right to read pg_stat_activity.
func noteSession(ctx context.Context, c *pgx.Conn) error {
	s := session{at: time.Now()}
	for locked := false; !locked; {
		s.token = rand.Int64()
		if err := c.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, s.token).Scan(&locked); err != nil {
			return err
		}
	}
	c.PgConn().CustomData()[sessionKey] = s
	return nil
}

func sessionOf(c *pgx.Conn) session {
	s, _ := c.PgConn().CustomData()[sessionKey].(session)
	return s
}
