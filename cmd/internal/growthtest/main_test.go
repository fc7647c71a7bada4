package growthtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"
)

var databases *filled //nolint:gochecknoglobals // filled once for all tests: that takes most of the time

func TestMain(m *testing.M) {
	keep := flag.String("keep", "", "folder in which the databases are kept, and used again")
	list := flag.String("debts", "", "file to which the list of what grows is written")
	flag.Parse()
	began := time.Now()
	var err error
	databases, err = fill(context.Background(), *keep)
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "fill the databases:", err)
	} else {
		fmt.Printf("databases filled in %s\n", time.Since(began).Round(time.Second))
		code = m.Run()
		if *list != "" {
			if err := debts.write(*list); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
	if err := databases.end(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
