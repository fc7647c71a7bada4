package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/cmd/waybill/internal/finding"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/judge"
	"waybill.dev/shared/units"
)

// oldestServer is the first version of nats-server with everything that Waybill uses.
const oldestServer = "2.12"

// answering returns the bus, or the finding for a check when the bus does not answer.
func (s *site) answering(ctx context.Context) (*bus.Bus, []judge.Finding) {
	b, err := s.ready(ctx)
	if errors.Is(err, errNoBus) {
		return nil, one(finding.None(err.Error()))
	}
	if err != nil {
		return nil, one(finding.None("the bus does not answer, see above"))
	}
	return b, nil
}

func (s *site) checkBus(ctx context.Context) []judge.Finding {
	trying, cancel := context.WithTimeout(ctx, s.Limit*3/4)
	defer cancel()
	b, err := s.ready(trying)
	if errors.Is(err, errNoBus) {
		return one(finding.None(err.Error()))
	}
	if err != nil {
		return one(judge.Bad("does not answer: "+reason(err), "Events are accepted over REST and wait in the database. Nothing is delivered.", "start nats-server, or correct "+settings.NATSURL+" (address, user, password)"))
	}
	info, err := b.ServerInfo(ctx)
	if err != nil {
		return one(judge.Bad("does not answer: "+reason(err), "Nothing is delivered.", "look at the log of nats-server"))
	}
	text := fmt.Sprintf("nats-server %s answers in %s", info.Version, units.Duration(info.Trip))
	if info.Cluster != "" {
		text += fmt.Sprintf(", cluster %s, %d servers known", info.Cluster, len(info.Known))
	}
	found := one(judge.Good(text, "The bus can be reached."))
	// Pre-releases of that version are accepted, too.
	if v := semver.MajorMinor("v" + info.Version); v != "" && semver.Compare(v, "v"+oldestServer) < 0 {
		found = append(found, judge.Bad("nats-server "+info.Version+" is too old", "Retries need message schedules, which it does not have.", "install nats-server "+oldestServer+" or later"))
	}
	if s.Settings.BusReplicas > 1 && len(info.Known) < s.Settings.BusReplicas {
		found = append(found, judge.Warn(fmt.Sprintf("%d servers are known, and %s is %d", len(info.Known), settings.BusReplicas, s.Settings.BusReplicas), "With fewer servers the streams can't have so many copies.", "start the other servers, and name all of them in "+settings.NATSURL))
	}
	if !info.TLS && remote(info.Known) {
		found = append(found, judge.Warn("the connection is not encrypted", "Who can listen on the network sees events and the password.", "use tls:// in "+settings.NATSURL+", or a private network"))
	}
	return found
}

// remote reports whether one of the addresses is neither of this machine nor of a private network.
func remote(addresses []string) bool {
	for _, address := range addresses {
		host, _, err := net.SplitHostPort(address)
		ip := net.ParseIP(host)
		if err == nil && ip != nil && !ip.IsLoopback() && !ip.IsPrivate() {
			return true
		}
	}
	return false
}

func (s *site) checkRights(ctx context.Context) []judge.Finding {
	b, none := s.answering(ctx)
	if b == nil {
		return none
	}
	rights, err := b.Rights(ctx)
	if err != nil {
		return one(judge.Bad("can't be found out: "+reason(err), "The user may be wrong.", "correct "+settings.NATSURL))
	}
	if len(rights.Missing) > 0 {
		return one(judge.Bad("may not listen to "+strings.Join(rights.Missing, ", "), "News between the processes are lost, or publishers are not served.", "give the user these rights, as in deploy/nats/nats.conf, and use the user of this process"))
	}
	if len(rights.Unpublished) > 0 {
		return one(judge.Bad("may not publish to "+strings.Join(rights.Unpublished, ", "), "What this process hands on is refused by the bus.", "give the user these rights, as in deploy/nats/nats.conf, and use the user of this process"))
	}
	if rights.Told && rights.Everything && !s.held {
		return one(judge.Warn("the user may do everything", "Whoever reaches this port can publish for any account.", "use the users of deploy/nats/nats.conf"))
	}
	if rights.Told && rights.Everything {
		return one(judge.Good("the bus of `waybill dev` has no users", "Keep its port on loopback: whoever reaches it can publish for any account."))
	}
	return one(judge.Good("it may listen to all that it needs, and publish to its streams", "What it may tell other processes is not tried, because that would reach them."))
}

