package cli_test

import (
	"bytes"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"waybill.dev/cmd/waybill/internal/cli"
)

// terminal returns a terminal and the end at which its person sits.
func terminal(t *testing.T) (tty, person *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatalf("open a terminal: %v", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	ask := func(request uintptr, number *uint32) {
		raw, err := person.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var errno syscall.Errno
		if err := raw.Control(func(fd uintptr) {
			_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(unsafe.Pointer(number)))
		}); err != nil || errno != 0 {
			t.Fatalf("set the terminal up: %v, %v", err, errno)
		}
	}
	var locked, number uint32
	ask(syscall.TIOCSPTLCK, &locked)
	ask(syscall.TIOCGPTN, &number)
	tty, err = os.OpenFile("/dev/pts/"+strconv.FormatUint(uint64(number), 10), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("open a terminal: %v", err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	return tty, person
}

func TestAPersonIsAskedBeforeDeleting(t *testing.T) {
	t.Parallel()
	rows := []struct {
		args         []string
		answer       string
		code, asked  int
		asks, result string
	}{
		{[]string{"buckets", "delete", "partners"}, "y", 0, 1, "Delete bucket partners with its consumers and keys? [y/N]", "Bucket partners is deleted"},
		{[]string{"buckets", "delete", "partners"}, "YES", 0, 1, "[y/N]", "Bucket partners is deleted"},
		{[]string{"buckets", "delete", "partners"}, "", 1, 0, "[y/N]", "waybill: nothing was changed"},
		{[]string{"keys", "roll", "partners", "acme"}, "no", 1, 0, "Roll the keys of acme?", "waybill: nothing was changed"},
		{[]string{"buckets", "delete", "partners", "--yes"}, "", 0, 1, "", "Bucket partners is deleted"},
		{[]string{"buckets", "get", "partners"}, "", 0, 1, "", ""},
	}
	for _, row := range rows {
		t.Run(strings.Join(row.args, " ")+" "+row.answer, func(t *testing.T) {
			t.Parallel()
			tty, person := terminal(t)
			if _, err := person.WriteString(row.answer + "\n"); err != nil {
				t.Fatal(err)
			}
			var got []asked
			var out bytes.Buffer
			status := http.StatusNoContent
			body := ""
			if row.args[1] == "get" {
				status, body = http.StatusOK, `{"name":"partners"}`
			}
			args := append([]string{"waybill"}, row.args...)
			code := cli.Main("test", append(args, "--server", api(t, status, body, &got), "--key", apiKey), tty, &out, tty)
			if code != row.code || len(got) != row.asked {
				t.Errorf("exit code %d, want %d; the API was asked %v", code, row.code, got)
			}
			if _, err := tty.WriteString("\nthat-was-all\n"); err != nil {
				t.Fatal(err)
			}
			said := until(t, person, "that-was-all")
			if !strings.Contains(said, row.asks) || !strings.Contains(said, row.result) || row.asks == "" && strings.Contains(said, "[y/N]") {
				t.Errorf("on the terminal stands\n%s\nwant %q and %q", said, row.asks, row.result)
			}
		})
	}
}

// until reads what stands on the terminal, up to a word.
func until(t *testing.T, person *os.File, word string) string {
	t.Helper()
	var all []byte
	for piece := make([]byte, 1024); !strings.Contains(string(all), word); {
		n, err := person.Read(piece)
		if err != nil {
			t.Fatalf("read the terminal after %q: %v", all, err)
		}
		all = append(all, piece[:n]...)
	}
	return string(all)
}
