package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/cmd/waybill/internal/finding"
	"waybill.dev/shared/judge"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/accounts"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/units"
)

const (
	// pings is how many times the database is asked. The shortest answer counts.
	pings    = 5
	slowTrip = 20 * time.Millisecond
	// skewed is how far clocks may differ: receivers allow callbacks five minutes, and the compared
	// times have a resolution of a second.
	skewed, farSkewed = 3 * time.Second, time.Minute
)

// open returns the database, or the finding for every check when it can't be opened.
func (s *site) open() (*store.Store, []judge.Finding) {
	db, err := s.store()
	if err != nil {
		return nil, one(finding.None("the database can't be opened, see above"))
	}
	return db, nil
}

func (s *site) checkDatabase(ctx context.Context) []judge.Finding {
	db, err := s.store()
	if errors.Is(err, errNoInstallation) {
		return one(judge.Bad("there is no database "+strings.TrimPrefix(s.databaseURL(), "sqlite:"), "Nothing was ever started here, or the file is gone.", "name the data directory with --data, or restore a backup: waybill restore FILE"))
	}
	const change = "start the database, or correct " + settings.DatabaseURL
	if err != nil {
		return one(judge.Bad("can't be opened: "+err.Error(), "The API answers 503, and nothing new is accepted.", change))
	}
	began := time.Now()
	if err := db.Ping(ctx); err != nil {
		return one(judge.Bad("does not answer: "+err.Error(), "The API answers 503. What was accepted is delivered while the bus is there.", change))
	}
	trip := time.Since(began)
	for range pings { // the first query had to connect
		began = time.Now()
		if err := db.Ping(ctx); err == nil {
			trip = min(trip, time.Since(began))
		}
	}
	server, err := db.Server(ctx)
	if err != nil {
		return one(judge.Bad("does not answer: "+err.Error(), "The API answers 503.", change))
	}
	kind := "Postgres"
	if db.SQLite() {
		kind = "SQLite"
	}
	text := fmt.Sprintf("%s %s answers in %s", kind, server.Version, units.Duration(trip))
	if size, err := db.Size(ctx); err == nil {
		text += ", " + terminal.Size(size)
	}
	found := one(judge.Good(text, "The database can be reached."))
	if trip > slowTrip {
		found = one(judge.Warn(text, "Each commit takes at least this long, so publishing is slow.", "look at the network between, and at the database's load"))
	}
	if server.Replica {
		found = append(found, judge.Bad("it takes no writes: it is a replica, or is recovering", "Nothing can be accepted.", "promote it, or point "+settings.DatabaseURL+" to the primary"))
	}
	if !server.Now.IsZero() {
		found = append(found, clock("the database's clock", time.Since(server.Now)))
	}
	return found
}

// clock returns a finding for another clock that is behind this one.
func clock(whose string, behind time.Duration) judge.Finding {
	text := fmt.Sprintf("%s is %s %s this machine's", whose, units.Duration(behind.Abs()), map[bool]string{true: "behind", false: "ahead of"}[behind > 0])
	const do = "synchronise the clocks of all machines: timedatectl status"
	switch {
	case behind.Abs() > farSkewed:
		return judge.Bad(text, "Receivers refuse callbacks whose time is five minutes off, and retries come at the wrong time.", do)
	case behind.Abs() > skewed:
		return judge.Warn(text, "Times in the log and of retries are off by so much.", do)
	}
	return judge.Good(whose+" agrees with this machine's", "Signatures and retries carry the right time.")
}

func (s *site) checkMigrations(ctx context.Context) []judge.Finding {
	db, none := s.open()
	if db == nil {
		return none
	}
	schema, err := db.Schema(ctx)
	switch {
	case err != nil:
		return one(judge.Bad("can't be read: "+err.Error(), "It is not known whether the services would start.", "waybill migrate status"))
	case schema.Newer():
		return one(judge.Bad(fmt.Sprintf("the database has migration %d, and this program knows %d", schema.Applied, schema.Newest), "A later version has migrated it. Migrations only go forward.", "run the later version, or restore the backup from before the upgrade"))
	case len(schema.Pending) > 0 && s.Settings.Role == settings.Dev:
		return one(judge.Warn(fmt.Sprintf("%d are pending", len(schema.Pending)), "`waybill dev` applies them at its next start.", "back up, then start it: waybill backup"))
	case len(schema.Pending) > 0:
		return one(judge.Bad(fmt.Sprintf("%d are pending: %s", len(schema.Pending), strings.Join(schema.Pending, ", ")), "No service of this version starts.", "waybill migrate up"))
	}
	return one(judge.Good(fmt.Sprintf("all %d are applied", schema.Newest), "The database has the tables that this version works with."))
}

func (s *site) checkConnections(ctx context.Context) []judge.Finding {
	db, none := s.open()
	if db == nil {
		return none
	}
	if db.SQLite() {
		return one(finding.None("SQLite has no server"))
	}
	server, err := db.Server(ctx)
	if err != nil {
		return one(finding.None("the database does not answer, see above"))
	}
	text := fmt.Sprintf("%d of %d are used", server.Connections, server.MaxConnections)
	if server.Connections*10 >= server.MaxConnections*8 {
		return one(judge.Warn(text, "Without a free one, a process can't work. An API and a dispatcher take up to 16 each.", "raise Postgres' max_connections"))
	}
	return one(judge.Good(text, "There is room for more processes."))
}

