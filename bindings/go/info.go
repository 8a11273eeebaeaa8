package dlock

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/libdlock/libdlock/bindings/go/internal/cdlock"
)

// Info is what libdlock tells by dotted keys, such as "holders.0.owner": everything, also what a
// later libdlock adds. What is absent is unknown.
type Info map[string]string

// Int is a value as a number, 0 when it is none.
func (i Info) Int(key string) int64 {
	number, err := strconv.ParseInt(i[key], 10, 64)
	if err != nil {
		return 0
	}
	return number
}

// What isn't told is otherwise.
func (i Info) intOr(key string, otherwise int) int {
	if _, ok := i[key]; !ok {
		return otherwise
	}
	return int(i.Int(key))
}

func (i Info) milliseconds(key string) time.Duration {
	return time.Duration(i.Int(key)) * time.Millisecond
}

func (i Info) date(key string) time.Time {
	if _, ok := i[key]; !ok {
		return time.Time{}
	}
	return time.UnixMilli(i.Int(key))
}

func (i Info) nanoseconds(key string) time.Duration { return time.Duration(i.Int(key)) }

// Reads C's list, and frees it.
func takeInfo(c cdlock.Info) Info {
	info := Info{}
	for n, count := 0, int(cdlock.Dlock_info_count(c)); n < count; n++ {
		info[cdlock.Dlock_info_key(c, n)] = cdlock.Dlock_info_text(c, n)
	}
	cdlock.Dlock_info_free(c)
	return info
}

// Inspection is what a service knows of a lock.
type Inspection struct {
	Held    bool
	Kind    string
	Layout  string
	Holders []Holder
	// Waiters is how many wait: of this client all, of others those in the service's line, where it
	// has one, and where those of one client that wait with the same conf are one.
	Waiters int
	// Waiting are the first of those in the service's line, in its order, where it tells that.
	Waiting []Waiting
	// Permits is how many permits a semaphore has, PermitsFree how many of them nobody has; -1 where
	// that isn't known, and of other locks.
	Permits, PermitsFree int
	// Info is everything that was told.
	Info Info
}

// Holder is one that holds a lock, as the service knows it.
type Holder struct {
	Owner     string
	Token     int64
	Remaining time.Duration
	Count     int
	// Data is its lock.data, as an election's leader publishes it, where the service knows it.
	Data string
	// Since is when it was granted or asked; zero where the service doesn't know that.
	Since time.Time
	// Process is who that is, where the service knows it.
	Process
}

// Process is what is known of the client of an owner; what isn't is empty.
type Process struct {
	// Client is its client.name.
	Client, Host string
	PID          int
}

// Waiting is one that stands in a service's line.
type Waiting struct {
	Owner string
	// Data is its lock.data, where the service knows it.
	Data string
	// Since is when it was granted or asked; zero where the service doesn't know that.
	Since time.Time
	Process
}

func process(info Info, at string) Process {
	return Process{Client: info[at+"client"], Host: info[at+"host"], PID: int(info.Int(at + "pid"))}
}

func inspection(info Info) Inspection {
	found := Inspection{Held: info["held"] == "1", Kind: info["kind"], Layout: info["layout"],
		Waiters: int(info.Int("waiters")), Permits: info.intOr("permits", -1),
		PermitsFree: info.intOr("permits_free", -1), Info: info}
	for n := 0; ; n++ {
		at := "holders." + strconv.Itoa(n) + "."
		owner, ok := info[at+"owner"]
		if !ok {
			break
		}
		found.Holders = append(found.Holders, Holder{Owner: owner, Token: info.Int(at + "token"),
			Remaining: info.milliseconds(at + "remaining_ms"), Count: int(info.Int(at + "count")),
			Data: info[at+"data"], Since: info.date(at + "since"), Process: process(info, at)})
	}
	for n := 0; ; n++ {
		at := "waiting." + strconv.Itoa(n) + "."
		owner, ok := info[at+"owner"]
		if !ok {
			return found
		}
		found.Waiting = append(found.Waiting, Waiting{Owner: owner, Data: info[at+"data"],
			Since: info.date(at + "since"), Process: process(info, at)})
	}
}

