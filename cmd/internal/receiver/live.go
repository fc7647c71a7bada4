package receiver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// heartbeat is how often a sign of life is sent on the stream of an open page.
const heartbeat = 15 * time.Second

// live streams the numbers of callbacks as they arrive, as server-sent events.
func (r *Receiver) live(w http.ResponseWriter, req *http.Request) {
	control := http.NewResponseController(w)
	// The stream lasts as long as the page is open.
	if err := control.SetWriteDeadline(time.Time{}); err != nil {
		http.Error(w, "this connection can't stream", http.StatusInternalServerError)
		return
	}
	callbacks, stop := r.Subscribe()
	defer stop()
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	fmt.Fprint(w, "retry: 1000\n\n")
	for {
		if err := control.Flush(); err != nil {
			return
		}
		select {
		case <-req.Context().Done():
			return
		case c := <-callbacks:
			fmt.Fprintf(w, "data: %d\n\n", c.Number)
		case <-ticker.C:
			fmt.Fprint(w, ": still here\n\n")
		}
	}
}

// entry is a callback as JSON.
type entry struct {
	Number     int               `json:"number"`
	ReceivedAt time.Time         `json:"receivedAt"`
	Path       string            `json:"path"`
	Headers    map[string]string `json:"headers"`
	Body       string            `json:"body"`
	Status     int               `json:"status"`
	Verified   *bool             `json:"verified"` // null: the secret is not known
	Steps      []check           `json:"steps"`
}

type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// list answers with the callbacks as JSON, the newest first; ?path= picks those to a path.
func (r *Receiver) list(w http.ResponseWriter, req *http.Request) {
	wanted := req.URL.Query().Get("path")
	entries := []entry{}
	for _, c := range r.Callbacks() {
		if wanted != "" && c.Path != wanted {
			continue
		}
		steps, checked, ok := r.verify(c)
		e := entry{
			Number: c.Number, ReceivedAt: c.ReceivedAt.UTC(), Path: c.Path, Headers: make(map[string]string),
			Body: string(c.Body), Status: c.Status,
		}
		for _, step := range steps {
			e.Steps = append(e.Steps, check(step))
		}
		for name := range c.Header {
			e.Headers[name] = c.Header.Get(name)
		}
		if checked {
			e.Verified = &ok
		}
		entries = append(entries, e)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"data": entries}) // a client that is gone gets no error
}

// body answers with the bytes of a callback's body.
func (r *Receiver) body(w http.ResponseWriter, req *http.Request) {
	number, _ := strconv.Atoi(req.PathValue("number"))
	for _, c := range r.Callbacks() {
		if c.Number == number {
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="callback-%d.json"`, number))
			_, _ = w.Write(c.Body)
			return
		}
	}
	http.NotFound(w, req)
}
