package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
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
