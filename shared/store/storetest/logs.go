package storetest

import "testing"

func logTests() map[string]func(*testing.T, *bench) { return nil }