// Listed is one lock of a [Client.List].
type Listed struct {
	Name, Owner string
	Remaining   time.Duration
	// Taken is how many permits are taken of a semaphore on Redis, whose Owner is the permit that ends first; else 0.
	Taken int
	// Process is its owner's, where the service knows it.
	Process
}

// List names the locks that are held and begin with prefix, at most max of them: a snapshot.
func (c *Client) List(ctx context.Context, prefix string, max int) ([]Listed, error) {
	if strings.IndexByte(prefix, 0) >= 0 {
		return nil, invalid("list", "", "the prefix contains a NUL")
	}
	info, err := c.info(ctx, "list", func(handle cdlock.Client) cdlock.Op {
		return cdlock.Dlock_client_list_start(handle, prefix, int64(max))
	})
	if err != nil {
		return nil, err
	}
	var found []Listed
	for n := 0; ; n++ {
		at := "locks." + strconv.Itoa(n) + "."
		name, ok := info[at+"name"]
		if !ok {
			return found, nil
		}
		found = append(found, Listed{Name: name, Owner: info[at+"owner"],
			Remaining: info.milliseconds(at + "remaining_ms"), Taken: int(info.Int(at + "taken")),
			Process: process(info, at)})
	}
}

// Report is what [Client.Doctor] found.
type Report struct {
	// Verdict: 0 fine, 1 a warning, 2 unsafe.
	Verdict  int
	Findings []Finding
}

// Finding is one thing that a doctor found; its severity is counted as the verdict.
type Finding struct {
	ID       string
	Severity int
	Text     string
}

// Doctor looks at the service as an operator would: rights, layout, eviction, persistence, clock.
func (c *Client) Doctor(ctx context.Context) (Report, error) {
	info, err := c.info(ctx, "doctor", cdlock.Dlock_client_doctor_start)
	if err != nil {
		return Report{}, err
	}
	report := Report{Verdict: int(info.Int("verdict"))}
	for n := 0; ; n++ {
		at := "findings." + strconv.Itoa(n) + "."
		id, ok := info[at+"id"]
		if !ok {
			return report, nil
		}
		report.Findings = append(report.Findings, Finding{ID: id, Text: info[at+"text"],
			Severity: int(info.Int(at + "severity"))})
	}
}

func (c *Client) info(ctx context.Context, what string, begin func(cdlock.Client) cdlock.Op) (
	Info, error) {
	if err := checkContext(ctx, what, ""); err != nil {
		return nil, err
	}
	op, err := c.start(what, "", begin)
	if err != nil {
		return nil, err
	}
	defer c.end(op)
	if err := c.finish(ctx, op, what, ""); err != nil {
		return nil, err
	}
	return takeInfo(cdlock.Dlock_op_take_info(op)), nil
}

// Stats is what a client has counted since it was opened.
type Stats struct {
	Grants, Waits, Timeouts, Cancels, Releases, ReleasesFailed int64
	Renewals, RenewalsFailed, Suspects, Losses                 int64
	Commands, BytesSent, BytesReceived, Reconnects             int64
	// Wait is how long acquires took, Hold how long holds lasted.
	Wait, Hold Times
	// Info is everything that was told.
	Info Info
}

// Times is a distribution of durations.
type Times struct {
	Count              int64
	Sum, Max, P50, P99 time.Duration
}

func (i Info) times(of string) Times {
	return Times{Count: i.Int(of + ".count"), Sum: i.nanoseconds(of + ".sum_ns"),
		Max: i.nanoseconds(of + ".max_ns"), P50: i.nanoseconds(of + ".p50_ns"),
		P99: i.nanoseconds(of + ".p99_ns")}
}

