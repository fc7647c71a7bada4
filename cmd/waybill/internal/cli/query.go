package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/itchyny/gojq"
	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/terminal"
)

// query runs a jq expression over the JSON output of a command: over each value as it is written, so that it
// works for a command that continues.
type query struct {
	pipe *io.PipeWriter
	done chan error
}

// startQuery returns a writer for a command's output. The results of the expression go to w: strings as
// plain text, other values as JSON, one per line.
func startQuery(expression string, w io.Writer) (*query, error) {
	parsed, err := gojq.Parse(expression)
	if err != nil {
		return nil, usagef("--jq can't be read: %w", err)
	}
	code, err := gojq.Compile(parsed)
	if err != nil {
		return nil, usagef("--jq can't be used: %w", err)
	}
	from, to := io.Pipe()
	q := &query{pipe: to, done: make(chan error, 1)}
	go func() {
		err := over(code, json.NewDecoder(from), w)
		_ = from.CloseWithError(err) // otherwise the command would wait for ever
		q.done <- err
	}()
	return q, nil
}

// Write implements io.Writer.
func (q *query) Write(text []byte) (int, error) { return q.pipe.Write(text) }

// end waits until all was queried.
func (q *query) end() error {
	_ = q.pipe.Close()
	return <-q.done
}

// over runs the code over all values that come.
func over(code *gojq.Code, values *json.Decoder, w io.Writer) error {
	values.UseNumber()
	for {
		var value any
		if err := values.Decode(&value); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("query output: %w", err)
		}
		results := code.Run(value)
		for {
			result, ok := results.Next()
			if !ok {
				break
			}
			if err, failed := result.(error); failed {
				if halted, is := errors.AsType[*gojq.HaltError](err); is && halted.Value() == nil {
					return nil
				}
				return fmt.Errorf("--jq: %w", err)
			}
			if err := write(w, result); err != nil {
				return err
			}
		}
	}
}

// write prints one result.
func write(w io.Writer, result any) error {
	if text, ok := result.(string); ok {
		if terminal.IsTerminal(w) { // other writers get the text byte for byte
			text = terminal.Clean(text)
		}
		_, err := fmt.Fprintln(w, text)
		return err
	}
	text, err := gojq.Marshal(result)
	if err != nil {
		return fmt.Errorf("encode result: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

// startQueries begins the query that a command was given, if any.
func (a *app) startQueries(cmd *cobra.Command) error {
	flag := cmd.Flags().Lookup("jq")
	if flag == nil || !flag.Changed {
		return nil
	}
	form := cmd.Flags().Lookup("output")
	if form.Changed && form.Value.String() != string(asJSON) {
		return usagef("--jq is for -o json")
	}
	if err := form.Value.Set(string(asJSON)); err != nil {
		return err
	}
	q, err := startQuery(flag.Value.String(), a.stdout)
	if err != nil {
		return err
	}
	a.query, a.stdout = q, q
	return nil
}
