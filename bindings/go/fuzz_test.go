package dlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	dlock "github.com/libdlock/libdlock/bindings/go"
)

// Whatever the URL, Open answers with a client or an error of ours, soon, and crashes nothing.
func FuzzURL(f *testing.F) {
	for _, url := range []string{"mem:", "mem:a?lock.ttl_ms=100", "redis://u:p@127.0.0.1:1/3",
		"file:///nowhere/table", "redis+unix:///nowhere/socket?client.connect_ms=10", "mem:\x00",
		"redis://[::1]:1", "mem:%zz", "mem:?a=b&c"} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		if strings.Contains(url, "file:") && !strings.Contains(url, "nowhere") {
			t.Skip() // it would make files
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		client, err := dlock.Open(ctx, url)
		var why *dlock.Error
		if (client == nil) == (err == nil) || (err != nil && !errors.As(err, &why)) {
			t.Fatalf("%q: %v, %v", url, client, err)
		}
		if err == nil {
			if err := client.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Whatever key, value and name, a lock is taken and released, or it says what is wrong.
func FuzzOption(f *testing.F) {
	for _, words := range [][3]string{{"lock.ttl_ms", "100", "a"}, {"lock.data", "x", "\xff"},
		{"lock.renew", "fed", ""}, {"nokey", "", "n"}, {"lock.fair", "1", "\x00"}, {"client.name", "x", "a"}} {
		f.Add(words[0], words[1], words[2])
	}
	client, err := dlock.Open(context.Background(), "mem:fuzz-options")
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = client.Close() }) // a fuzzer is ended as it comes
	f.Fuzz(func(t *testing.T, key, value, name string) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		hold, err := client.Mutex(name, dlock.With(key, value)).Lock(ctx)
		var why *dlock.Error
		if err != nil && (!errors.As(err, &why) || errors.Is(err, dlock.ErrInternal)) {
			t.Fatalf("%q=%q, %q: %v", key, value, name, err)
		}
		if err == nil {
			_ = hold.Release(ctx) // a lease of 100 ms may be over
		}
	})
}