func (s *site) checkPartitions(ctx context.Context) []judge.Finding {
	db, none := s.open()
	if db == nil {
		return none
	}
	if db.SQLite() {
		return one(finding.None("SQLite has no partitions"))
	}
	missing, err := db.MissingDays(ctx, time.Now())
	if err != nil {
		return one(judge.Bad("can't be read: "+err.Error(), "It is not known whether there is room for tomorrow's events.", "waybill migrate status"))
	}
	if len(missing) > 0 {
		var days []string
		for _, day := range missing {
			days = append(days, day.Format(time.DateOnly))
		}
		return one(judge.Warn("missing: "+strings.Join(days, ", "), "The relay makes those of the next days each hour; without an API that runs, none are made.", "start an API, or run: waybill migrate up"))
	}
	return one(judge.Good(fmt.Sprintf("there up to %d days ahead", store.DaysAhead), "What comes in the next days has its place."))
}

func (s *site) checkArchive(ctx context.Context) []judge.Finding {
	db, none := s.open()
	if db == nil {
		return none
	}
	if db.SQLite() {
		return one(finding.None("SQLite is backed up with: waybill backup"))
	}
	server, err := db.Server(ctx)
	switch {
	case err != nil:
		return one(finding.None("the database does not answer, see above"))
	case !server.ArchiveFailed.IsZero():
		return one(judge.Bad("archive_command fails since "+server.ArchiveFailed.Format(time.RFC3339), "There is no point-in-time recovery from then on, and the log fills the database's disk.", "look at the log of Postgres, and correct archive_command"))
	case !server.Archiving:
		return one(judge.Warn("archive_mode is off", "A backup brings back what was accepted until it was made, and nothing later.", "set archive_mode and archive_command, see docs/backup.md"))
	}
	return one(judge.Good("Postgres archives its log", "The database can be brought back to any point in time."))
}

// Numbers of webhooks that are read to check the encryption key.
const (
	sampledAccounts = 20
	sampledWebhooks = 50
)

// checkSecrets opens some secrets with the encryption key.
func (s *site) checkSecrets(ctx context.Context) []judge.Finding {
	db, none := s.open()
	if db == nil {
		return none
	}
	if _, err := seal.Parse(s.encryptionKey().Reveal()); err != nil {
		return one(judge.Bad("there is no encryption key", "No secret in the database can be read: no callback can be signed.", "set "+settings.EncryptionKey+" to the key of this database"))
	}
	names, _, err := accounts.New(db).ListAccounts(ctx, store.Page{Limit: sampledAccounts})
	if err != nil {
		return one(finding.None("the accounts can't be read: " + err.Error()))
	}
	looked, unreadable := 0, 0
	for _, account := range names {
		webhooks, _, _, err := pipeline.New(db).ListWebhooks(ctx, account.Name, sampledWebhooks, 0)
		if err != nil {
			return one(finding.None("the webhooks can't be read: " + err.Error()))
		}
		for i := range webhooks {
			looked++
			if webhooks[i].Fault != "" {
				unreadable++
			}
		}
	}
	switch {
	case unreadable > 0:
		return one(judge.Bad(fmt.Sprintf("of %d webhooks that were looked at, %d can't be read with the encryption key", looked, unreadable), "Their deliveries are held.", "add the key of that time to "+settings.EncryptionKey+", behind the others, and restart"))
	case looked == 0:
		return one(finding.None("there is no webhook to try the encryption key with"))
	}
	return one(judge.Good(fmt.Sprintf("the encryption key opens them (webhooks looked at: %d)", looked), "Callbacks can be signed."))
}

func (s *site) checkUnsettled(ctx context.Context) []judge.Finding {
	db, none := s.open()
	if db == nil {
		return none
	}
	at, some, err := pipeline.New(db).OldestUnsettled(ctx)
	if err != nil {
		return one(finding.None("the outbox can't be read: " + err.Error()))
	}
	return one(settled(at, some, time.Now()))
}

// longUnsettled is how old the oldest unsettled event may be.
const longUnsettled = 5 * time.Minute

func settled(at time.Time, some bool, now time.Time) judge.Finding {
	if !some || now.Sub(at) < 10*time.Second {
		return judge.Good("every accepted event is settled, or about to be", "The outcomes of what was accepted are in the delivery log.")
	}
	text := "the oldest accepted event that is not settled is " + units.Duration(now.Sub(at)) + " old"
	if now.Sub(at) > longUnsettled {
		return judge.Bad(text, "Events were accepted and are not sent, or their outcomes are not written.", "look at the dispatchers and at the bus, see docs/troubleshooting.md")
	}
	return judge.Warn(text, "It is safe in the database; the dispatchers are behind, or the bus is.", "look again in a minute")
}
