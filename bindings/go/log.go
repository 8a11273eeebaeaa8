package dlock

import (
	"context"
	"log/slog"
	"runtime"

	"github.com/libdlock/libdlock/bindings/go/internal/cdlock"
)

// The least urgent lines that the logger wants.
func logLevel(logger *slog.Logger) string {
	if logger == nil {
		return "off"
	}
	ctx := context.Background()
	switch {
	case logger.Enabled(ctx, slog.LevelDebug):
		return "debug"
	case logger.Enabled(ctx, slog.LevelInfo):
		return "info"
	case logger.Enabled(ctx, slog.LevelWarn):
		return "warn"
	}
	return "error"
}

var levels = map[cdlock.Dlock_level]slog.Level{
	cdlock.DLOCK_LOG_ERROR: slog.LevelError,
	cdlock.DLOCK_LOG_WARN:  slog.LevelWarn,
	cdlock.DLOCK_LOG_INFO:  slog.LevelInfo,
	cdlock.DLOCK_LOG_DEBUG: slog.LevelDebug,
}

// An event of the client's own: a line, a connection, or lines that were dropped.
func (c *Client) log(what cdlock.Dlock_what, event cdlock.Event) {
	text, ctx := cdlock.Dlock_event_text(event), context.Background()
	switch what {
	case cdlock.DLOCK_EVENT_LOG:
		level, known := levels[cdlock.Dlock_level(cdlock.Dlock_event_token(event))]
		if !known {
			level = slog.LevelInfo
		}
		c.logger.Log(ctx, level, "dlock: "+text, "url", c.url)
	case cdlock.DLOCK_EVENT_CONNECTION:
		if code := cdlock.Dlock_event_code(event); code != cdlock.DLOCK_OK {
			c.logger.Warn("dlock: disconnected", "url", c.url, "why", text,
				"code", cdlock.Dlock_errname(code))
			return
		}
		c.logger.Info("dlock: connected", "url", c.url, "server", text)
	case cdlock.DLOCK_EVENT_OVERFLOW:
		c.logger.Warn("dlock: log lines were dropped", "url", c.url)
	}
}

// A hold that is dropped without a release is a leak. It is told, and nothing more: whoever still uses
// its context mustn't lose the lock to the garbage collector.
func (h *Hold) warnIfDropped() runtime.Cleanup {
	return runtime.AddCleanup(h, func(d dropped) {
		if d.logger == nil {
			d.logger = slog.Default()
		}
		d.logger.Warn("dlock: a hold was dropped without a release: it is kept until its client is closed",
			"lock", d.name)
	}, dropped{h.client.logger, h.name})
}

type dropped struct {
	logger *slog.Logger
	name   string
}
