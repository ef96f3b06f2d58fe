package main

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// testRun is the state of one go test, from its stream of events. Subtests
// belong to their top-level test.
type testRun struct {
	report   *report
	packages map[string]*pkg
	failed   func(failure)
	failures int
}

// pkg is a package whose tests run or are compiled.
type pkg struct {
	name   string
	output []string // of the package itself: compiler errors, a panic's end
	tests  map[string]*test
	failed int // tests that failed
}

// test is a top-level test that has begun.
type test struct {
	from   time.Time
	output []string // its subtests' too
}

func (r *testRun) pkg(name string) *pkg {
	p := r.packages[name]
	if p == nil {
		p = &pkg{name: name, tests: map[string]*test{}}
		r.packages[name] = p
	}
	return p
}

func (r *testRun) take(e event) {
	if e.Output != "" {
		r.report.logged(e.Output)
	}
	switch {
	case e.Action == "build-output":
		// "p [p.test]" is p compiled for its own test.
		name, _, _ := strings.Cut(e.ImportPath, " ")
		p := r.pkg(name)
		p.output = append(p.output, e.Output)
	case e.Test == "":
		r.takePackage(r.pkg(e.Package), e)
	default:
		r.takeTest(r.pkg(e.Package), e)
	}
}

func (r *testRun) takeTest(p *pkg, e event) {
	name, _, sub := strings.Cut(e.Test, "/")
	t := p.tests[name]
	if t == nil {
		t = &test{from: e.Time}
		p.tests[name] = t
		r.report.started(p.name, name)
	}
	switch e.Action {
	case "output":
		t.output = append(t.output, e.Output)
	case "cont":
		if !sub {
			t.from = e.Time // it waited for a place beside other tests
		}
	case "pass", "skip", "fail":
		if sub {
			return
		}
		delete(p.tests, name)
		r.report.ended(p.name, name, e.Action, t.output)
		if e.Action == "fail" {
			p.failed++
			r.fail(failure{p.name, name, t.from, e.Time, t.output})
		}
	}
}

func (r *testRun) takePackage(p *pkg, e event) {
	switch e.Action {
	case "output":
		p.output = append(p.output, e.Output)
	case "pass", "skip", "fail":
		delete(r.packages, p.name)
		r.report.packageEnded(p.name, e.Action)
		if e.Action == "fail" {
			r.failPackage(p, e.Time)
		}
	}
}

// failPackage adds a failure of the package itself, unless failed tests explain
// that it failed.
func (r *testRun) failPackage(p *pkg, at time.Time) {
	if len(p.tests) == 0 && p.failed > 0 {
		return
	}
	output := p.output
	for _, name := range slices.Sorted(maps.Keys(p.tests)) {
		output = append(output, "did not end: "+name+"\n")
		output = append(output, p.tests[name].output...)
		r.report.ended(p.name, name, "fail", nil)
	}
	r.fail(failure{pkg: p.name, to: at, output: output})
}

func (r *testRun) fail(f failure) {
	r.failures++
	r.failed(f)
}

// end is called when the stream has ended, and returns the number of failures.
// A package whose end the stream does not have was cut off.
func (r *testRun) end() int {
	for _, name := range slices.Sorted(maps.Keys(r.packages)) {
		if p := r.packages[name]; len(p.tests) > 0 {
			p.output = append(p.output, "the go command ended before the package's tests did\n")
			r.failPackage(p, time.Now())
		}
	}
	return r.failures
}
