// Package testredis starts a redis-server for a test, on a free port of the loopback interface.
package testredis

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Server is one redis-server.
type Server struct {
	Port    int
	Process *os.Process
}

// Start ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	for range 5 {
		if s := start(t); s != nil {
			return s
		}
	}
	t.Fatal("redis-server ends")
	return nil
}

// Nil when it ends instead of serving: somebody else got the port meanwhile.
func start(t testing.TB) *Server {
	t.Helper()
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := probe.Addr().(*net.TCPAddr).Port
	if err := probe.Close(); err != nil {
		t.Fatal(err)
	}
	server := exec.Command("redis-server", "--bind", "127.0.0.1", "--port", fmt.Sprint(port),
		"--save", "", "--appendonly", "no", "--dir", t.TempDir())
	if err := server.Start(); err != nil {
		t.Fatalf("redis-server: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = server.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = server.Process.Kill() // it may have been killed by the test
		<-ended
	})
	s := &Server{Port: port, Process: server.Process}
	itself := fmt.Sprintf("process_id:%d\r", server.Process.Pid)
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if reply, err := s.ask("INFO", "server"); err == nil && strings.Contains(reply, itself) {
			return s
		}
		select {
		case <-ended:
			return nil
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Fatal("redis-server doesn't answer")
	return nil
}

// URL is where it is, with settings: "redis.layout=string".
func (s *Server) URL(settings ...string) string {
	return fmt.Sprintf("redis://127.0.0.1:%d?%s", s.Port, strings.Join(settings, "&"))
}

// Ask sends one command on a connection of its own; returns the first line of the answer.
func (s *Server) Ask(words ...string) (string, error) {
	reply, err := s.ask(words...)
	line, _, _ := strings.Cut(reply, "\r\n")
	return line, err
}

// What comes first of the answer.
func (s *Server) ask(words ...string) (string, error) {
	link, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port), 5*time.Second)
	if err != nil {
		return "", err
	}
	defer link.Close()
	if err := link.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(link, "*%d\r\n", len(words)); err != nil {
		return "", err
	}
	for _, word := range words {
		if _, err := fmt.Fprintf(link, "$%d\r\n%s\r\n", len(word), word); err != nil {
			return "", err
		}
	}
	reply := make([]byte, 4096)
	n, err := link.Read(reply)
	return string(reply[:n]), err
}
