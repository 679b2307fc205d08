package conformance

import (
	"bufio"
	"bytes"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"modelgate/internal/testing/programtest"
)

// tailing is a `modelgate tail` that runs.
type tailing struct {
	process *exec.Cmd
	lines   *bufio.Reader
	errText *bytes.Buffer
}

func (g *gateway) tail(t *testing.T, args ...string) *tailing {
	t.Helper()
	w := &tailing{process: exec.CommandContext(t.Context(), program, append([]string{"tail", "--url", g.root}, args...)...), errText: new(bytes.Buffer)}
	w.process.Env = programtest.Env("MODELGATE_BOOTSTRAP_KEY=" + bootstrapKey)
	w.process.Stderr = w.errText
	out, err := w.process.StdoutPipe()
	if err == nil {
		err = w.process.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	w.lines = bufio.NewReader(out)
	return w
}

// line returns the next line that it prints.
func (w *tailing) line(t *testing.T) string {
	t.Helper()
	line, err := w.lines.ReadString('\n')
	if err != nil {
		w.process.Wait()
		t.Fatalf("tail ended after %q: %v; it said %s", line, err, w.errText)
	}
	return strings.TrimSpace(line)
}

// end sends a signal, or only waits, and returns what else was printed.
func (w *tailing) end(t *testing.T, signal syscall.Signal) (rest string, code int) {
	t.Helper()
	if signal != 0 {
		w.process.Process.Signal(signal)
	}
	b, err := io.ReadAll(w.lines)
	if err != nil {
		t.Fatal(err)
	}
	w.process.Wait()
	return string(b), w.process.ProcessState.ExitCode()
}

func TestExchangesAreWatchedAsTheyEnd(t *testing.T) {
	p := fleet(t, withStatuses(503), nil)
	g := launchFor(t, saved(p), "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	chat := modelRoutes[0]
	ask := func(model string, header ...string) {
		t.Helper()
		g.entry(t, g.do(t, "POST", chat.path, strings.Replace(chat.body, "m-1", model, 1), append([]string{"x-gateway-api-key", bootstrapKey}, header...)...))
	}
	first, second := []string{"x-gateway-provider", "@first"}, []string{"x-gateway-provider", "@second"}
	ask("before", second...)
	ask("broken", first...)
	// What was comes when watching has begun: nothing is missed from there on.
	all, failed := g.tail(t, "--lines", "2"), g.tail(t, "--status", "5xx", "--explain", "--lines", "1")
	tells := func(w *tailing, parts ...string) {
		t.Helper()
		line := w.line(t)
		for _, part := range parts {
			if !strings.Contains(line, part) {
				t.Errorf("told %q, want %q in it", line, parts)
			}
		}
	}
	explained := func(model string) {
		t.Helper()
		tells(failed, "  503  @first (openai-compatible)  "+model+"  ")
		tells(failed, " chat")
		tells(failed, "→ ", "@first (openai-compatible), 503 in ")
	}
	tells(all, "  200  @second (openai-compatible)  before  ")
	tells(all, "  503  @first (openai-compatible)  broken  ")
	explained("broken")
	ask("fine", second...)
	ask("moved", "x-gateway-config", "pc-main")
	ask("again", first...)
	tells(all, "  200  @second (openai-compatible)  fine  ", "ms")
	tells(all, "  200  @second (openai-compatible)  moved  ", "  +1")
	tells(all, "  503  @first (openai-compatible)  again  ")
	explained("again")
	if rest, code := failed.end(t, syscall.SIGINT); code != 0 || rest != "" {
		t.Errorf("after Ctrl-C: exit code %d, %q, %s; want 0", code, rest, failed.errText)
	}
	if out, errText, code := command(t, "tail", "--url", g.root, "--key", bootstrapKey, "--follow=false", "--provider", "openai-compatible", "--model", "moved", "--explain"); code != 0 ||
		strings.Count(out, "  moved  ") != 1 || !strings.Contains(out, "→ config.targets[0]: @first (openai-compatible), 503 in ") || !strings.Contains(out, "→ config.targets[1]: @second (openai-compatible), 200 in ") {
		t.Errorf("without following: exit code %d, %q %s", code, out, errText)
	}
	if _, errText, code := command(t, "tail", "--url", g.root, "--key", "mg-nobody"); code != 1 || !strings.Contains(errText, "401") {
		t.Errorf("with a wrong key: exit code %d, %s", code, errText)
	}
	g.again(t)
	if rest, code := all.end(t, 0); code != 1 || rest != "" || !strings.Contains(all.errText.String(), "the gateway ended the stream") {
		t.Errorf("when the gateway stops: exit code %d, %q, %s; want 1", code, rest, all.errText)
	}
}
