package peer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider/toolserver"
)

// Limits of child processes.
const (
	defaultProcesses = 16               // of a command
	healthyTime      = 30 * time.Second // after which a process counts as working
	longCrashPause   = 2 * time.Minute
	writeTime        = 10 * time.Second // that a process may take to read a message
	endTime          = 2 * time.Second  // that a process has to end when asked, for each way of asking
	maxStderrLine    = 4 << 10
	maxStderrLines   = 1000 // of a process that are logged at level debug
)

// Command is a program that serves tools by its standard input and output. Only the settings
// of the node have commands.
type Command struct {
	Path string // of the program; no shell is involved
	Args []string
	// Env is the environment, in addition to PATH, and to HOME, which is an empty folder.
	Env map[string]secret.String
	Dir string // in which it runs; empty is HOME
	// MaxProcesses is how many run at the same time. Zero is 16.
	MaxProcesses int
}

// process is a child process of a server and a credential.
type process struct {
	peers   *Peers
	server  *toolserver.Server
	command Command
	mux     *mux
	stdin   *os.File
	input   chan struct{} // holds a value while a message is written

	ready   chan struct{} // closed when version or failure is set
	version string
	result  []byte // of initialize
	failure error
}

// openProcess returns a session of the process of a server and credential, which is started
// if it does not run.
func (p *Peers) openProcess(ctx context.Context, s *toolserver.Server, c Credential) (Session, []byte, error) {
	pr, failure := p.startProcess(s, c)
	if failure != nil {
		return Session{}, nil, failure
	}
	select {
	case <-pr.ready:
	case <-ctx.Done():
		return Session{}, nil, &Failure{Kind: Cancelled, Unsent: true, Reason: "the call was cancelled", Err: context.Cause(ctx)}
	}
	if pr.failure != nil {
		return Session{}, nil, pr.failure
	}
	return Session{ID: pr.mux.newSession(), Version: pr.version}, pr.result, nil
}

// startProcess returns the process of a server and credential, and starts it if needed.
func (p *Peers) startProcess(s *toolserver.Server, c Credential) (*process, *Failure) {
	key, command, n := keyOf(s, c), p.commands[s.Command], &p.connections
	n.mu.Lock()
	defer n.mu.Unlock()
	if pr := n.processes[key]; pr != nil && pr.mux.failure() == nil {
		return pr, nil
	}
	limit := command.MaxProcesses
	if limit <= 0 {
		limit = defaultProcesses
	}
	if n.countProcesses(s.Command) >= limit && !n.endIdleProcess(s.Command) {
		return nil, &Failure{Kind: Unavailable, Unsent: true, Wait: time.Second,
			Reason: "as many processes of the tool server run as may; try again later"}
	}
	if failure := p.breakers.of(s).allow(time.Now()); failure != nil {
		return nil, failure
	}
	pr := &process{peers: p, server: s, command: command, input: make(chan struct{}, 1), ready: make(chan struct{})}
	pr.mux = p.newMux(key, newID(), true)
	pr.mux.write = pr.write
	if n.processes == nil {
		n.processes = map[eraKey]*process{}
	}
	n.processes[key] = pr
	p.running.Go(pr.run)
	return pr, nil
}

// countProcesses returns how many processes of a command run. mu must be held.
func (c *connections) countProcesses(command string) (n int) {
	for key := range c.processes {
		if key.address == command {
			n++
		}
	}
	return n
}

// endIdleProcess ends a process of a command that no call uses, and reports whether there was
// one. It is not included in their number any more. mu must be held.
func (c *connections) endIdleProcess(command string) bool {
	for key, pr := range c.processes {
		if key.address != command {
			continue
		}
		if ended, _ := pr.mux.endIfIdle(time.Now(), time.Second); ended {
			delete(c.processes, key)
			return true
		}
	}
	return false
}

