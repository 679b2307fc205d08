package peer_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/testing/waittest"
)

func TestProcessServesManyClients(t *testing.T) {
	s, o := mustStdio(t, "sdk")
	p := mustPeers(t, o)
	if era, err := p.Era(t.Context(), s, peer.Credential{}); era != peer.Legacy || err != nil {
		t.Errorf("Era = %d, %v", era, err)
	}
	first, second := mustOpen(t, p, s), mustOpen(t, p, s)
	if first.ID == second.ID || first.Version != peer.LegacyVersion {
		t.Errorf("sessions = %+v, %+v", first, second)
	}
	var all sync.WaitGroup
	for i, session := range []peer.Session{first, second, first, second} {
		all.Go(func() {
			call := legacyCall(s, session, "echo", fmt.Sprintf(`{"text":"%d"}`, i))
			call.Message = bytes.ReplaceAll(call.Message, []byte(`,"`), []byte(",\r\n\""))
			got, err := send(t.Context(), p, call)
			if err != nil || len(got) != 1 || !strings.Contains(got[0], fmt.Sprintf(`"text":"%d"`, i)) || !strings.Contains(got[0], `"id":7,`) {
				t.Errorf("Send = %q, %v", got, err)
			}
		})
	}
	all.Wait()
	user := peer.Credential{Key: "user"}
	third, _, err := p.Open(t.Context(), s, user, peer.Client{})
	if err != nil || len(starts(o)) != 2 {
		t.Errorf("Open with another credential: %v, %d processes, want 2", err, len(starts(o)))
	}
	if _, err := send(t.Context(), p, legacyCall(s, third, "echo", `{}`)); failureOf(t, err).Kind != peer.SessionLost {
		t.Errorf("Send in the session of another credential = %v", err)
	}
	p.Close()
	for _, pid := range starts(o) {
		if isAlive(pid) {
			t.Errorf("the process %d runs after Close", pid)
		}
	}
}

func TestProcessHasOnlyTheEnvironmentOfItsCommand(t *testing.T) {
	t.Setenv("GATEWAY_SECRET", "of-the-gateway")
	s, o := mustStdio(t, "sdk")
	p := mustPeers(t, o)
	got := mustSend(t, p, legacyCall(s, mustOpen(t, p, s), "environment", `{}`))[0]
	home := between(got, `HOME=`, `\n`)
	if strings.Contains(got, "of-the-gateway") || !strings.Contains(got, `PATH=`+os.Getenv("PATH")) || !strings.Contains(got, "folder="+home) {
		t.Errorf("the environment is %s", got)
	}
	if files, err := os.ReadDir(home); err != nil || len(files) > 0 {
		t.Errorf("HOME has %d files, %v, want an empty folder", len(files), err)
	}
	p.Close()
	if _, err := os.Stat(home); !os.IsNotExist(err) {
		t.Errorf("HOME is left: %v", err)
	}
}

