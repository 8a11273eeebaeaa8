package dlock

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/libdlock/libdlock/bindings/go/internal/cdlock"
)

// So many goroutines are at once inside calls of C that may wait for its mutex, or write to a socket:
// each of them may cost a thread for a moment.
const inside = 4

// Client is one lock service: one identity there, its connections, and one goroutine that hears of
// everything. Made by [Open]; any number of goroutines may share it.
type Client struct {
	url    string
	logger *slog.Logger
	gate   chan struct{} // holds one for each operation that is being begun or ended; before life

	life sync.RWMutex  // read-held during each call of C with c
	c    cdlock.Client // 0: freed

	listeners listeners
	holds     holds
	waiting   atomic.Int64 // operations that somebody waits for
	reads     atomic.Bool  // the client's goroutine reads answers; else a thread of C's does
	heard     chan struct{}
	events    *os.File

	closing sync.Once
	gone    error
}

// Open connects to a lock service: "mem:", "mem:NAME", "file:///run/lock/app",
// "redis://[user:password@]host[:port][/db]", "redis+unix:///path", and what else libdlock was built
// with. Parameters of the URL are settings: "redis://host?lock.ttl_ms=10000".
//
// With("client.lazy", "true") connects at the first use instead. Close the client when done.
func Open(ctx context.Context, url string, options ...Option) (*Client, error) {
	if ctx == nil {
		return nil, invalid("open", "", "the context is nil")
	}
	if err := checkVersion(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ended("open", "", ctx)
	}
	s := collect(options)
	if strings.IndexByte(url, 0) >= 0 {
		s.wrong = "the URL contains a NUL"
	}
	c, wrong := prepare(url, &s)
	if wrong != nil {
		return nil, wrong
	}
	by, err := c.Settings()
	if err == nil && by["client.lazy"] != "true" {
		err = c.connect(ctx)
	}
	if err != nil {
		_ = c.Close() // it holds nothing, and the reason is why it couldn't connect
		return nil, err
	}
	return c, nil
}

func checkVersion() error {
	if int64(cdlock.Dlock_version_num()) < cdlock.Cdlock_built_num() {
		return &VersionError{Built: cdlock.Cdlock_built(), Loaded: cdlock.Dlock_version()}
	}
	return nil
}

// Version is that of the libdlock that is loaded.
func Version() string { return cdlock.Dlock_version() }

// Backends are the URL schemes that the libdlock that is loaded can open.
func Backends() []string { return strings.Fields(cdlock.Dlock_backends()) }

// A client that hasn't connected yet, with its goroutine.
func prepare(url string, s *settings) (*Client, *Error) {
	all := *s
	all.list = append(append([]setting{}, s.list...), setting{"lock.owner", "none"})
	if !s.has("client.log_level") {
		all.set("client.log_level", logLevel(s.logger))
	}
	conf, err := all.conf("open", "")
	if err != nil {
		return nil, err
	}
	defer cdlock.Dlock_conf_free(conf)
	var handle cdlock.Client
	var why cdlock.Error
	if code := cdlock.Dlock_client_new(url, conf, &handle, &why); code != cdlock.DLOCK_OK {
		return nil, failureOf("open", "", code, why)
	}
	c := &Client{c: handle, logger: s.logger, gate: make(chan struct{}, inside),
		heard: make(chan struct{}), url: cdlock.Dlock_client_uri(handle)}
	if err := c.listen(); err != nil {
		cdlock.Dlock_client_free(handle)
		return nil, err
	}
	return c, nil
}

func (c *Client) connect(ctx context.Context) error {
	op, err := c.start("open", "", cdlock.Dlock_client_connect_start)
	if err != nil {
		return err
	}
	defer c.end(op)
	return c.finish(ctx, op, "open", "")
}

// The client for a call of C; c.life.RUnlock() after it.
func (c *Client) enter(op, name string) (cdlock.Client, *Error) {
	if c == nil {
		return 0, invalid(op, name, "the client is nil")
	}
	c.life.RLock()
	if c.c == 0 {
		c.life.RUnlock()
		return 0, closed(op, name)
	}
	return c.c, nil
}

// A handle of C's that belongs to a client and has settings; yours to free.
func open[H any](c *Client, what, name string, s *settings,
	begin func(cdlock.Client, cdlock.Conf, *H, *cdlock.Error) cdlock.Dlock_err) (ret H, err *Error) {
	client, err := c.enter(what, name)
	if err != nil {
		return ret, err
	}
	defer c.life.RUnlock()
	conf, err := s.conf(what, name)
	if err != nil {
		return ret, err
	}
	var why cdlock.Error
	code := begin(client, conf, &ret, &why)
	if conf != 0 {
		cdlock.Dlock_conf_free(conf)
	}
	if code != cdlock.DLOCK_OK {
		return ret, failureOf(what, name, code, why)
	}
	return ret, nil
}

// URL is where the client is connected, without the password.
func (c *Client) URL() string {
	if c == nil {
		return ""
	}
	return c.url
}

// Close ends every wait with [ErrClosed], releases every hold, and ends the client's goroutine. It
// waits at most client.close_ms (2 s) for the service; [ErrUnknown] means that a release wasn't
// confirmed by then: it ends with its lease. Closing twice is fine.
func (c *Client) Close() error {
	if c == nil {
		return invalid("close", "", "the client is nil")
	}
	c.closing.Do(c.close)
	return c.gone
}

func (c *Client) close() {
	op, err := c.start("close", "", cdlock.Dlock_client_close_start)
	if err != nil {
		c.gone = err // it was never opened
		return
	}
	c.gone = c.finish(context.Background(), op, "close", "")
	c.end(op)
	<-c.heard // what it has heard was the last event
	c.holds.free()
	c.life.Lock()
	cdlock.Dlock_client_free(c.c)
	c.c = 0
	c.life.Unlock()
	c.listeners.closed()
	_ = c.events.Close() // our own duplicate; nobody waits on it any more
}

