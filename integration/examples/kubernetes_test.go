package examples_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/baton-go/baton/coordinator"
	_ "github.com/baton-go/baton/coordinator/etcd"
)

// The fields of the manifests. Any other field, for example a misspelt one, is
// an error. Fields that no test checks have the type any.
type (
	meta struct {
		Name   string
		Labels map[string]string
	}
	selector   struct{ MatchLabels map[string]string }
	deployment struct {
		APIVersion, Kind string
		Metadata         meta
		Spec             struct {
			Replicas int
			Selector selector
			Strategy struct {
				Type          string
				RollingUpdate struct{ MaxSurge, MaxUnavailable int }
			}
			Template struct {
				Metadata meta
				Spec     pod
			}
		}
	}
	pod struct {
		TerminationGracePeriodSeconds int
		AutomountServiceAccountToken  *bool
		SecurityContext               any
		TopologySpreadConstraints     []struct {
			MaxSkew                        int
			TopologyKey, WhenUnsatisfiable string
			LabelSelector                  selector
		}
		Containers []container
	}
	container struct {
		Name, Image string
		Args        []string
		Env         []struct {
			Name      string
			ValueFrom struct {
				SecretKeyRef struct{ Name, Key string }
			}
		}
		Ports []struct {
			Name          string
			ContainerPort int
		}
		ReadinessProbe, LivenessProbe probe
		Lifecycle                     struct {
			PreStop struct{ Sleep struct{ Seconds int } }
		}
		Resources, SecurityContext any
	}
	probe struct {
		HTTPGet                         struct{ Path, Port string }
		PeriodSeconds, FailureThreshold int
	}
	budget struct {
		APIVersion, Kind string
		Metadata         meta
		Spec             struct {
			MaxUnavailable int
			Selector       selector
		}
	}
	secret struct {
		APIVersion, Kind, Type string
		Metadata               meta
		StringData             map[string]string
	}
)

func manifest[T any](t *testing.T, name string) (m T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../examples/scheduler/kubernetes", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return m
}

// arg returns the value of a flag among a container's arguments.
func (c container) arg(t *testing.T, name string) string {
	t.Helper()
	for _, a := range c.Args {
		if value, found := strings.CutPrefix(a, "-"+name+"="); found {
			return value
		}
	}
	t.Fatalf("no -%s in %q", name, c.Args)
	return ""
}

// The manifests agree with each other and with the program's times.
func TestManifestsAgree(t *testing.T) {
	d, b, s := manifest[deployment](t, "deployment.yaml"), manifest[budget](t, "poddisruptionbudget.yaml"), manifest[secret](t, "secret.example.yaml")
	for got, want := range map[string]string{
		d.APIVersion + " " + d.Kind: "apps/v1 Deployment",
		b.APIVersion + " " + b.Kind: "policy/v1 PodDisruptionBudget",
		s.APIVersion + " " + s.Kind: "v1 Secret",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	p := d.Spec.Template.Spec
	for name, labels := range map[string]map[string]string{
		"deployment": d.Spec.Selector.MatchLabels, "budget": b.Spec.Selector.MatchLabels, "spread": p.TopologySpreadConstraints[0].LabelSelector.MatchLabels,
	} {
		if len(labels) == 0 || !maps.Equal(labels, d.Spec.Template.Metadata.Labels) {
			t.Errorf("the %s selects %v, but pods have %v", name, labels, d.Spec.Template.Metadata.Labels)
		}
	}
	if r := d.Spec.Strategy.RollingUpdate; r.MaxUnavailable != 0 || r.MaxSurge < 1 || b.Spec.MaxUnavailable < 1 || b.Spec.MaxUnavailable >= d.Spec.Replicas {
		t.Errorf("%d replicas, %+v, budget %d: a leader would be without a successor, or a node could not be drained", d.Spec.Replicas, r, b.Spec.MaxUnavailable)
	}
	c := p.Containers[0]
	drain, err := time.ParseDuration(c.arg(t, "drain"))
	grace := time.Duration(p.TerminationGracePeriodSeconds) * time.Second
	if need := drain + time.Duration(c.Lifecycle.PreStop.Sleep.Seconds+5)*time.Second; err != nil || grace < need {
		t.Errorf("a grace period of %v, but %v is needed; %v", grace, need, err)
	}
	ref := c.Env[0].ValueFrom.SecretKeyRef
	if c.Env[0].Name != "BATON_URL" || ref.Name != s.Metadata.Name || s.StringData[ref.Key] == "" {
		t.Errorf("%s is from %+v, which the secret does not have", c.Env[0].Name, ref)
	}
	client, err := coordinator.Open(s.StringData[ref.Key])
	if err != nil {
		t.Fatalf("the secret's URL: %v", err)
	}
	defer client.Close(t.Context())
	u, err := url.Parse(s.StringData[ref.Key])
	if err != nil {
		t.Fatal(err)
	}
	ttl, err := time.ParseDuration(u.Query().Get("ttl"))
	if patience := time.Duration(c.LivenessProbe.PeriodSeconds*c.LivenessProbe.FailureThreshold) * time.Second; err != nil || patience <= ttl {
		t.Errorf("an outage restarts the leader after %v, and its term would end by itself within %v; %v", patience, ttl, err)
	}
	for _, probe := range []probe{c.ReadinessProbe, c.LivenessProbe} {
		if probe.HTTPGet.Port != c.Ports[0].Name || fmt.Sprint(":", c.Ports[0].ContainerPort) != c.arg(t, "http") {
			t.Errorf("probes at %s; ports %+v; arguments %q", probe.HTTPGet.Port, c.Ports, c.Args)
		}
	}
}

// The program accepts the manifests' arguments, answers their probes, and hands
// over within their grace period.
func TestProgramFitsItsManifests(t *testing.T) {
	program := filepath.Join(build(t, "scheduler"), "scheduler")
	d := manifest[deployment](t, "deployment.yaml")
	c := d.Spec.Template.Spec.Containers[0]
	ready, live := c.ReadinessProbe.HTTPGet.Path, c.LivenessProbe.HTTPGet.Path
	grace := time.Duration(d.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	each(t, func(t *testing.T, url string) {
		first := replica(t, program, c.Args, url)
		first.await(t, "/leader", http.StatusOK)
		first.await(t, ready, http.StatusOK)
		second := replica(t, program, c.Args, url)
		second.await(t, ready, http.StatusOK)
		second.await(t, live, http.StatusOK)
		if status := second.status("/leader"); status != http.StatusServiceUnavailable {
			t.Errorf("the second replica at /leader: %d", status)
		}
		if err := first.Interrupt(); err != nil {
			t.Fatal(err)
		}
		killed, cancel := context.WithTimeout(t.Context(), grace) // by the kubelet
		defer cancel()
		select {
		case <-first.Done():
		case <-killed.Done():
			t.Fatal("still running after the grace period")
		}
		if err := first.Wait(); err != nil {
			t.Errorf("after SIGTERM: %v", err)
		}
		second.await(t, "/leader", http.StatusOK)
	})
}

// replica starts the program with a manifest's arguments, except the port,
// which the kernel chooses, and waits until it answers.
func replica(t *testing.T, program string, args []string, url string) *process {
	t.Helper()
	args = slices.Clone(args)
	for i, a := range args {
		if strings.HasPrefix(a, "-http=") {
			args[i] = "-http=127.0.0.1:0"
		}
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "BATON_URL="+url)
	p := start(t, cmd)
	p.addr = p.awaitOutput(t, `answers .* on (\S+)\n`)
	return p
}
