package admission_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"waybill.dev/services/dispatcher/internal/admission"
)

func TestBudgetIsGrantedInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		room := admission.NewBudget(100)
		room.Take(70) // in flight already
		var mu sync.Mutex
		var order []string
		var waiting sync.WaitGroup
		ask := func(name string, ctx context.Context, least, most int64) {
			waiting.Go(func() {
				granted, err := room.Reserve(ctx, least, most)
				mu.Lock()
				defer mu.Unlock()
				order = append(order, fmt.Sprintf("%s %d %v", name, granted, err))
			})
			synctest.Wait()
		}
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(order) // who gives up and who is let in for it tell in any order
			if fmt.Sprint(order) != fmt.Sprint(want) {
				t.Fatalf("granted %q, want %q", order, want)
			}
		}
		impatient, leave := context.WithCancel(t.Context())
		ask("a", t.Context(), 10, 20)
		expect("a 20 <nil>")
		ask("b", impatient, 60, 60)
		ask("c", t.Context(), 10, 90) // there is room for it, but it is not its turn
		if state := room.State(); state.Used != 90 || state.Waiting != 2 || !room.Tight() {
			t.Errorf("state %+v, want 90 used and 2 that wait", state)
		}
		leave()
		expect("a 20 <nil>", "b 0 context canceled", "c 10 <nil>")
		room.Take(40) // what is in flight never waits
		ask("d", t.Context(), 500, 500)
		room.Give(139)
		expect("a 20 <nil>", "b 0 context canceled", "c 10 <nil>")
		room.Give(1) // nothing else is in flight: what is larger than the room goes alone
		expect("a 20 <nil>", "b 0 context canceled", "c 10 <nil>", "d 500 <nil>")
		waiting.Wait()
	})
}

func TestReservedRoomIsNotTight(t *testing.T) {
	t.Parallel()
	room := admission.NewBudget(100)
	if _, err := room.Reserve(t.Context(), 60, 60); err != nil || room.Tight() {
		t.Errorf("tight with nothing in flight: %v", err)
	}
	room.Take(20)
	if room.Tight() {
		t.Error("tight with half of what is left in flight")
	}
	room.Take(1)
	if !room.Tight() {
		t.Error("not tight with more than half of what is left in flight")
	}
	room.LetGo(1)
	room.Give(60)
	room.Take(30)
	if room.Tight() {
		t.Error("tight with half of the room in flight")
	}
}

func TestPartsLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		room := admission.NewBudget(100)
		one, other := room.Part(30), room.Part(30)
		reserve := func(part *admission.Budget, least, most, want int64) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if granted, err := part.Reserve(ctx, least, most); granted != want || (err == nil) != (want > 0) {
				t.Errorf("granted %d, %v; want %d", granted, err, want)
			}
		}
		reserve(one, 10, 60, 30)
		one.Give(10)
		one.Take(10)
		reserve(one, 10, 60, 0)    // has its part
		reserve(other, 10, 60, 30) // and nobody waits for that
		room.Take(30)
		other.Give(20)
		reserve(other, 10, 60, 20) // there is room, as much as its part has
		room.Take(15)
		one.Give(20)
		one.LetGo(10)
		reserve(one, 30, 30, 0) // in its part there would be room
		reserve(one, 10, 30, 25)
		other.Give(30)
		one.Give(25)
		room.LetGo(45)
		for _, r := range []*admission.Budget{room, one, other} {
			if state := r.State(); state.Used != 0 || state.Waiting != 0 {
				t.Errorf("state %+v in the end", state)
			}
		}
	})
}
