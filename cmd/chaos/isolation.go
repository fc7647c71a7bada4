package main

import "context"

func isolated(start form) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error { _ = start; return nil }
}
