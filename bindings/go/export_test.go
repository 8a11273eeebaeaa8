package dlock

// Pending is how many goroutines wait for an operation of this client's.
func Pending(c *Client) int64 { return c.waiting.Load() }
