package meter

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Group is a process with all its descendants, such as Postgres with its backends.
type Group struct {
	Name string
	Pid  int
}

// tick is the unit of processor time in /proc: USER_HZ, which Linux fixes at 100.
const tick = time.Second / 100

// process is what /proc/PID/stat says of one process.
type process struct {
	parent int
	own    time.Duration
	// children is the time of those that have ended and were waited for.
	children time.Duration
}

// CPU returns the processor time that each group has used so far, with that of
// descendants that have ended. Groups of one name are one.
func CPU(groups []Group) (map[string]time.Duration, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	used := make(map[string]time.Duration, len(groups))
	for _, g := range groups {
		if _, ok := all[g.Pid]; !ok {
			return nil, fmt.Errorf("measure %s: process %d is gone", g.Name, g.Pid)
		}
		for _, pid := range family(all, g.Pid) {
			used[g.Name] += max(all[pid].own, scheduled(pid)) + all[pid].children
		}
	}
	return used, nil
}

// scheduled returns the time of a process' threads, in nanoseconds and not in ticks. A thread that has ended
// is not among them; then the ticks are more.
func scheduled(pid int) time.Duration {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	sum := time.Duration(0)
	for _, file := range threads {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended since
		}
		running, _, _ := bytes.Cut(text, []byte{' '})
		if ns, err := strconv.ParseInt(string(running), 10, 64); err == nil {
			sum += time.Duration(ns)
		}
	}
	return sum
}

// processes reads every process of the machine: descendants are found by their parents.
func processes() (map[int]process, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	if len(files) == 0 {
		return nil, errors.New("list processes: there is no /proc; the bench measures on Linux only")
	}
	all := make(map[int]process, len(files))
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended since
		}
		p, err := parseStat(text)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		all[pid] = p
	}
	return all, nil
}

// parseStat reads the fields behind the name, which stands in parentheses and may have
// any character itself.
func parseStat(text []byte) (process, error) {
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const parent, firstTime, lastTime = 1, 11, 14 // ppid; utime, stime, cutime, cstime
	if len(fields) <= lastTime {
		return process{}, fmt.Errorf("%q has %d fields", text, len(fields))
	}
	var p process
	var err error
	if p.parent, err = strconv.Atoi(string(fields[parent])); err != nil {
		return process{}, err
	}
	for i, field := range fields[firstTime : lastTime+1] {
		ticks, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return process{}, err
		}
		if i < 2 {
			p.own += time.Duration(ticks) * tick
		} else {
			p.children += time.Duration(ticks) * tick
		}
	}
	return p, nil
}

// family returns a process and its descendants.
func family(all map[int]process, root int) []int {
	members := []int{root}
	for i := 0; i < len(members); i++ {
		for pid, p := range all {
			if p.parent == members[i] && pid != members[i] {
				members = append(members, pid)
			}
		}
	}
	return members
}

// resident returns the bytes of a group that are in memory. What its processes share is
// counted once: the most that any of them has of it.
func resident(members []int) int64 {
	var own, shared int64
	for _, pid := range members {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			continue // it has ended since
		}
		fields := bytes.Fields(text)
		if len(fields) < 3 {
			continue
		}
		all, err1 := strconv.ParseInt(string(fields[1]), 10, 64)
		common, err2 := strconv.ParseInt(string(fields[2]), 10, 64)
		if err1 != nil || err2 != nil {
			continue
		}
		own += all - common
		shared = max(shared, common)
	}
	return (own + shared) * int64(os.Getpagesize())
}
