package bench

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// redisServer is a Redis of a run, without persistence. A nil redisServer is none.
type redisServer struct {
	dir string
	cmd *exec.Cmd
}

// startRedis starts Redis or Valkey on a Unix socket, and returns nil if neither is
// installed.
func (r *run) startRedis(ctx context.Context) (*redisServer, error) {
	var program string
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		return nil, nil
	}
	dir, err := os.MkdirTemp("", "modelgate-bench-")
	if err != nil {
		return nil, err
	}
	s := &redisServer{dir: dir}
	s.cmd = exec.CommandContext(ctx, program, "--port", "0", "--unixsocket", s.socket(), "--save", "", "--appendonly", "no", "--dir", dir)
	if err := r.launch(simulatorJob, s.cmd); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	for began := time.Now(); ; {
		if _, err := s.info(); err == nil {
			return s, nil
		} else if time.Since(began) > patience {
			s.stop()
			return nil, fmt.Errorf("%s did not come up: %w", program, err)
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			s.stop()
			return nil, err
		}
	}
}

func (s *redisServer) socket() string { return filepath.Join(s.dir, "redis.sock") }

func (s *redisServer) url() string {
	if s == nil {
		return ""
	}
	return "unix://" + s.socket()
}

func (s *redisServer) stop() {
	if s == nil {
		return
	}
	s.cmd.Process.Kill()
	s.cmd.Wait()
	os.RemoveAll(s.dir)
}

// calls returns how many scripts Redis has run, 0 if that is unknown.
func (s *redisServer) calls() (n int64) {
	if s == nil {
		return 0
	}
	lines, _ := s.info()
	for _, line := range lines {
		name, figures, _ := strings.Cut(line, ":calls=")
		if name == "cmdstat_evalsha" || name == "cmdstat_eval" || name == "cmdstat_fcall" {
			count, _, _ := strings.Cut(figures, ",")
			i, _ := strconv.ParseInt(count, 10, 64)
			n += i
		}
	}
	return n
}

// info returns what Redis says about its commands.
func (s *redisServer) info() ([]string, error) {
	c, err := net.Dial("unix", s.socket())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte("INFO commandstats\r\nQUIT\r\n")); err != nil {
		return nil, err
	}
	var lines []string
	in := bufio.NewScanner(c)
	for in.Scan() {
		lines = append(lines, strings.TrimSpace(in.Text()))
	}
	return lines, in.Err()
}
