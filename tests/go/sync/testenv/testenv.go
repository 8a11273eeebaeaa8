// Package testenv stands in for internal/testenv, which belongs to Go alone.
package testenv

import (
	"os"
	"testing"
)

func Executable(t testing.TB) string {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
