package store

import (
	"cmp"
	"context"
	"database/sql"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"waybill.dev/shared/domain"
)

// connectTimeout is how long making one connection to Postgres may take, unless the URL or Options
// say otherwise: an api answers 503 within 2 s of an outage.
const connectTimeout = time.Second

// postgresDialect works on a pool of pgx connections, which gorm and goose share.
type postgresDialect struct {
	pool *pgxpool.Pool
	db   *sql.DB
}

func openPostgres(ctx context.Context, o Options) (*postgresDialect, error) {
	config, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(min(o.MaxConns, 10_000)) // bounded
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = cmp.Or(o.ConnectTimeout, connectTimeout)
	}
	dialer := &net.Dialer{Timeout: config.ConnConfig.ConnectTimeout, KeepAlive: 10 * time.Second}
	config.ConnConfig.DialFunc = dialer.DialContext
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "waybill"
	}
	if o.ReadOnly {
		config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	}
	// No statement takes so long that compiling it pays: for lists that check many deliveries,
	// Postgres compiles some 40 ms for 5 ms of work.
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		arrays, _ := conn.TypeMap().TypeForOID(pgtype.ByteaArrayOID)
		conn.TypeMap().RegisterType(&pgtype.Type{Name: arrays.Name, OID: arrays.OID, Codec: byteaArrays{arrays.Codec}})
		_, err := conn.Exec(ctx, "SET jit = off")
		return err
	}
	recordPostgres(config)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &postgresDialect{pool: pool, db: stdlib.OpenDBFromPool(pool)}, nil
}

func (d *postgresDialect) addresses() []string {
	config := d.pool.Config().ConnConfig
	var addresses []string
	add := func(host string, port uint16) {
		if !strings.HasPrefix(host, "/") {
			addresses = append(addresses, net.JoinHostPort(host, strconv.Itoa(int(port))))
		}
	}
	add(config.Host, config.Port)
	for _, other := range config.Fallbacks {
		add(other.Host, other.Port)
	}
	return addresses
}

func (d *postgresDialect) handles() (write, read *sql.DB) { return d.db, d.db }

func (d *postgresDialect) dialector(db gorm.ConnPool) gorm.Dialector {
	return postgres.New(postgres.Config{Conn: db})
}

func (d *postgresDialect) close() error {
	err := d.db.Close()
	d.pool.Close()
	return err
}

func (d *postgresDialect) moment(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

func (d *postgresDialect) date(day time.Time) any { return domain.Day(day) }
