package index

import (
	"context"
	"strconv"
	"sync"
	"time"
)

// Announcer carries notifications between processes. They may be lost.
type Announcer interface {
	Announce(subject string, body []byte)
	Listen(subject string, handle func(body []byte)) (stop func(), err error)
	ListenAnswering(subject string, handle func(body []byte, answer func())) (stop func(), err error)
}

// answerTime is how long an announcer waits for an answer.
const answerTime = 2 * time.Second

// listen receives announcements until ctx is done and stop is called.
func (x *Index) listen(ctx context.Context) (stop func(), err error) {
	var answering sync.WaitGroup
	ctx, stopAnswers := context.WithCancel(ctx)
	stopConfig, err := x.options.Announcer.ListenAnswering(x.options.ConfigSubject, func(body []byte, answer func()) {
		x.Poke()
		// The body is a version. The process that announced it may wait for the answer, which says
		// that the version is in force here.
		version, err := strconv.ParseInt(string(body), 10, 64)
		if err != nil {
			return
		}
		answering.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, answerTime)
			defer cancel()
			if x.Await(ctx, version) == nil && (x.options.Ready == nil || x.options.Ready(ctx) == nil) {
				answer()
			}
		})
	})
	if err != nil {
		stopAnswers()
		return nil, err
	}
	stopHealth, err := x.options.Announcer.Listen(x.options.HealthSubject, x.heardHealth)
	if err != nil {
		stopAnswers()
		stopConfig()
		return nil, err
	}
	return func() {
		stopHealth()
		stopConfig()
		stopAnswers()
		answering.Wait()
	}, nil
}
