package dlock

import (
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/libdlock/libdlock/bindings/go/internal/cdlock"
)

// Option is a setting of a client, of its locks by default, or of one lock. The keys of locks
// ("lock.…") may be given to [Open] or to a lock, the others to [Open] alone.
type Option func(*settings)

type setting struct{ key, value string }

type settings struct {
	list   []setting
	logger *slog.Logger
	wrong  string
}

func (s *settings) set(key, value string) { s.list = append(s.list, setting{key, value}) }

func (s *settings) has(key string) bool {
	for _, one := range s.list {
		if one.key == key {
			return true
		}
	}
	return false
}

// With gives any setting of docs/reference/settings.md by its key, as text:
// With("redis.layout", "string"). An unknown key is an error that names the likely one.
func With(key, value string) Option { return func(s *settings) { s.set(key, value) } }

// WithTTL is how long a grant lasts when nobody renews it: 100 ms to 30 days, by default 30 s. It is
// renewed each third of that, so a short one finds losses sooner and costs more traffic.
func WithTTL(ttl time.Duration) Option { return milliseconds("lock.ttl_ms", ttl) }

// WithMaxHold is the longest time a hold is renewed; then it ends with [ErrLost].
func WithMaxHold(most time.Duration) Option { return milliseconds("lock.max_hold_ms", most) }

// WithKeep lets the client keep a mutex for so long after its release, for its next owner here, until
// another client asks for it.
func WithKeep(keep time.Duration) Option { return milliseconds("lock.keep_ms", keep) }

// WithFair asks for turns in the order of asking, where the service doesn't give them anyway.
func WithFair() Option { return With("lock.fair", "true") }

// WithAsyncRelease lets Release return before the service has heard of it.
func WithAsyncRelease() Option { return With("lock.release", "async") }

// WithTake is how many permits of a semaphore one Lock takes.
func WithTake(permits int) Option { return With("lock.take", strconv.Itoa(permits)) }

// WithPrefix goes before the name of every lock of a client.
func WithPrefix(prefix string) Option { return With("client.prefix", prefix) }

// WithRequire refuses services that promise less: "efficiency", "fencing" or "correctness".
func WithRequire(class string) Option { return With("client.require", class) }

// WithLogger sends what a client has to say to a logger; without one it says nothing.
func WithLogger(logger *slog.Logger) Option {
	return func(s *settings) {
		if logger == nil {
			s.wrong = "WithLogger: the logger is nil"
		}
		s.logger = logger
	}
}

func milliseconds(key string, d time.Duration) Option {
	return func(s *settings) {
		if d%time.Millisecond != 0 {
			s.wrong = key + ": " + d.String() + " is no whole number of milliseconds"
		}
		s.set(key, strconv.FormatInt(d.Milliseconds(), 10))
	}
}

func collect(options []Option) (s settings) {
	for _, option := range options {
		if option == nil {
			s.wrong = "an option is nil"
			continue
		}
		option(&s)
	}
	for _, one := range s.list {
		if strings.IndexByte(one.key, 0) >= 0 || strings.IndexByte(one.value, 0) >= 0 {
			s.wrong = "a setting contains a NUL"
		}
		if one.key == "lock.owner" && one.value != "none" {
			s.wrong = "lock.owner is always none in Go: every Lock is an owner of its own"
		}
	}
	return s
}

// The same of what has a name, at a client.
func collectNamed(what, name string, options []Option) settings {
	s := collect(options)
	if strings.IndexByte(name, 0) >= 0 {
		s.wrong = "the name contains a NUL"
	}
	if s.logger != nil {
		s.wrong = "WithLogger is for Open: " + what + " has no logger of its own"
	}
	return s
}

// The settings as C's; 0 when there are none. Yours to free.
func (s *settings) conf(op, name string) (cdlock.Conf, *Error) {
	if s.wrong != "" {
		return 0, invalid(op, name, s.wrong)
	}
	if len(s.list) == 0 {
		return 0, nil
	}
	conf := cdlock.Dlock_conf_new()
	for _, one := range s.list {
		var why cdlock.Error
		if code := cdlock.Dlock_conf_set(conf, one.key, one.value, &why); code != cdlock.DLOCK_OK {
			cdlock.Dlock_conf_free(conf)
			return 0, failureOf(op, name, code, why)
		}
	}
	return conf, nil
}
