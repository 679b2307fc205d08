// Package deploy tests what containers and clusters are deployed with: the image, the files for
// Compose with their nginx, and the chart.
//
// It guarantees that the image is built by tools/image.sh and that its files and its settings,
// not those of this machine, run the gateway. Buildah builds without a daemon. The processes
// run in the network of this machine, on free ports.
package deploy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// key is the gateway key of every gateway that the tests start.
const key = "mg-deploy-bootstrap-0123456789"

// image is the one that the tests use.
var image struct {
	scratch string   // folder of everything temporary
	env     []string // of buildah
	name    string
	root    string // folder of its files
	config  imageConfig
	layers  []string // digests
}

// imageConfig is the part of the image's description that engines use.
type imageConfig struct {
	User         string
	Env          []string
	Entrypoint   []string
	Cmd          []string
	Volumes      map[string]any
	ExposedPorts map[string]any
	Labels       map[string]string
	StopSignal   string
	Healthcheck  struct{ Test []string }
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "deploy:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	if os.Geteuid() != 0 {
		return 1, fmt.Errorf("images are built and run as root: run the tests as root")
	}
	var err error
	if image.scratch, err = os.MkdirTemp("", "deploy"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(image.scratch)
	if err := os.Chmod(image.scratch, 0o755); err != nil { // for the user of the image
		return 1, err
	}
	storage := filepath.Join(image.scratch, "storage.conf")
	text := fmt.Sprintf("[storage]\ndriver = \"vfs\"\ngraphroot = %q\nrunroot = %q\n", filepath.Join(image.scratch, "graph"), filepath.Join(image.scratch, "run"))
	if err := os.WriteFile(storage, []byte(text), 0o600); err != nil {
		return 1, err
	}
	image.env = append(os.Environ(), "CONTAINERS_STORAGE_CONF="+storage, "ENGINE=buildah", "TMPDIR="+image.scratch)
	if image.name, err = buildImage(); err != nil {
		return 1, err
	}
	if err := openImage(); err != nil {
		return 1, err
	}
	defer output("buildah", "rm", "--all")
	return m.Run(), nil
}

// buildImage builds the image for this machine and returns its name.
func buildImage() (string, error) {
	out, err := output("../../tools/image.sh", "linux/"+runtime.GOARCH)
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return strings.TrimPrefix(lines[len(lines)-1], "image: "), nil
}

// openImage reads the description of the image and opens its files.
func openImage() error {
	container, err := output("buildah", "from", "--pull-never", image.name)
	if err != nil {
		return err
	}
	root, err := output("buildah", "mount", strings.TrimSpace(container))
	if err != nil {
		return err
	}
	image.root = strings.TrimSpace(root)
	image.config, image.layers, err = describeImage()
	return err
}

// describeImage returns the description of the image and the digests of its layers.
func describeImage() (imageConfig, []string, error) {
	text, err := output("buildah", "inspect", "--type", "image", image.name)
	if err != nil {
		return imageConfig{}, nil, err
	}
	var description struct {
		Docker struct {
			Config imageConfig
			RootFS struct {
				Layers []string `json:"diff_ids"`
			}
		}
	}
	err = json.Unmarshal([]byte(text), &description)
	return description.Docker.Config, description.Docker.RootFS.Layers, err
}

// output runs a command with the environment of buildah and returns what it prints.
func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = image.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// mustOutput runs a command as output does.
func mustOutput(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := output(name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// enter runs the command after its first three arguments in the root of the image, which is
// read-only, with a volume at /data and as the user of the image. Every step replaces the
// process, so that signals reach the program.
const enter = `
root=$1 volume=$2 user=$3
shift 3
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount --bind "$volume" "$root/data"
exec chroot --userspec="$user" "$root" "$@"`

// inImage returns a command that runs with the files, the user and the variables of the image,
// and with further variables, which win.
func inImage(ctx context.Context, volume string, env []string, args ...string) *exec.Cmd {
	args = append([]string{"--mount", "sh", "-ec", enter, "sh", image.root, volume, image.config.User}, args...)
	cmd := exec.CommandContext(ctx, "unshare", args...)
	cmd.Env = append(append([]string{}, image.config.Env...), env...)
	// The commands that enter the image are those of this machine.
	for i, v := range cmd.Env {
		if strings.HasPrefix(v, "PATH=") {
			cmd.Env[i] = v + ":" + os.Getenv("PATH")
		}
	}
	return cmd
}

// newVolume returns a volume as engines create it: with the owner and the mode that the folder
// has in the image.
func newVolume(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(image.scratch, "volume")
	if err != nil {
		t.Fatal(err)
	}
	mustOutput(t, "cp", "-aT", filepath.Join(image.root, "data"), dir)
	return dir
}

// gateway is a running gateway of the image.
type gateway struct {
	url, admin string // without a path
	process    *exec.Cmd
	errors     *strings.Builder
	ended      chan error
}

// start starts the command of the image on a volume, and ends it with the test.
func start(t *testing.T, volume string, env ...string) *gateway {
	t.Helper()
	env = append([]string{"MODELGATE_LISTEN=127.0.0.1:0", "MODELGATE_ADMIN_LISTEN=127.0.0.1:0", "MODELGATE_TRUSTED_HOSTS=127.0.0.1", "MODELGATE_BOOTSTRAP_KEY=" + key}, env...)
	g := &gateway{errors: new(strings.Builder), ended: make(chan error, 1)}
	g.process = inImage(context.Background(), volume, env, append(append([]string{}, image.config.Entrypoint...), image.config.Cmd...)...)
	g.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	g.process.Stderr = g.errors
	out, err := g.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.process.Process.Kill()
		waittest.Receive(t, g.ended, "the end of the gateway") // or its second, which is closed
	})
	ready := make(chan bool, 1)
	go func() {
		g.read(out, ready)
		g.ended <- g.process.Wait()
		close(g.ended)
	}()
	if !waittest.Receive(t, ready, "the greeting of the gateway") {
		err := waittest.Receive(t, g.ended, "the end of the gateway")
		t.Fatalf("the gateway does not start: %v\n%s", err, g.errors)
	}
	return g
}

// read reads the addresses from the greeting, says whether both are there, and reads the rest.
func (g *gateway) read(from io.Reader, ready chan<- bool) {
	lines := bufio.NewReader(from)
	for g.url == "" || g.admin == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			ready <- false
			return
		}
		for word := range strings.FieldsSeq(line) {
			word = strings.TrimSuffix(word, ",")
			if root, ok := strings.CutSuffix(word, "/v1"); ok {
				g.url = root
			}
			if root, ok := strings.CutSuffix(word, "/metrics"); ok {
				g.admin = root
			}
		}
	}
	ready <- true
	io.Copy(io.Discard, lines)
}

// stop ends the gateway as an engine does, and waits until it has ended.
func (g *gateway) stop(t *testing.T) {
	t.Helper()
	g.process.Process.Signal(syscall.SIGTERM)
	if err := waittest.Receive(t, g.ended, "the end of the gateway"); err != nil {
		t.Errorf("the gateway ends with %v\n%s", err, g.errors)
	}
}

// ask sends a request of a chat to a provider through the gateway at url, and returns the response.
func ask(t *testing.T, client *http.Client, url, provider, body string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waittest.Bound)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Authorization": "Bearer sk-of-the-client", "X-Gateway-Api-Key": key,
		"X-Gateway-Provider": "openai-compatible", "X-Gateway-Custom-Host": provider + "/v1",
	} {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// status returns the status of an address, 0 if there is none.
func status(address string) int {
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Get(address)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}