// run runs the process until it ends, or is not needed any more.
func (pr *process) run() {
	p, b := pr.peers, pr.peers.breakers.of(pr.server)
	began := time.Now()
	err := pr.serve(b)
	pr.mux.end(&Failure{Kind: Unreachable, Reason: "the process of the tool server ended"})
	p.connections.remove(pr.mux)
	p.connections.mu.Lock()
	if p.connections.processes[pr.mux.key] == pr {
		delete(p.connections.processes, pr.mux.key)
	}
	p.connections.mu.Unlock()
	if err == nil {
		b.release()
		pr.fail(sessionLost())
		return
	}
	f := &Failure{Kind: Unreachable, Unsent: true, Reason: "the process of the tool server ended by itself", Err: err}
	if e, ok := errors.AsType[*Failure](err); ok {
		f = e
	}
	b.report(false, f, time.Now())
	p.logger.Warn("process of a tool server ended by itself", "server", pr.server.Slug,
		"ran", time.Since(began).Round(time.Millisecond), "err", f.Reason)
	pr.fail(f)
}

// fail ends the waiting for a process that has not begun its session.
func (pr *process) fail(f *Failure) {
	select {
	case <-pr.ready:
	default:
		pr.failure = f
		close(pr.ready)
	}
}

// serve starts the process, begins its session and waits for its end. The error is nil if the
// gateway ended it.
func (pr *process) serve(b *breaker) error {
	home, err := os.MkdirTemp("", "modelgate-tool-*")
	if err != nil {
		return startFailure(err)
	}
	defer os.RemoveAll(home)
	c := pr.newCommand(home)
	pipes, err := connectPipes(c)
	if err != nil {
		return startFailure(err)
	}
	defer pipes.close()
	runtime.LockOSThread() // until the process has ended, which would end with the thread
	defer runtime.UnlockOSThread()
	if err := c.Start(); err != nil {
		return startFailure(err)
	}
	pipes.closeTheirs()
	pr.stdin = pipes.stdin
	exited, read, logged := make(chan struct{}), make(chan error, 1), make(chan struct{})
	go func() { c.Wait(); close(exited) }()
	go func() { read <- pr.read(pipes.stdout) }()
	go func() { defer close(logged); pr.logStderr(pipes.stderr) }()
	defer func() {
		endProcess(c, pipes.stdin, exited)
		pipes.stdout.SetReadDeadline(time.Now()) // what has left the group may hold it
		pipes.stderr.SetReadDeadline(time.Now())
		<-logged
	}()
	greeted := make(chan error, 1)
	go func() { greeted <- pr.greet() }()
	healthy := time.NewTimer(healthyTime)
	defer healthy.Stop()
	idle := make(chan struct{})
	for {
		select {
		case err := <-greeted:
			if err != nil {
				return err
			}
			b.release()
			pr.peers.connections.add(pr.mux)
			close(pr.ready)
			go func() { defer close(idle); pr.peers.watchIdle(pr.mux) }() // ends with the mux
		case <-healthy.C:
			b.report(true, nil, time.Now())
		case <-idle:
			return pr.mux.fault()
		case <-pr.peers.stop:
			return nil
		case err := <-read:
			return err
		case <-exited:
			select {
			case <-read: // what it wrote before
			case <-time.After(endTime):
			}
			return errors.New("the process ended")
		}
	}
}

func startFailure(err error) *Failure {
	return &Failure{Kind: Unavailable, Unsent: true, Reason: "the process of the tool server cannot be started; an administrator finds the reason in the log", Err: err}
}

// newCommand returns the command with nothing of the environment of the gateway but PATH.
func (pr *process) newCommand(home string) *exec.Cmd {
	c := exec.Command(pr.command.Path, pr.command.Args...)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
	for name, value := range pr.command.Env {
		c.Env = append(c.Env, name+"="+value.Reveal())
	}
	if c.Dir = pr.command.Dir; c.Dir == "" {
		c.Dir = home
	}
	setGroup(c)
	endWithThread(c)
	return c
}

// greet begins the session of the process. No capabilities of a client are declared: several
// clients use the process, and what it asks could not be passed to the right one.
func (pr *process) greet() error {
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	version, result, err := pr.peers.greet(ctx, pr.mux, pr.server, Client{})
	pr.version, pr.result = version, result
	return err
}