func TestCancelReachesTheCallOfItsClientOnly(t *testing.T) {
	s, o := mustStdio(t, "sdk")
	p := mustPeers(t, o)
	first, second := mustOpen(t, p, s), mustOpen(t, p, s)
	ctx, leave := context.WithCancel(t.Context())
	var replies []peer.Reply
	for _, c := range []struct {
		session peer.Session
		ctx     context.Context
	}{{first, ctx}, {second, t.Context()}} {
		reply, err := p.Send(c.ctx, legacyCall(s, c.session, "slow", `{"text":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Close()
		if text, err := reply.Next(); err != nil || !strings.Contains(string(text), `"progressToken":"p-7"`) {
			t.Fatalf("Next = %s, %v, want progress with the token of the caller", text, err)
		}
		replies = append(replies, reply)
	}
	// By a message of the other client: it has the same id.
	mustSend(t, p, &peer.Call{Server: s, Session: second, Method: "notifications/cancelled", Notify: true,
		Message: []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)})
	mustSend(t, p, legacyCall(s, first, "left", `{}`))
	leave()
	if _, err := replies[0].Next(); failureOf(t, err).Kind != peer.Cancelled {
		t.Errorf("Next = %v: the call of the first client must not be ended by the second", err)
	}
	replies[0].Close()
	mustSend(t, p, legacyCall(s, second, "left", `{}`))
}

func TestProcessIsNotTheClientOfItsClients(t *testing.T) {
	s, o := mustStdio(t, "ask")
	p := mustPeers(t, o)
	session := mustOpen(t, p, s)
	got := mustSend(t, p, legacyCall(s, session, "x", `{}`))
	if len(got) != 1 || !strings.Contains(got[0], `"result":{"jsonrpc":"2.0","id":"q","error":{"code":-32601`) {
		t.Errorf("Send = %q, want a refused request of the server", got)
	}
}

func TestLogsOfAProcessReachOnlyTheirCaller(t *testing.T) {
	s, o := mustStdio(t, "chatty")
	p := mustPeers(t, o)
	first, second := mustOpen(t, p, s), mustOpen(t, p, s)
	listener, err := p.Listen(t.Context(), &peer.Call{Server: s, Session: second})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if got := mustSend(t, p, legacyCall(s, first, "x", `{}`)); len(got) != 2 || !strings.Contains(got[0], `"data":"of `) {
		t.Errorf("the only call received %q, want its log and its response", got)
	}
	pending, err := p.Send(t.Context(), legacyCall(s, second, "slow", `{}`))
	if err != nil {
		t.Fatal(err)
	}
	defer pending.Close()
	pending.Next() // its own log
	if got := mustSend(t, p, legacyCall(s, first, "x", `{}`)); len(got) != 1 {
		t.Errorf("one of two calls received %q, want only its response", got)
	}
	for range 3 {
		if text, err := listener.Next(); err != nil || !strings.Contains(string(text), "list_changed") {
			t.Errorf("the listener received %s, %v, want no logs", text, err)
		}
	}
}

func TestProcessThatExitsIsStartedAgainAfterPauses(t *testing.T) {
	s, o := mustStdio(t, "exit")
	p := mustPeers(t, o)
	session := mustOpen(t, p, s)
	if got := mustSend(t, p, legacyCall(s, session, "x", `{}`)); len(got) != 1 {
		t.Errorf("Send = %q: the response before the end is lost", got)
	}
	waittest.Until(t, "the end is noticed", func() bool { return p.State(s.ID).Condition == peer.Broken })
	_, err := send(t.Context(), p, legacyCall(s, session, "x", `{}`))
	if f := failureOf(t, err); f.Kind != peer.SessionLost || !f.Unsent {
		t.Errorf("Send after the end = %+v", f)
	}
	_, _, err = p.Open(t.Context(), s, peer.Credential{}, peer.Client{})
	if f := failureOf(t, err); f.Kind != peer.Unavailable || f.Wait <= 0 || len(starts(o)) != 1 {
		t.Errorf("Open at once = %+v, %d processes", f, len(starts(o)))
	}
	waittest.Until(t, "it is started again", func() bool {
		_, _, err := p.Open(t.Context(), s, peer.Credential{}, peer.Client{})
		return err == nil
	})
}

func TestCommandThatCrashesIsNotRunInALoop(t *testing.T) {
	for _, mode := range []string{"crash", "missing"} {
		s, o := mustStdio(t, mode)
		log := &lockedBuffer{}
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
		if mode == "missing" {
			o.Commands = map[string]peer.Command{"child": {Path: "/nonexistent/program"}}
		}
		p := mustPeers(t, o)
		for range 50 {
			_, _, err := p.Open(t.Context(), s, peer.Credential{}, peer.Client{})
			if f := failureOf(t, err); f.Kind != peer.Unreachable && f.Kind != peer.Unavailable || !f.Unsent {
				t.Fatalf("%s: Open = %+v", mode, f)
			}
		}
		if n := len(starts(o)); mode == "crash" && (n < 1 || n > 3) {
			t.Errorf("%d processes were started by 50 calls at once", n)
		}
		p.Close()
		if strings.Contains(log.String(), "secret") || mode == "crash" && !strings.Contains(log.String(), "lines=1") {
			t.Errorf("the log is %s: want the number of lines, not what they say", log.String())
		}
	}
}

func TestStandardErrorIsLoggedAtLevelDebug(t *testing.T) {
	s, o := mustStdio(t, "crash")
	log := &lockedBuffer{}
	o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	p := mustPeers(t, o)
	p.Open(t.Context(), s, peer.Credential{}, peer.Client{})
	p.Close()
	if !strings.Contains(log.String(), "crashing with a secret") {
		t.Errorf("the log is %s", log.String())
	}
}

func TestMessagesOfProcessesAreBounded(t *testing.T) {
	s, o := mustStdio(t, "huge")
	o.MaxMessage = 64 << 10
	p := mustPeers(t, o)
	_, err := send(t.Context(), p, legacyCall(s, mustOpen(t, p, s), "x", `{}`))
	if f := failureOf(t, err); f.Kind != peer.Invalid || f.Unsent {
		t.Errorf("Send = %+v, want Invalid", f)
	}
}

func TestProcessesEndWithAllThatTheyStarted(t *testing.T) {
	s, o := mustStdio(t, "family")
	p := mustPeers(t, o)
	got := mustSend(t, p, legacyCall(s, mustOpen(t, p, s), "x", `{}`))
	pid, err := strconv.Atoi(between(got[0], `"pid":`, `}`))
	if err != nil || !isAlive(pid) {
		t.Fatalf("Send = %q", got)
	}
	p.Close()
	waittest.Until(t, "the process of the process ends", func() bool { return !isAlive(pid) })
}

func TestUnusedProcessesEnd(t *testing.T) {
	s, o := mustStdio(t, "sdk")
	o.IdleEnd = 30 * time.Millisecond
	p := mustPeers(t, o)
	session := mustOpen(t, p, s)
	waittest.Until(t, "the process ends", func() bool { return !isAlive(starts(o)[0]) })
	_, err := send(t.Context(), p, legacyCall(s, session, "echo", `{}`))
	if f := failureOf(t, err); f.Kind != peer.SessionLost || !f.Unsent || p.State(s.ID).Condition != peer.Working {
		t.Errorf("Send = %+v, the state is %+v", f, p.State(s.ID))
	}
	mustOpen(t, p, s)
}

func TestProcessesOfACommandAreLimited(t *testing.T) {
	s, o := mustStdio(t, "sdk")
	c := o.Commands["child"]
	c.MaxProcesses = 1
	o.Commands["child"] = c
	p := mustPeers(t, o)
	mustOpen(t, p, s)
	_, _, err := p.Open(t.Context(), s, peer.Credential{Key: "user"}, peer.Client{})
	if f := failureOf(t, err); f.Kind != peer.Unavailable || !f.Unsent || len(starts(o)) != 1 {
		t.Errorf("Open of a second process = %+v, %d processes", f, len(starts(o)))
	}
	waittest.Until(t, "the unused process makes room", func() bool {
		_, _, err := p.Open(t.Context(), s, peer.Credential{Key: "user"}, peer.Client{})
		return err == nil
	})
}

func TestCommandsAreThoseOfTheNode(t *testing.T) {
	s, o := mustStdio(t, "sdk")
	for _, command := range []string{"", "other", o.Commands["child"].Path} {
		at := *s
		at.Command = command
		p := mustPeers(t, o)
		_, _, err := p.Open(t.Context(), &at, peer.Credential{}, peer.Client{})
		if f := failureOf(t, err); f.Kind != peer.Unavailable || !f.Unsent || len(starts(o)) > 0 {
			t.Errorf("Open with the command %q = %+v", command, f)
		}
	}
	if _, _, err := mustPeers(t, peer.Options{}).Open(t.Context(), s, peer.Credential{}, peer.Client{}); failureOf(t, err).Kind != peer.Unavailable {
		t.Errorf("Open on a node without commands = %v", err)
	}
}

// A client must not get at calls of others, whose ids and tokens it may guess.
func TestClientsOfAProcessCannotReachCallsOfOthers(t *testing.T) {
	s, o := mustStdio(t, "sdk")
	p := mustPeers(t, o)
	victim, attacker := mustOpen(t, p, s), mustOpen(t, p, s)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	reply, err := p.Send(ctx, legacyCall(s, victim, "slow", `{"text":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Close()
	if _, err := reply.Next(); err != nil { // its progress
		t.Fatal(err)
	}
	for n := range 12 {
		for _, message := range []string{
			`{"jsonrpc":"2.0","id":1,"i\u0064":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"evil"}}}`,
			`{"jsonrpc":"2.0","id":1,"id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"evil"}}}`,
		} {
			_, err := send(t.Context(), p, &peer.Call{Server: s, Session: attacker, Message: fmt.Appendf(nil, message, n)})
			if f := failureOf(t, err); f.Kind != peer.Refused || !f.Unsent {
				t.Fatalf("Send = %+v", f)
			}
		}
		for _, message := range []string{
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"requestI\u0064":%d}}`,
			`{"jsonrpc":"2.0","method":"notifications/other","params":{"requestId":%d}}`,
		} {
			mustSend(t, p, &peer.Call{Server: s, Session: attacker, Notify: true, Message: fmt.Appendf(nil, message, n)})
		}
		call := legacyCall(s, attacker, "progress", fmt.Sprintf(`{"token":%d}`, n))
		mustSend(t, p, call)
	}
	mustSend(t, p, legacyCall(s, victim, "echo", `{"text":"x"}`)) // all before has arrived
	leave()
	if text, err := reply.Next(); err == nil || failureOf(t, err).Kind != peer.Cancelled {
		t.Errorf("Next of the victim = %s, %v, want nothing until the call is cancelled", text, err)
	}
}

func TestNotificationsOfOneClientDoNotReachASharedProcess(t *testing.T) {
	s, o := mustStdio(t, "chatty")
	log := &lockedBuffer{}
	o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	p := mustPeers(t, o)
	session := mustOpen(t, p, s)
	mustSend(t, p, &peer.Call{Server: s, Session: session, Notify: true, Message: []byte(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)})
	call := legacyCall(s, session, "x", `{}`)
	call.Message = bytes.ReplaceAll(call.Message, []byte(`,"`), []byte(",\r\n\""))
	mustSend(t, p, call)
	p.Close()
	text := log.String() // of what has no id, such as parts of messages on several lines
	if strings.Contains(text, "roots") || !strings.Contains(text, "notifications/initialized") || !strings.Contains(text, "lines=1") {
		t.Errorf("the process received %s", text)
	}
}
