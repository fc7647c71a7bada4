package storetest

import "testing"

func requestTests() map[string]func(*testing.T, *bench) { return nil }
