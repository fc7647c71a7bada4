// Package finding runs checks, and prints the findings.
package finding

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/shared/judge"
)

// None returns the finding that a check doesn't apply here, with the reason.
func None(why string) judge.Finding {
	return judge.Finding{Level: judge.Absent, Found: why, Means: "This check does not apply here."}
}

// Check is one check of T.
type Check[T any] struct {
	Group, Name string
	Run         func(ctx context.Context, on T) []judge.Finding
}

// Run runs the checks concurrently, each with a time limit, and returns their findings, in their order. A
// check that hangs is abandoned and reported as a fault.
func Run[T any](ctx context.Context, on T, checks []Check[T], limit time.Duration) []judge.Finding {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	results := make([]chan []judge.Finding, len(checks))
	for i, check := range checks {
		results[i] = make(chan []judge.Finding, 1)
		go func() { results[i] <- check.Run(ctx, on) }()
	}
	grace := time.NewTimer(limit + limit/10) // for checks that obey the context
	defer grace.Stop()
	late := false
	var all []judge.Finding
	for i, check := range checks {
		var found []judge.Finding
		if !late {
			select {
			case found = <-results[i]:
			case <-grace.C:
				late = true
			}
		}
		if late {
			select {
			case found = <-results[i]:
			default:
				found = []judge.Finding{judge.Bad(fmt.Sprintf("no answer within %s", limit), "The check hangs; so does, most likely, what it asks.", "run it again with a longer --timeout, and look at what it asks")}
			}
		}
		for _, f := range found {
			f.Group = check.Group
			f.Name = cmp.Or(f.Name, check.Name)
			all = append(all, f)
		}
	}
	return all
}

// Count returns how many findings have a level.
func Count(list []judge.Finding, level judge.Level) int {
	n := 0
	for _, f := range list {
		if f.Level == level {
			n++
		}
	}
	return n
}

const nameWidth = 15

// Print writes findings for people, by group. For findings that are ok it writes only the result; the rest
// only if all is set.
func Print(w io.Writer, style terminal.Style, list []judge.Finding, width int, all bool) {
	const indent = nameWidth + 5
	width = min(width, 100)
	group := ""
	for _, f := range list {
		if f.Group != group {
			if group != "" {
				fmt.Fprintln(w)
			}
			group = f.Group
			fmt.Fprintln(w, style.Bold(group))
		}
		fmt.Fprintf(w, "  %s %-*s %s\n", mark(style, f.Level), nameWidth, f.Name, terminal.Hang(terminal.Clean(f.Found), indent, indent, width))
		if f.Level == judge.OK && !all || f.Level == judge.Absent {
			continue
		}
		fmt.Fprintf(w, "%*s%s\n", indent, "", style.Dim(terminal.Hang(terminal.Clean(f.Means), indent, indent, width)))
		if f.Do != "" {
			fmt.Fprintf(w, "%*s%s %s\n", indent, "", style.Accent("→"), style.Accent(terminal.Hang(terminal.Clean(f.Do), indent+2, indent+2, width)))
		}
	}
}

func mark(style terminal.Style, level judge.Level) string {
	switch level {
	case judge.OK:
		return style.Good("✓")
	case judge.Warning:
		return style.Warn("!")
	case judge.Fault:
		return style.Bad("✗")
	}
	return style.Dim("-")
}

// Summary returns the last line for people.
func Summary(style terminal.Style, list []judge.Finding) string {
	faults, warnings := Count(list, judge.Fault), Count(list, judge.Warning)
	text := fmt.Sprintf("%s, %s", count(faults, "fault"), count(warnings, "warning"))
	switch {
	case faults > 0:
		return style.Bad(text)
	case warnings > 0:
		return style.Warn(text)
	}
	return style.Good("nothing found")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
