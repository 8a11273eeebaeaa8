package dlock_test

import (
	"syscall"
	"testing"

	"github.com/libdlock/libdlock/bindings/go/internal/testredis"
)

// From now on the server answers nothing, and its port still takes connections.
func stop(t testing.TB, server *testredis.Server) {
	t.Helper()
	if err := server.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}
