package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// build makes a test binary of each package that catches mutations, with all of
// these within it: see copies. A mutation that it cannot have there is compiled
// alone when its turn comes.
func (r *runner) build(ctx context.Context, chosen []mutation) error {
	files := map[string][]mutation{}
	for _, m := range chosen {
		if _, _, err := mutate(r.root, m); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		files[m.file] = append(files[m.file], m)
	}
	r.within = map[string]bool{}
	replace := map[string]string{}
	for file, all := range files {
		path := filepath.Join(r.root, file)
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		changed, rest, err := copies(src, all)
		if err != nil {
			return err
		}
		for _, m := range all {
			r.within[m.name] = !slices.ContainsFunc(rest, func(other mutation) bool { return other.name == m.name })
		}
		if replace[path], err = r.write(strings.ReplaceAll(file, "/", "_"), changed); err != nil {
			return err
		}
	}
	var err error
	of := filepath.Join(r.root, strings.TrimPrefix(switchPath, module+"/"), "mutation.go")
	if replace[of], err = r.write("mutation.go", []byte(switchCode)); err != nil {
		return err
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return err
	}
	overlay, err := r.write("overlay.json", list)
	if err != nil {
		return err
	}
	return r.compile(ctx, r.packages(chosen), overlay)
}

// packages are those with tests that catch the mutations.
func (r *runner) packages(chosen []mutation) (all []string) {
	for _, m := range chosen {
		for _, t := range m.caught {
			if r.within[m.name] && !slices.Contains(all, t.pkg) {
				all = append(all, t.pkg)
			}
		}
	}
	return all
}

// compile makes the test binaries of packages.
func (r *runner) compile(ctx context.Context, packages []string, overlay string) error {
	r.binaries = map[string]string{}
	for _, pkg := range packages {
		r.binaries[pkg] = filepath.Join(r.tmp, strings.ReplaceAll(pkg, "/", "_")+".test")
	}
	return each(packages, func(pkg string) error {
		dir, path := r.module(pkg)
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", r.binaries[pkg], path)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s with mutations: %w\n%s", pkg, err, out)
		}
		return nil
	})
}

func (r *runner) write(name string, content []byte) (path string, err error) {
	path = filepath.Join(r.tmp, name)
	return path, os.WriteFile(path, content, 0o600)
}
