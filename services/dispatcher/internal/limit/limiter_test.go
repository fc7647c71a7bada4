package limit

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// try is an attempt of a test.
type try struct {
	place   Place
	started atomic.Bool
}

func (t *try) Place() *Place { return &t.place }

func (t *try) Begin() { t.started.Store(true) }

// field is where the attempts are made that a test looks at.
type field struct {
	limiter *Limiter[*try]
	busy    atomic.Bool

	mu    sync.Mutex
	now   int
	most  int
	order []*try
	// take is how an attempt takes its time.
	take func(*try)
	// next is the webhook's next attempt after one.
	next func(*try) *try
}

func newField(busy bool, take func(*try)) *field {
	f := &field{take: take}
	f.limiter = NewLimiter(New(Options{}), f.run)
	f.limiter.runnable = func() float64 {
		if f.busy.Load() {
			return limitMost
		}
		return 0
	}
	f.busy.Store(busy)
	return f
}

func (f *field) run(one *try) {
	for one != nil {
		f.mu.Lock()
		f.now++
		f.most = max(f.most, f.now)
		f.order = append(f.order, one)
		f.mu.Unlock()
		f.take(one)
		f.mu.Lock()
		f.now--
		f.mu.Unlock()
		var next *try
		if f.next != nil {
			next = f.next(one)
		}
		one = f.limiter.Pass(one, next)
	}
}

func plain() Place { return Place{} }

func yields() Place { return Place{Yields: true} }

// launch does what an endpoint does.
func (f *field) launch(n int, place func() Place) []*try {
	var list []*try
	for range n {
		one := &try{place: place()}
		list = append(list, one)
		f.limiter.Launch(one)
	}
	return list
}

func (f *field) made() (order []*try, most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.order, f.most
}

// rest returns how many places are taken and how many attempts wait.
func (f *field) rest() (taken, waiting int) {
	f.limiter.mu.Lock()
	defer f.limiter.mu.Unlock()
	return f.limiter.taken, int(f.limiter.of.waiting.Load())
}

func TestWhatWantsTheProcessorIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newField(true, func(*try) { <-time.After(50 * time.Millisecond) })
		least := int(limitLeast())
		list := f.launch(5*least, plain)
		<-time.After(time.Second)
		order, most := f.made()
		if len(order) != len(list) || most != least {
			t.Fatalf("%d of %d attempts were made, %d at once; want at most %d at once", len(order), len(list), most, least)
		}
		place := make(map[*try]int)
		for i, one := range order {
			place[one] = i / least
		}
		for i, one := range list {
			if place[one] != i/least {
				t.Fatalf("attempt %d was among the %d. %d", i, place[one]+1, least)
			}
			if !one.started.Load() {
				t.Fatalf("attempt %d has not begun", i)
			}
		}
		if taken, waiting := f.rest(); taken != 0 || waiting != 0 {
			t.Errorf("at the end %d places are taken, %d wait", taken, waiting)
		}
	})
}

func TestWhatWaitsAtReceiversIsLetThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		f := newField(false, func(*try) { <-free })
		f.launch(limitMost+10, plain)
		<-time.After(400 * time.Millisecond)
		if _, most := f.made(); most != limitMost {
			t.Errorf("%d attempts are under way after 400 ms, want %d", most, limitMost)
		}
		close(free)
		<-time.After(time.Second)
		if order, _ := f.made(); len(order) != limitMost+10 {
			t.Errorf("%d of %d attempts were made", len(order), limitMost+10)
		}
	})
}

func TestWhatHangsHoldsNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		f := newField(true, func(*try) { <-free })
		least := int(limitLeast())
		list := f.launch(least+3, plain)
		synctest.Wait()
		for _, one := range list[:2] {
			f.limiter.Leave(one)
			f.limiter.Leave(one) // gives nothing back twice
		}
		synctest.Wait()
		if order, _ := f.made(); len(order) != least+2 {
			t.Errorf("%d attempts are under way, want %d", len(order), least+2)
		}
		close(free)
		<-time.After(time.Second)
		order, _ := f.made()
		if taken, _ := f.rest(); len(order) != least+3 || taken != 0 {
			t.Errorf("%d of %d attempts were made; %d places are taken", len(order), least+3, taken)
		}
	})
}

func TestAWebhooksNextAttemptWaitsItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newField(true, func(*try) { <-time.After(50 * time.Millisecond) })
		again, free := &try{}, &try{place: Place{Free: true}}
		follows := make(map[*try]*try)
		f.next = func(one *try) *try { return follows[one] }
		least := int(limitLeast())
		f.mu.Lock() // until it is known what follows
		list := f.launch(2*least, plain)
		follows[list[0]], follows[list[1]] = again, free
		f.mu.Unlock()
		<-time.After(time.Second)
		order, most := f.made()
		place := make(map[*try]int)
		for i, one := range order {
			place[one] = i
		}
		if place[again] < 2*least {
			t.Errorf("the next of a webhook flew as number %d, before %d that waited", place[again], least)
		}
		if place[free] >= 2*least || most != least+1 {
			t.Errorf("what needs no place flew as number %d; %d were under way at once, want %d", place[free], most, least+1)
		}
		if taken, _ := f.rest(); len(order) != 2*least+2 || taken != 0 {
			t.Errorf("%d of %d attempts were made; %d places are taken", len(order), 2*least+2, taken)
		}
	})
}

func TestAnotherBurstIsBoundedAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newField(false, func(*try) { <-time.After(time.Second) })
		f.launch(limitMost, plain)
		<-time.After(5 * time.Second)
		f.busy.Store(true)
		f.mu.Lock()
		f.most = 0
		f.mu.Unlock()
		f.launch(limitMost, plain)
		<-time.After(500 * time.Millisecond)
		if _, most := f.made(); most != int(limitLeast()) {
			t.Errorf("%d attempts are under way at once, want %.0f", most, limitLeast())
		}
		<-time.After(time.Minute)
	})
}

func TestWhatYieldsLetsOthersPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, yielding)
}

func yielding(t *testing.T) {
	t.Helper()
	f := newField(true, func(*try) { <-time.After(50 * time.Millisecond) })
	least := int(limitLeast())
	early := f.launch(10*least, yields)
	late := f.launch(least, plain)
	<-time.After(5 * time.Second)
	order, most := f.made()
	if all := len(early) + len(late); len(order) != all || most != least {
		t.Fatalf("%d of %d attempts were made, %d at once; want at most %d at once", len(order), all, most, least)
	}
	place := make(map[*try]int)
	for i, one := range order {
		place[one] = i
	}
	before := 0
	for _, one := range early {
		if place[one] < 3*least {
			before++
		}
	}
	if before != 2*least {
		t.Errorf("of the first %d attempts %d were those that yield, want %d: all places before the others came, half after", 3*least, before, 2*least)
	}
	for i := range late[1:] {
		if place[late[i]]/least > place[late[i+1]]/least {
			t.Fatalf("attempt %d of the others was made after number %d", i, i+1)
		}
	}
	if taken, waiting := f.rest(); taken != 0 || waiting != 0 {
		t.Errorf("at the end %d places are taken, %d wait", taken, waiting)
	}
}
