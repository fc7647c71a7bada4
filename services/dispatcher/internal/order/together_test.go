package order

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Who asks while a question is under way gets the answer to the next one, which is put once for all of them.
func TestWhoAsksTogetherGetsALaterAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		put := 0
		m := &Manager{running: t.Context()}
		asked := sharedQuery[int, int]{m: m, question: func(_ context.Context, about []int) (int, error) {
			put++
			if put == 2 && len(about) != 10 {
				t.Errorf("the second question is about %v, want what ten have asked", about)
			}
			n := put
			<-time.After(time.Second)
			return n, nil
		}}
		answers := make(chan int, 11)
		ask := func(about int) {
			go func() {
				n, err := asked.ask(t.Context(), about)
				if err != nil {
					t.Error(err)
				}
				answers <- n
			}()
		}
		ask(0)
		synctest.Wait()
		for i := range 10 {
			ask(i)
		}
		synctest.Wait()
		if n := <-answers; n != 1 {
			t.Errorf("the first has the answer %d", n)
		}
		for range 10 {
			if n := <-answers; n != 2 {
				t.Errorf("who asked later has the answer %d", n)
			}
		}
		m.working.Wait()
		if put != 2 {
			t.Errorf("the question was put %d times, want 2", put)
		}
	})
}
