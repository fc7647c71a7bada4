//go:build race

package attack

const slower = 12