// endProcess ends a process and all that it has started: it closes its input, then asks, then
// kills.
func endProcess(c *exec.Cmd, stdin *os.File, exited <-chan struct{}) {
	stdin.Close()
	for _, ask := range []func(*exec.Cmd){func(*exec.Cmd) {}, askGroup} {
		ask(c)
		select {
		case <-exited:
			killGroup(c)
			return
		case <-time.After(endTime):
		}
	}
	killGroup(c)
	<-exited
}

// write sends a message on a line. A process that does not read it is ended.
func (pr *process) write(ctx context.Context, text []byte) *Failure {
	select {
	case pr.input <- struct{}{}:
	case <-ctx.Done():
		return &Failure{Kind: Cancelled, Unsent: true, Reason: "the call was cancelled", Err: context.Cause(ctx)}
	case <-pr.mux.done:
		return sessionLost()
	}
	defer func() { <-pr.input }()
	line := make([]byte, 0, len(text)+1)
	for _, b := range text { // line breaks occur between the tokens of JSON only
		if b == '\n' || b == '\r' {
			b = ' '
		}
		line = append(line, b)
	}
	pr.stdin.SetWriteDeadline(time.Now().Add(writeTime))
	n, err := pr.stdin.Write(append(line, '\n'))
	if err == nil {
		return nil
	}
	f := &Failure{Kind: Unreachable, Unsent: n == 0, Reason: "the process of the tool server does not read messages", Err: err}
	pr.mux.end(f)
	return f
}

// read passes on the lines that the process writes.
func (pr *process) read(from io.Reader) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 16<<10), pr.peers.maxMessage)
	for lines.Scan() {
		if answer := pr.mux.receive(lines.Bytes()); answer != nil {
			pr.peers.background(func() {
				ctx, stop := context.WithTimeout(context.Background(), cancelTime)
				defer stop()
				pr.write(ctx, answer)
			})
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		f := invalid(0, "a message of the tool server is larger than the limit", lines.Err())
		pr.mux.end(f)
		return f
	}
	return errors.New("the process closed its output")
}

// logStderr logs what a process writes to its standard error: at level debug as it is, and
// how many lines otherwise, since they may hold contents of calls.
func (pr *process) logStderr(from io.Reader) {
	in := bufio.NewReaderSize(from, maxStderrLine)
	lines, begins := 0, true
	debug := pr.peers.logger.Enabled(context.Background(), slog.LevelDebug)
	for {
		line, isPrefix, err := in.ReadLine()
		if err != nil {
			break
		}
		if begins {
			lines++
			if debug && lines <= maxStderrLines {
				pr.peers.logger.Debug("tool server", "server", pr.server.Slug, "stderr", string(bytes.ToValidUTF8(line, []byte("?"))))
			}
		}
		begins = !isPrefix
	}
	if lines > 0 {
		pr.peers.logger.Info("process of a tool server wrote to standard error", "server", pr.server.Slug, "lines", lines)
	}
}

// pipes are the ends of the pipes to a process.
type pipes struct{ stdin, stdout, stderr, theirIn, theirOut, theirErr *os.File }

// connectPipes makes the pipes of a command. They are files, so that waiting for the process
// does not wait for those who have inherited them.
func connectPipes(c *exec.Cmd) (p pipes, err error) {
	for _, pair := range []struct{ read, write **os.File }{{&p.theirIn, &p.stdin}, {&p.stdout, &p.theirOut}, {&p.stderr, &p.theirErr}} {
		if *pair.read, *pair.write, err = os.Pipe(); err != nil {
			p.close()
			return p, err
		}
	}
	c.Stdin, c.Stdout, c.Stderr = p.theirIn, p.theirOut, p.theirErr
	return p, nil
}

func (p *pipes) closeTheirs() {
	for _, f := range []*os.File{p.theirIn, p.theirOut, p.theirErr} {
		f.Close() // also if it is nil, or closed
	}
}

func (p *pipes) close() {
	p.closeTheirs()
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
		f.Close()
	}
}