// Stats asks nobody.
func (c *Client) Stats() (Stats, error) {
	i, err := c.local("stats", func(handle cdlock.Client, ret *cdlock.Info, why *cdlock.Error) cdlock.Dlock_err {
		return cdlock.Dlock_client_stats(handle, ret, why)
	})
	if err != nil {
		return Stats{}, err
	}
	return Stats{
		Grants: i.Int("grants"), Waits: i.Int("waits"), Timeouts: i.Int("timeouts"),
		Cancels: i.Int("cancels"), Releases: i.Int("releases"),
		ReleasesFailed: i.Int("releases_failed"), Renewals: i.Int("renewals"),
		RenewalsFailed: i.Int("renewals_failed"), Suspects: i.Int("suspects"),
		Losses: i.Int("losses"), Commands: i.Int("commands"), BytesSent: i.Int("bytes_sent"),
		BytesReceived: i.Int("bytes_received"), Reconnects: i.Int("reconnects"),
		Wait: i.times("wait"), Hold: i.times("hold"), Info: i,
	}, nil
}

// Metrics is what the client counts and does now, for Prometheus: OpenMetrics text. It asks nobody.
// The module dlockmetrics has a collector.
func (c *Client) Metrics() (string, error) {
	handle, err := c.enter("metrics", "")
	if err != nil {
		return "", err
	}
	defer c.life.RUnlock()
	return metrics(handle)
}

// Metrics is the same of all clients of this process, on one page.
func Metrics() (string, error) { return metrics(0) }

func metrics(of cdlock.Client) (string, error) {
	var text uintptr
	var why cdlock.Error
	if code := cdlock.Dlock_client_metrics(of, &text, &why); code != cdlock.DLOCK_OK {
		return "", failureOf("metrics", "", code, why)
	}
	defer cdlock.Cdlock_text_free(text)
	return strings.Clone(cdlock.Cdlock_text(text)), nil
}

// Features is what this service, as configured, can do: backend, layout, class, tokens, fair,
// handoff, revoke, extend, keep, and kinds.mutex and so on.
func (c *Client) Features() (Info, error) {
	return c.local("features", func(handle cdlock.Client, ret *cdlock.Info, why *cdlock.Error) cdlock.Dlock_err {
		return cdlock.Dlock_client_features(handle, ret, why)
	})
}

// Settings is what the client goes by, by key as in docs/reference/settings.md: the defaults, the URL
// over them, and options over both. A secret is "***", or empty where there is none.
func (c *Client) Settings() (Info, error) {
	return c.local("settings", func(handle cdlock.Client, ret *cdlock.Info, why *cdlock.Error) cdlock.Dlock_err {
		return cdlock.Dlock_client_settings(handle, ret, why)
	})
}

// Settings is what the lock goes by, of what may be said of one lock: its options over its client's.
// A [Multi] has none of its own: [ErrUnsupported].
func (l *lock) Settings() (Info, error) {
	host := l.host()
	if host == nil {
		return nil, invalid("settings", l.Name(), "the lock is nil, or it has no client")
	}
	host.gate <- struct{}{}
	defer func() { <-host.gate }()
	handle, wrong := l.open("settings")
	if wrong != nil {
		return nil, wrong
	}
	defer cdlock.Dlock_lock_free(handle)
	var info cdlock.Info
	var why cdlock.Error
	if code := cdlock.Dlock_lock_settings(handle, &info, &why); code != cdlock.DLOCK_OK {
		return nil, failureOf("settings", l.Name(), code, why)
	}
	return takeInfo(info), nil
}

func (c *Client) local(what string,
	call func(cdlock.Client, *cdlock.Info, *cdlock.Error) cdlock.Dlock_err) (Info, error) {
	handle, err := c.enter(what, "")
	if err != nil {
		return nil, err
	}
	defer c.life.RUnlock()
	var info cdlock.Info
	var why cdlock.Error
	if code := call(handle, &info, &why); code != cdlock.DLOCK_OK {
		return nil, failureOf(what, "", code, why)
	}
	return takeInfo(info), nil
}
