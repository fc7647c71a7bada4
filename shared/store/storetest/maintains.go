package storetest

import "testing"

func maintainTests() map[string]func(*testing.T, *bench) { return nil }