// The client's goroutine: asleep in Go's poller until there are events. The descriptor stays the
// library's, so it is a duplicate that goes into the poller, and it is never read.
func (c *Client) listen() *Error {
	source := cdlock.Dlock_client_poll_fd(c.c)
	if source < 0 {
		source = cdlock.Dlock_client_event_fd(c.c)
	}
	fd, _, no := syscall.Syscall(syscall.SYS_FCNTL, uintptr(source), syscall.F_DUPFD_CLOEXEC, 0)
	if no == 0 {
		no = nonblocking(int(fd))
	}
	if no != 0 {
		return &Error{Op: "open", Text: "no descriptor for events: " + no.Error(),
			causes: []error{ErrInternal}}
	}
	c.events = os.NewFile(fd, "dlock events")
	raw, err := c.events.SyscallConn()
	if err == nil {
		err = c.events.SetReadDeadline(time.Time{}) // fails when it isn't in the poller
	}
	if err != nil {
		_ = c.events.Close() // what is wrong with it is said already
		return &Error{Op: "open", Text: "events: " + err.Error(), causes: []error{ErrInternal}}
	}
	go func() {
		defer close(c.heard)
		n := new(news)
		if err := raw.Read(func(uintptr) bool { return c.drain(n) }); err != nil && c.logger != nil {
			c.logger.Error("dlock: events can't be heard any more", "url", c.url, "error", err)
		}
	}()
	return nil
}

// An epoll has nothing to read, and no such flag; only with it does os.NewFile use Go's poller.
func nonblocking(fd int) syscall.Errno {
	no, _ := syscall.SetNonblock(fd, true).(syscall.Errno)
	return no
}

// So many events are fetched by one call of C.
const burst = 64

type news [1 + 3*burst]int64

// Reads and fetches what there is, for the poller tells once only; says whether that was the last.
func (c *Client) drain(n *news) bool {
	c.life.RLock()
	defer c.life.RUnlock()
	for {
		count := cdlock.Cdlock_fetch(c.c, &n[0], burst)
		driven := cdlock.Dlock_err(n[0])
		if reads := driven != cdlock.DLOCK_ENOTSUP; reads != c.reads.Load() {
			c.reads.Store(reads)
		}
		for at := 1; at < 1+3*count; at += 3 {
			if c.hear(uint64(n[at]), cdlock.Dlock_what(n[at+1]), cdlock.Event(n[at+2])) {
				return true
			}
		}
		if driven == cdlock.DLOCK_EPENDING {
			runtime.Gosched() // those who have been answered ask again, and all that leaves at once
		} else if count < burst {
			return false
		}
	}
}

func (c *Client) hear(tag uint64, what cdlock.Dlock_what, event cdlock.Event) (last bool) {
	if tag != 0 {
		c.listeners.tell(tag, what)
		return false
	}
	if what == cdlock.DLOCK_EVENT_CLOSED {
		return true
	}
	if c.logger != nil {
		c.log(what, event)
	}
	cdlock.Dlock_event_free(event)
	return false
}

// Mutex is the lock with this name. Nothing is sent before it is locked; what is wrong with the name
// or an option, Lock says.
func (c *Client) Mutex(name string, options ...Option) *Mutex {
	return &Mutex{c.lock(cdlock.DLOCK_MUTEX, name, options)}
}

// RWMutex is the read/write lock with this name.
func (c *Client) RWMutex(name string, options ...Option) *RWMutex {
	return &RWMutex{lock: c.lock(cdlock.DLOCK_WRITE, name, options),
		read: Mutex{c.lock(cdlock.DLOCK_READ, name, options)}}
}

// Semaphore is a number of permits of which each Lock takes one, or [WithTake]. The first Lock makes
// it; 0 permits means that it has to be there. Its holds can't fence: their token is 0.
func (c *Client) Semaphore(name string, permits int, options ...Option) *Semaphore {
	options = append(options[:len(options):len(options)], With("lock.permits", strconv.Itoa(permits)))
	return &Semaphore{c.lock(cdlock.DLOCK_SEMAPHORE, name, options)}
}

// Election is one leader among those that campaign; id is what the leader publishes.
func (c *Client) Election(name, id string, options ...Option) *Election {
	options = append(options[:len(options):len(options)], With("lock.data", id))
	return &Election{c.lock(cdlock.DLOCK_ELECTION, name, options)}
}

// Multi is one lock made of 1 to 64 others, of any kinds and clients: all or nothing, in an order
// that can't deadlock. A member's loss is the loss of all. Waits belong to this client.
func (c *Client) Multi(locks ...Lockable) *Multi {
	return &Multi{c.multi(locks)}
}

// Import takes over a lock that [Hold.Export] gave away, under a new and larger token. Works once.
func (c *Client) Import(ctx context.Context, ticket string) (*Hold, error) {
	if err := checkContext(ctx, "import", ""); err != nil {
		return nil, err
	}
	if strings.IndexByte(ticket, 0) >= 0 {
		return nil, invalid("import", "", "the ticket contains a NUL")
	}
	op, err := c.start("import", "", func(handle cdlock.Client) cdlock.Op {
		return cdlock.Dlock_client_import_start(handle, ticket)
	})
	if err != nil {
		return nil, err
	}
	defer c.end(op)
	if err := c.finish(ctx, op, "import", ""); err != nil {
		return nil, err
	}
	hold := cdlock.Dlock_op_take_hold(op)
	return newHold(ctx, c, nil, "", hold, cdlock.Dlock_hold_token(hold)), nil
}
