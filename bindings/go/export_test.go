package dlock

// Waiting is how many goroutines wait for an operation of this client's.
func Waiting(c *Client) int64 { return c.waiting.Load() }
