package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"waybill.dev/services/gateway/gatewaytest"
)

// anyPort is where servers listen when nobody says where.
const anyPort = "127.0.0.1:0"

// runServe serves a gateway alone until ctx ends.
func runServe(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	address := flags.String("listen", anyPort, "address to listen on")
	routes := flags.String("routes", "", "folder of the route files")
	if err := flags.Parse(args); err != nil {
		return err
	}
	server, err := startGateway(ctx, *address, *routes)
	if err != nil {
		return err
	}
	defer server.close()
	fmt.Println(server.url) // for who started this process
	<-ctx.Done()
	return nil
}

// server is a server in this process.
type server struct {
	url  string
	http *http.Server
	stop func()
}

func (s *server) close() {
	s.stop()
	s.http.Close()
}

// startGateway serves the routes of a folder.
func startGateway(ctx context.Context, address, routes string) (*server, error) {
	ctx, stop := context.WithCancel(ctx)
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	handler, err := gatewaytest.Start(ctx, routes, logger)
	if err != nil {
		stop()
		return nil, err
	}
	s, err := startServer(ctx, address, handler)
	if err != nil {
		stop()
		return nil, err
	}
	s.stop = stop
	return s, nil
}

// startServer serves handler.
func startServer(ctx context.Context, address string, handler http.Handler) (*server, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	s := &server{
		url:  "http://" + listener.Addr().String(),
		http: &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second},
		stop: func() {},
	}
	go func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "mcptest: serve:", err)
		}
	}()
	return s, nil
}
