package growthtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
)

var keep = flag.String("keep", "", "folder in which the databases are kept, and used again")

// made are the databases, or what there is of them.
var made filled

// databases are filled once for all tests, and not before one needs them: that takes most of the time.
var databases = sync.OnceValue(func() error { return made.make(context.Background(), *keep) })

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if err := made.end(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
