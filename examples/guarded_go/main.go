// A row in PostgreSQL that refuses who comes too late, by database/sql: guarded postgres://…
//
// The first holder stops renewing and comes back when another has had the lock.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/lib/pq"
	dlock "github.com/libdlock/libdlock/bindings/go"
)

const name = "guarded-go"

// doc: write

// write is one transaction: the check, and what the lock protects.
func write(ctx context.Context, db *sql.DB, token, pieces int64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // nothing behind a commit
	if _, err := tx.ExecContext(ctx, "SELECT dlock.check($1, $2)", name, token); err != nil {
		return err // DL001: a later grant exists
	}
	_, err = tx.ExecContext(ctx, "UPDATE guarded_go SET pieces = pieces + $1", pieces)
	if err != nil {
		return err
	}
	return tx.Commit()
}

func isStale(err error) bool {
	var said *pq.Error // pgx: *pgconn.PgError, whose Code it is, too
	return errors.As(err, &said) && said.Code == "DL001"
}

// end: write

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func hold(ctx context.Context, client *dlock.Client) *dlock.Hold {
	held, err := client.Mutex(name).Lock(ctx)
	must(err)
	return held
}

func main() {
	ctx, url := context.Background(), os.Args[1]
	db, err := sql.Open("postgres", url+"?sslmode=disable")
	must(err)
	defer db.Close()
	_, err = db.Exec("CREATE TABLE guarded_go AS SELECT 0::bigint AS pieces")
	must(err)
	slow, err := dlock.Open(ctx, url, dlock.WithTTL(time.Second), dlock.With("lock.renew", "off"))
	must(err)
	defer slow.Close()
	quick, err := dlock.Open(ctx, url)
	must(err)
	defer quick.Close()

	late := hold(ctx, slow)
	held := hold(ctx, quick) // when the first one's lease is over
	must(write(ctx, db, held.Token(), 10))
	must(held.Release(ctx))
	switch err := write(ctx, db, late.Token(), 5); {
	case err == nil:
		fmt.Println("a stale write came through")
	case isStale(err):
		fmt.Println("refused with DL001")
	default:
		fmt.Println(err)
	}
	var pieces int64
	must(db.QueryRow("SELECT pieces FROM guarded_go").Scan(&pieces))
	fmt.Println("pieces:", pieces)
	_, err = db.Exec("DROP TABLE guarded_go")
	must(err)
}
