package deploy

import (
	"bufio"
	"crypto/x509"
	"debug/elf"
	"encoding/pem"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"modelgate/internal/simulator"
	"modelgate/internal/testing/waittest"
)

const hello = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`

// S-591: neither the image's settings nor the process have the user root.
func TestImageDoesNotRunAsRoot(t *testing.T) {
	t.Parallel()
	user, group, ok := strings.Cut(image.config.User, ":")
	for _, id := range []string{user, group} {
		if n, err := strconv.Atoi(id); !ok || err != nil || n < 10000 {
			t.Fatalf("the user of the image is %q, want two numbers that are of no user of a machine", image.config.User)
		}
	}
	volume := newVolume(t)
	g := start(t, volume)
	state, err := os.ReadFile("/proc/" + strconv.Itoa(g.process.Process.Pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nUid:\t" + strings.Repeat(user+"\t", 3) + user + "\n", "\nGid:\t" + strings.Repeat(group+"\t", 3) + group + "\n", "\nCapEff:\t0000000000000000\n"} {
		if !strings.Contains(string(state), want) {
			t.Errorf("the process is without %q:\n%s", want, state)
		}
	}
	info, err := os.Stat(filepath.Join(volume, "modelgate.db"))
	if err != nil || strconv.Itoa(int(info.Sys().(*syscall.Stat_t).Uid)) != user {
		t.Errorf("the database is not of the user %s: %v %v", user, info, err)
	}
}

func TestImageServesFromAReadOnlyRoot(t *testing.T) {
	t.Parallel()
	provider := httptest.NewServer(simulator.New(simulator.Options{}))
	defer provider.Close()
	volume := newVolume(t)
	g := start(t, volume)
	if got := status(g.url + "/ready"); got != http.StatusOK {
		t.Fatalf("/ready has the status %d", got)
	}
	resp := ask(t, http.DefaultClient, g.url, provider.URL, hello)
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `"chat.completion"`) {
		t.Fatalf("status %d, %v: %s", resp.StatusCode, err, body)
	}
	check := image.config.Healthcheck.Test
	if len(check) < 4 || check[0] != "CMD" || !slices.Contains(image.config.Env, "MODELGATE_ADMIN_LISTEN="+check[len(check)-1]) {
		t.Fatalf("the health check is %q, and the variables are %q", check, image.config.Env)
	}
	healthy := func() error {
		at := append(slices.Clone(check[1:len(check)-1]), strings.TrimPrefix(g.admin, "http://"))
		return inImage(t.Context(), volume, nil, at...).Run()
	}
	if err := healthy(); err != nil {
		t.Errorf("the health check of a gateway that serves fails: %v", err)
	}
	g.stop(t)
	if exit, ok := healthy().(*exec.ExitError); !ok || exit.ExitCode() != 1 {
		t.Errorf("the health check of a stopped gateway: %v, want the exit code 1", exit)
	}
}

// The first key is created at the first start of a volume, so it tells volumes apart.
func TestVolumeOutlivesTheContainer(t *testing.T) {
	t.Parallel()
	volume := newVolume(t)
	for range 2 {
		out, err := inImage(t.Context(), volume, nil, "/usr/bin/modelgate", "keys", "create", "--name", "k").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		start(t, volume).stop(t)
	}
	out, err := inImage(t.Context(), volume, nil, "/usr/bin/modelgate", "keys", "list").CombinedOutput()
	if err != nil || strings.Count(string(out), " k ") != 2 {
		t.Errorf("%v, want both keys:\n%s", err, out)
	}
}

// The stream has begun when the signal arrives, and ends after it as if there were none.
func TestImageDrainsOnItsStopSignal(t *testing.T) {
	t.Parallel()
	if image.config.StopSignal != "SIGTERM" {
		t.Fatalf("engines stop the image with %q", image.config.StopSignal)
	}
	last := make(chan bool)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, `data: {"id":"1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"begun"}}]}`+"\n\n")
		w.(http.Flusher).Flush()
		<-last
		io.WriteString(w, `data: {"id":"1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	defer provider.Close()
	defer func() { // also of a test that fails before
		select {
		case last <- true:
		default:
		}
	}()
	g := start(t, newVolume(t))
	resp := ask(t, http.DefaultClient, g.url, provider.URL, `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`)
	lines := bufio.NewReader(resp.Body)
	if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "begun") {
		t.Fatalf("status %d, %q, %v", resp.StatusCode, line, err)
	}
	g.process.Process.Signal(syscall.SIGTERM)
	waittest.Until(t, "the gateway accepts no more connections", func() bool { return status(g.url+"/ready") == 0 })
	waittest.Send(t, last, true, "the provider goes on")
	rest, err := io.ReadAll(lines)
	if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") || strings.Contains(string(rest), "error") {
		t.Errorf("the stream ends with %q, %v", rest, err)
	}
	if err := waittest.Receive(t, g.ended, "the end of the gateway"); err != nil {
		t.Errorf("the gateway ends with %v\n%s", err, g.errors)
	}
}

func TestImageHasFewFiles(t *testing.T) {
	t.Parallel()
	var files []string
	err := filepath.WalkDir(image.root, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, err = filepath.Rel(image.root, name)
			files = append(files, name)
		}
		return err
	})
	if want := []string{"etc/ssl/certs/ca-certificates.crt", "usr/bin/modelgate"}; err != nil || !slices.Equal(files, want) {
		t.Errorf("the image has the files %q (%v), want %q", files, err, want)
	}
	program, err := elf.Open(filepath.Join(image.root, "usr/bin/modelgate"))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if libraries, err := program.ImportedLibraries(); err != nil || len(libraries) > 0 || program.Section(".interp") != nil {
		t.Errorf("the program needs the libraries %q of the image (%v)", libraries, err)
	}
	text, err := os.ReadFile(filepath.Join(image.root, "etc/ssl/certs/ca-certificates.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if n := authorities(t, text); n < 100 {
		t.Errorf("the image has the certificates of %d authorities", n)
	}
}

// authorities returns the number of certificates in a file.
func authorities(t *testing.T, text []byte) (n int) {
	t.Helper()
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !c.IsCA {
			t.Fatalf("certificate %d: %v", n, err)
		}
		n++
	}
	return n
}

func TestImageIsSmallAndDescribed(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "pushed")
	mustOutput(t, "buildah", "push", "--quiet", image.name, "dir:"+folder)
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size < 10<<20 || size > 60<<20 {
		t.Errorf("a registry gets %d MB, want 60 at most", size>>20)
	}
	for name, want := range map[string]string{
		"version":  strings.TrimSpace(mustOutput(t, "../../tools/version.sh")),
		"revision": strings.TrimSpace(mustOutput(t, "git", "rev-parse", "HEAD")),
		"licenses": "Apache-2.0",
	} {
		if got := image.config.Labels["org.opencontainers.image."+name]; got != want {
			t.Errorf("the label %s is %q, want %q", name, got, want)
		}
	}
	committed := strings.TrimSpace(mustOutput(t, "git", "log", "-1", "--format=%cI"))
	created, err := time.Parse(time.RFC3339, image.config.Labels["org.opencontainers.image.created"])
	if at, _ := time.Parse(time.RFC3339, committed); err != nil || !at.Equal(created) {
		t.Errorf("the image was created at %v (%v), and the commit at %s", created, err, committed)
	}
	if _, ok := image.config.Volumes["/data"]; !ok {
		t.Errorf("the volumes are %v", image.config.Volumes)
	}
	container := strings.TrimSpace(mustOutput(t, "buildah", "from", "--pull-never", image.name)) // an engine adds files to it
	if got := mustOutput(t, "buildah", "run", "--isolation", "chroot", container, "--", "modelgate", "version"); !strings.HasPrefix(got, "modelgate ") {
		t.Errorf("the image says %q as its version", got)
	}
}

// The same commit gives the same files and the same settings: they do not depend on the time or
// the folder. The digest of the image does: Buildah writes names of its own into it.
func TestImagesAreReproducible(t *testing.T) {
	if _, err := buildImage(); err != nil {
		t.Fatal(err)
	}
	config, layers, err := describeImage()
	if err != nil || len(layers) != 1 || !slices.Equal(layers, image.layers) || !reflect.DeepEqual(config, image.config) {
		t.Errorf("the second image has the layers %q and %+v (%v), the first %q and %+v", layers, config, err, image.layers, image.config)
	}
}

func TestImageScriptRefusesWhatItCannotBuild(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ engine, platform, want string }{
		{"buildah", "windows/amd64", "unknown platform windows/amd64; use linux/amd64 or linux/arm64"},
		{"buildah", "amd64", "unknown platform amd64"},
		{"podman", "linux/amd64", "ENGINE must be docker or buildah, not podman"},
	} {
		cmd := exec.CommandContext(t.Context(), "../../tools/image.sh", tt.platform)
		cmd.Env = append(slices.Clone(image.env), "ENGINE="+tt.engine)
		out, err := cmd.CombinedOutput()
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 || !strings.HasPrefix(string(out), "image: "+tt.want) || strings.Count(string(out), "\n") != 1 {
			t.Errorf("%+v: %v, %s", tt, err, out)
		}
	}
}

// A company's own authority is one more file in the volume or a mount.
func TestImageTrustsAnAuthorityOfYours(t *testing.T) {
	t.Parallel()
	provider := httptest.NewTLSServer(simulator.New(simulator.Options{}))
	defer provider.Close()
	volume := newVolume(t)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: provider.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(volume, "company.pem"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	for variable, want := range map[string]int{"SSL_CERT_FILE=": http.StatusBadGateway, "SSL_CERT_FILE=/data/company.pem": http.StatusOK, "SSL_CERT_DIR=/etc/ssl/certs:/data": http.StatusOK} {
		g := start(t, volume, variable)
		if resp := ask(t, http.DefaultClient, g.url, provider.URL, hello); resp.StatusCode != want {
			body, _ := io.ReadAll(resp.Body)
			t.Errorf("%s: status %d, want %d: %s", variable, resp.StatusCode, want, body)
		}
		g.stop(t)
	}
}
