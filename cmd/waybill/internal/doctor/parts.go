package doctor

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/waybill/internal/finding"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/judge"
)

// part is a running process, by its metrics.
type part struct {
	url     string
	given   bool // named by the operator
	err     error
	version string
	metrics map[string]float64 // by name with labels
}

const maxMetrics = 16 << 20

// readParts reads the metrics of the known ops addresses.
func (s *site) readParts(ctx context.Context) []part {
	ctx, cancel := context.WithTimeout(ctx, s.Limit*3/4)
	defer cancel()
	var list []part
	for _, url := range s.Parts {
		list = append(list, part{url: strings.TrimRight(url, "/"), given: true})
	}
	if len(list) == 0 {
		switch {
		case s.running.Ops != "":
			list = append(list, part{url: s.running.Ops, given: true})
		case s.Settings.Role != settings.Dev && s.Settings.OpsAddr != "":
			list = append(list, part{url: local(s.Settings.OpsAddr)})
		}
	}
	var all sync.WaitGroup
	for i := range list {
		all.Go(func() { list[i].read(ctx) })
	}
	all.Wait()
	return list
}

var buildVersion = regexp.MustCompile(`version="([^"]*)"`)

func (p *part) read(ctx context.Context) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/metrics", http.NoBody)
	if err != nil {
		p.err = err
		return
	}
	response, err := client.NewHTTP().Do(request)
	if err != nil {
		p.err = err
		return
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		p.err = fmt.Errorf("it answers %d", response.StatusCode)
		return
	}
	p.metrics = map[string]float64{}
	lines := bufio.NewScanner(io.LimitReader(response.Body, maxMetrics))
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") || !strings.HasPrefix(line, "waybill_") {
			continue
		}
		if value, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			p.metrics[line[:at]] = value
		}
		if name := line[:at]; strings.HasPrefix(name, "waybill_build_info{") {
			for _, match := range buildVersion.FindAllStringSubmatch(name, -1) {
				p.version = match[1]
			}
		}
	}
	p.err = lines.Err()
}

func (s *site) checkParts(ctx context.Context) []judge.Finding {
	if s.Settings.Role == settings.Dev && !s.held && len(s.Parts) == 0 {
		return one(judge.Warn("no `waybill dev` runs in "+s.Settings.DataDir, "Nothing is accepted or delivered while it does not run.", "waybill dev --data "+s.Settings.DataDir))
	}
	var found []judge.Finding
	for _, p := range s.parts() {
		switch {
		case p.err == nil:
			found = append(found, judge.Good(fmt.Sprintf("%s answers, version %s", p.url, p.version), "The process runs and tells its metrics."))
		case p.given:
			found = append(found, judge.Bad(p.url+" does not answer: "+reason(p.err), "The process does not run, or its ops address is another one.", "look at its log, and at "+settings.OpsAddr))
		default:
			found = append(found, finding.None(p.url+" does not answer; name the ops addresses of the processes with --part"))
		}
	}
	if len(found) == 0 {
		return one(finding.None("no ops address is known; name some with --part"))
	}
	return append(found, s.checkReady(ctx)...)
}

// checkReady checks whether an all-in-one installation is ready.
func (s *site) checkReady(ctx context.Context) []judge.Finding {
	if s.running.API == "" {
		return nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.running.API+"/readyz", http.NoBody)
	if err != nil {
		return nil
	}
	response, err := client.NewHTTP().Do(request)
	if err != nil {
		return one(judge.Bad(s.running.API+" does not answer: "+reason(err), "Nothing can be published over REST.", "restart it, and look at its log"))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // as much as was sent
		return one(judge.Bad(fmt.Sprintf("%s is not ready: %d %s", s.running.API, response.StatusCode, strings.TrimSpace(string(text))), "It does not work fully; the answer names what is missing.", "waybill health "+s.running.API))
	}
	return one(judge.Good(s.running.API+" is ready", "Database and bus answer it."))
}

func (s *site) checkVersions(context.Context) []judge.Finding {
	versions := map[string]bool{}
	for _, p := range s.parts() {
		if p.err == nil {
			versions[p.version] = true
		}
	}
	list := slices.Sorted(maps.Keys(versions))
	switch {
	case len(list) == 0:
		return one(finding.None("no process tells its version"))
	case len(list) > 1:
		return one(judge.Warn("versions that run: "+strings.Join(list, ", "), "Versions may differ while you upgrade, and not for long: features of the newer one may not hold.", "replace the older processes"))
	case list[0] != s.Version:
		return one(judge.Warn(fmt.Sprintf("%s runs, and this program is %s", list[0], s.Version), "What this program says of migrations and settings holds for its own version.", "run the doctor of the version that runs"))
	}
	return one(judge.Good(list[0], "All processes that were asked, and this program, are of one version."))
}

// beats is how long to listen for heartbeats; a dispatcher sends one a second.
const beats = 2500 * time.Millisecond

// checkDispatchers listens for heartbeats.
func (s *site) checkDispatchers(ctx context.Context) []judge.Finding {
	if s.Settings.Role == settings.Gateway {
		return one(finding.None("a gateway may not hear of dispatchers"))
	}
	b, err := s.ready(ctx)
	if err != nil {
		return one(finding.None("the bus does not answer, see below"))
	}
	listening, cancel := context.WithTimeout(ctx, min(beats, s.Limit*3/4))
	defer cancel()
	var mu sync.Mutex
	reads := map[string]int{}
	err = b.Hear(listening, bus.SubjectDispatchers, func(body []byte) bool {
		var beat struct {
			ID    string `json:"id"`
			Gone  bool   `json:"gone"`
			Reads int    `json:"reads"`
		}
		if json.Unmarshal(body, &beat) == nil && beat.ID != "" && !beat.Gone {
			mu.Lock()
			defer mu.Unlock()
			reads[beat.ID] = beat.Reads
		}
		return false
	})
	mu.Lock()
	defer mu.Unlock()
	if err != nil {
		return one(judge.Bad("can't listen: "+err.Error(), "It is not known whether a dispatcher is alive.", "look at the rights of the NATS user"))
	}
	if len(reads) == 0 {
		return one(judge.Bad("none is alive", "Events are accepted and wait; nothing is delivered.", "start waybill-dispatcher, or look at its log"))
	}
	for _, formats := range reads {
		if formats != bus.Formats {
			return one(judge.Warn(fmt.Sprintf("%d are alive, one reads version %d of what lies on the bus, and this program has %d", len(reads), formats, bus.Formats), "Dispatchers of several versions run, or this program is of another one.", "replace the older processes"))
		}
	}
	return one(judge.Good(fmt.Sprintf("%d alive", len(reads)), "Somebody takes events and delivers them."))
}

// reason returns an error in one line, without the URL, which the message already has.
func reason(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, `": `); i >= 0 {
		text = text[i+3:]
	}
	return strings.ReplaceAll(text, "\n", " ")
}
