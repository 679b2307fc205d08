// Package compose tests the files for Compose in deploy/compose.
//
// It guarantees that they are valid by the reference implementation of the Compose
// specification, and that their containers fit the image and one another. It starts none.
// TestDeployTools of test/deploy runs it.
package compose

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

const folder = "../../../deploy/compose/"

// given are variables that both files need.
var given = []string{"IMAGE=modelgate:1", "MODELGATE_MASTER_KEY=m", "MODELGATE_BOOTSTRAP_KEY=k", "POSTGRES_PASSWORD=secret"}

func load(t *testing.T, file string, env []string) (*types.Project, error) {
	t.Helper()
	o, err := cli.NewProjectOptions([]string{folder + file}, cli.WithName("modelgate"), cli.WithEnv(env))
	if err != nil {
		t.Fatal(err)
	}
	return o.LoadProject(t.Context())
}

func mustLoad(t *testing.T, file string) *types.Project {
	t.Helper()
	p, err := load(t, file, given)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMissingVariablesAreNamed(t *testing.T) {
	for file, needed := range map[string]int{"one.yaml": 3, "two.yaml": 4} {
		missing := 0
		for i, variable := range given {
			name, _, _ := strings.Cut(variable, "=")
			rest := append(append([]string{}, given[:i]...), given[i+1:]...)
			if _, err := load(t, file, rest); err != nil {
				missing++
				if !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "set it to") {
					t.Errorf("%s without %s: %v", file, name, err)
				}
			}
		}
		if missing != needed {
			t.Errorf("%s does not start without %d variables, want %d", file, missing, needed)
		}
	}
}

// The gateway has what it starts with, and is closed in as far as its image permits.
func TestNodesFitTheImage(t *testing.T) {
	program := os.Getenv("MODELGATE_BINARY")
	if program == "" {
		t.Fatal("set MODELGATE_BINARY to the program; TestDeployTools of test/deploy does")
	}
	help, err := exec.Command(program, "serve", "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, help)
	}
	for file, names := range map[string][]string{"one.yaml": {"modelgate"}, "two.yaml": {"node-a", "node-b"}} {
		p := mustLoad(t, file)
		settings, err := os.ReadFile(folder + "modelgate.yaml")
		if err != nil {
			t.Fatal(err)
		}
		data := map[string]bool{}
		for _, name := range names {
			s := p.Services[name]
			if s.Image != "modelgate:1" || len(s.Entrypoint) > 0 || s.Command[0] != "serve" || s.User != "" || s.HealthCheck != nil {
				t.Errorf("%s %s: the image's own user, program and health check are replaced: %+v", file, name, s)
			}
			for _, arg := range s.Command {
				if flag, ok := strings.CutPrefix(arg, "--"); ok && !strings.Contains(string(help), "-"+flag+" ") {
					t.Errorf("%s %s: modelgate serve has no flag %s", file, name, arg)
				}
			}
			for variable := range s.Environment {
				if !strings.Contains(string(help), variable) && !strings.Contains(string(settings), "${"+variable+"}") {
					t.Errorf("%s %s: modelgate serve does not read %s", file, name, variable)
				}
			}
			if !s.ReadOnly || len(s.CapDrop) != 1 || s.CapDrop[0] != "ALL" || s.Privileged || len(s.SecurityOpt) != 1 {
				t.Errorf("%s %s may do too much", file, name)
			}
			if s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) < 50*time.Second {
				t.Errorf("%s %s is killed after %v", file, name, s.StopGracePeriod)
			}
			for _, v := range s.Volumes {
				if v.Target == "/data" {
					data[v.Source] = true
				}
			}
		}
		if len(data) != len(names) {
			t.Errorf("%s: the nodes have the data volumes %v, want one for each", file, data)
		}
	}
}

func TestServicesFitTogether(t *testing.T) {
	for _, file := range []string{"one.yaml", "two.yaml"} {
		p := mustLoad(t, file)
		for name, s := range p.Services {
			if s.Restart != types.RestartPolicyUnlessStopped {
				t.Errorf("%s %s restarts %q", file, name, s.Restart)
			}
			for _, port := range s.Ports {
				if port.HostIP != "127.0.0.1" {
					t.Errorf("%s %s is open to other machines at %s:%s", file, name, port.HostIP, port.Published)
				}
			}
			for _, v := range s.Volumes {
				if v.Type == types.VolumeTypeBind {
					if info, err := os.Stat(v.Source); err != nil || !info.Mode().IsRegular() || !v.ReadOnly {
						t.Errorf("%s %s mounts %s: %v", file, name, v.Source, err)
					}
				}
			}
			for other, how := range s.DependsOn {
				if how.Condition == types.ServiceConditionHealthy && p.Services[other].HealthCheck == nil {
					t.Errorf("%s %s waits for %s, which has no health check", file, name, other)
				}
			}
		}
	}
	conf, err := os.ReadFile(folder + "nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	p := mustLoad(t, "two.yaml")
	for _, name := range []string{"node-a", "node-b"} {
		if _, ok := p.Services[name]; !ok || !strings.Contains(string(conf), "server "+name+":8787 ") {
			t.Errorf("nginx does not know %s", name)
		}
	}
	settings, err := os.ReadFile(folder + "modelgate.yaml")
	if subnet := p.Networks["default"].Ipam.Config[0].Subnet; err != nil || !strings.Contains(string(settings), "trusted_proxies: ["+subnet+"]") {
		t.Errorf("nginx is in %s, which the nodes do not trust (%v)", subnet, err)
	}
	if database := *p.Services["node-a"].Environment["DATABASE_URL"]; !strings.Contains(database, ":"+*p.Services["postgres"].Environment["POSTGRES_PASSWORD"]+"@postgres:") {
		t.Errorf("the nodes reach their database at %s", database)
	}
}
