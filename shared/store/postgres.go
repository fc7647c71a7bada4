package store

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"waybill.dev/shared/domain"
)

// connectTimeout is how long one connection to Postgres may take to come about, unless
// the URL says otherwise: an api answers 503 within 2 s of an outage.
const connectTimeout = time.Second

// postgresEngine works on a pool of pgx connections, which gorm and goose share.
type postgresEngine struct {
	pool *pgxpool.Pool
	db   *sql.DB
}

func openPostgres(ctx context.Context, url string, maxConns int) (*postgresEngine, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(min(maxConns, 10_000)) // bounded
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	dialer := &net.Dialer{Timeout: config.ConnConfig.ConnectTimeout, KeepAlive: 10 * time.Second}
	config.ConnConfig.DialFunc = dialer.DialContext
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "waybill"
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &postgresEngine{pool: pool, db: stdlib.OpenDBFromPool(pool)}, nil
}

func (e *postgresEngine) handles() (write, read *sql.DB) { return e.db, e.db }

func (e *postgresEngine) dialector(db *sql.DB) gorm.Dialector {
	return postgres.New(postgres.Config{Conn: db})
}

func (e *postgresEngine) close() error {
	err := e.db.Close()
	e.pool.Close()
	return err
}

func (e *postgresEngine) moment(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

func (e *postgresEngine) date(day time.Time) any { return domain.Day(day) }

func (e *postgresEngine) acceptsInOneStatement() bool { return true }

// eventsTable returns the partition of day: addressed by its own name, a statement
// plans, locks and routes for one table instead of all of them.
func (e *postgresEngine) eventsTable(day time.Time) string { return partition(tableEvents, day) }

// partition returns the name of the partition of table that holds day.
func partition(table string, day time.Time) string {
	return fmt.Sprintf("%s_p%s", table, day.UTC().Format("20060102"))
}

func (e *postgresEngine) begin(ctx context.Context) (*sql.Tx, error) { return e.db.BeginTx(ctx, nil) }
