package admission

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
	full    atomic.Bool // outcomes can't be stored

	mu    sync.Mutex
	now   int
	most  int
	order []*try
	// take is how an attempt takes its time.
	take func(*try)
	// next is the webhook's next attempt after one.
	next func(*try) *try
}

func newField(take func(*try)) *field {
	f := &field{take: take}
	f.limiter = NewLimiter(NewProcess(Options{Full: f.full.Load}), f.run)
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
	return f.limiter.taken, int(f.limiter.process.waiting.Load())
}

func TestWhatWantsTheProcessorIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newField(func(*try) { <-time.After(50 * time.Millisecond) })
		least := int(attemptsLimit())
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

// No attempt is left that could start the next one when it ends.
func TestWhatWaitsForStorageIsStarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newField(func(*try) { <-time.After(50 * time.Millisecond) })
		before := f.launch(3, plain)
		f.full.Store(true)
		list := f.launch(2*int(attemptsLimit()), plain)
		<-time.After(time.Minute)
		if order, _ := f.made(); len(order) != len(before) {
			t.Fatalf("%d attempts were made while outcomes could not be stored, want the %d of before", len(order), len(before))
		}
		f.full.Store(false)
		<-time.After(time.Second)
		order, most := f.made()
		if len(order) != len(before)+len(list) || most != int(attemptsLimit()) {
			t.Errorf("%d of %d attempts were made, %d at once; want at most %d at once", len(order), len(before)+len(list), most, attemptsLimit())
		}
	})
}

func TestWhatHangsHoldsNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		f := newField(func(*try) { <-free })
		least := int(attemptsLimit())
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
		f := newField(func(*try) { <-time.After(50 * time.Millisecond) })
		again, free := &try{}, &try{place: Place{Free: true}}
		follows := make(map[*try]*try)
		f.next = func(one *try) *try { return follows[one] }
		least := int(attemptsLimit())
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

func TestWhatYieldsLetsOthersPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, yielding)
}

func yielding(t *testing.T) {
	t.Helper()
	f := newField(func(*try) { <-time.After(50 * time.Millisecond) })
	least := int(attemptsLimit())
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