func (s *site) checkStreams(ctx context.Context) []judge.Finding {
	if s.Settings.Role == settings.Gateway {
		return one(finding.None("a gateway uses no streams"))
	}
	b, none := s.answering(ctx)
	if b == nil {
		return none
	}
	looks, err := b.InspectStreams(ctx)
	if err != nil {
		return one(judge.Bad("can't be read: "+reason(err), "JetStream does not answer, or the user may not ask.", "look at the log of nats-server; is jetstream enabled?"))
	}
	var found []judge.Finding
	missing := 0
	for _, look := range looks {
		if look.Missing {
			missing++
		}
		f := stream(look)
		f.Name = look.Name
		found = append(found, f)
	}
	if missing == len(looks) {
		return one(judge.Warn("there are none", "No API or dispatcher has run on this bus yet; the first one makes them.", "start an API and a dispatcher"))
	}
	return found
}

// Above these shares of its limit, EVENTS is reported: as a fault, and as a warning. From three quarters
// on, dispatchers drop events that are done.
const full, almostFull = 0.95, 0.8

func stream(look bus.StreamLook) judge.Finding {
	if look.Missing {
		if look.LeastBytes > 0 {
			return judge.Bad("is missing, and needs "+terminal.Size(look.LeastBytes), "While EVENTS or REJECTED is missing, nothing is delivered. Events from REST wait in the database.", "see the log of an API or a dispatcher: for want of room, make some on the disk of nats-server, or raise its max_file_store")
		}
		return judge.Bad("is missing", "What it is for does not work.", "restart a dispatcher, which makes it; see the log of nats-server if it does not")
	}
	text := fmt.Sprintf("%d stored, %s", look.Messages, terminal.Size(int64(look.Bytes)))
	share := 0.0
	if look.MaxBytes > 0 {
		share = float64(look.Bytes) / float64(look.MaxBytes)
		text += fmt.Sprintf(" of %s (%.0f %%)", terminal.Size(look.MaxBytes), 100*share)
	}
	if look.Replicas > 1 {
		text += fmt.Sprintf(", %d copies", look.Replicas)
	}
	switch {
	case look.NoLeader:
		return judge.Bad(text+": it has no leader", "Most of its servers are away; nothing can be stored.", "start the other servers of the cluster")
	case len(look.Behind) > 0:
		return judge.Warn(text+"; behind: "+strings.Join(look.Behind, ", "), "With one more server away, it may stop.", "look at these servers")
	case len(look.Differs) > 0:
		return judge.Warn(text+"; "+strings.Join(look.Differs, "; "), "It has other settings than these; the next API or dispatcher that starts changes them.", "give all processes the same settings, and restart one")
	case look.Name == bus.StreamEvents && share > full:
		return judge.Bad(text, "It refuses new events: those from REST wait in the database, publishers on NATS get an error.", "see why events wait (what waits, below), or raise "+settings.BusMaxBytes)
	case look.Name == bus.StreamEvents && share > almostFull:
		return judge.Warn(text, "Events that wait are filling it.", "see why events wait (what waits, below)")
	}
	return judge.Good(text, "It is there, as it is needed.")
}

func (s *site) checkConsumers(ctx context.Context) []judge.Finding {
	if s.Settings.Role == settings.Gateway {
		return one(finding.None("a gateway consumes no streams"))
	}
	b, none := s.answering(ctx)
	if b == nil {
		return none
	}
	looks, err := b.InspectConsumers(ctx)
	if err != nil {
		return one(judge.Bad("can't be read: "+reason(err), "It is not known what waits.", "look at the log of nats-server"))
	}
	var found []judge.Finding
	for _, look := range looks {
		f := consumer(look, time.Now())
		f.Name = map[string]string{bus.StreamEvents: "events", bus.StreamRecords: "outcomes", bus.StreamRetries: "due retries"}[look.Stream]
		found = append(found, f)
	}
	return found
}

// Ages of the oldest unacknowledged message from which the operator should act.
const oldWaiting, tooOldWaiting = 30 * time.Second, 5 * time.Minute

func consumer(look bus.ConsumerLook, now time.Time) judge.Finding {
	if look.Missing {
		return judge.Warn("consumer "+look.Name+" of "+look.Stream+" is missing", "Nobody takes these messages until it is there.", "restart a dispatcher; see the log of nats-server for: corrupt state file")
	}
	if look.Pending == 0 && look.Unacked == 0 {
		return judge.Good("none wait", "The dispatchers are up to date.")
	}
	text := fmt.Sprintf("%d wait, %d are in hand", look.Pending, look.Unacked)
	if look.Oldest.IsZero() {
		return judge.Good(text, "The dispatchers work on them.")
	}
	age := now.Sub(look.Oldest)
	text += ", the oldest for " + units.Duration(age)
	do := "see that the dispatchers run and that they are not overloaded (waybill_overloaded); start another one"
	if look.Stream == bus.StreamRecords {
		do = "see that the database answers and is not slow (waybill_records_write_seconds)"
	}
	switch {
	case age > tooOldWaiting:
		return judge.Bad(text, "The dispatchers are far behind, or none works.", do)
	case age > oldWaiting:
		return judge.Warn(text, "The dispatchers are behind.", do)
	}
	return judge.Good(text, "The dispatchers work on them.")
}
