package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// processors returns two processors that this process may use, as taskset names them.
func processors() (first, second string, err error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "", "", fmt.Errorf("find the processors (this takes Linux): %w", err)
	}
	// Such as 0-3 or 4,6,8-11.
	list := regexp.MustCompile(`(?m)^Cpus_allowed_list:\s*(\d+)([-,]\d+)`).FindSubmatch(status)
	if list == nil {
		return "", "", errors.New("two processors are needed: one for the server, one for the loader")
	}
	n, err := strconv.Atoi(string(list[1]))
	if err != nil {
		return "", "", fmt.Errorf("find the processors: %w", err)
	}
	if list[2][0] == '-' {
		return strconv.Itoa(n), strconv.Itoa(n + 1), nil
	}
	return strconv.Itoa(n), string(list[2][1:]), nil
}

// pin binds all threads of a process to a processor.
func pin(ctx context.Context, pid int, processor string) error {
	cmd := exec.CommandContext(ctx, "taskset", "-acp", processor, strconv.Itoa(pid))
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("bind process %d to processor %s: %w: %s", pid, processor, err, output)
	}
	return nil
}

// processorTime returns what a process has taken of all processors since it started.
func processorTime(pid int) (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read the server's processor time: %w", err)
	}
	// The name of the program, in brackets, may contain anything.
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	const user, system, tickMilliseconds = 11, 12, 10 // see proc(5); Linux has 100 ticks a second
	if len(fields) <= system {
		return 0, fmt.Errorf("read the server's processor time: %d fields", len(fields))
	}
	ticks := 0
	for _, field := range []string{fields[user], fields[system]} {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, fmt.Errorf("read the server's processor time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks*tickMilliseconds) * time.Millisecond, nil
}
