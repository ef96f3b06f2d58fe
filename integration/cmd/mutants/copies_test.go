package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const copied = `package main

import "fmt"

type box[T any] struct{ v T }

func (b *box[T]) get() (v T, err error) { return b.v, nil }

func sum(_ string, more ...int) (n int) {
	for _, m := range more {
		n += m
	}
	return n
}

func pair[K comparable, V any](k K, v V) map[K]V { return map[K]V{k: v} }

func tell(what, how string) {
	fmt.Print(what, " ", how, "\n")
}

var outside = "unchanged"

func main() {
	b := &box[int]{1}
	v, err := b.get()
	fmt.Println(v, err, sum("", 1, 2), pair("a", 1), outside)
	tell("it", "ends")
}
`

// TestCopiesRunTheMutationThatIsOn: with parameters without names, several
// results, none, type parameters, and a receiver with some.
func TestCopiesRunTheMutationThatIsOn(t *testing.T) {
	changed, rest, err := copies([]byte(copied), []mutation{
		{name: "sum", old: "n += m", new: "n -= m"},
		{name: "product", old: "n += m", new: "n += 10 * m"},
		{name: "get", old: "return b.v, nil", new: "return b.v, fmt.Errorf(\"broken\")"},
		{name: "pair", old: "{k: v}", new: "{}"},
		{name: "tell", old: `" ", how`, new: `how`},
		{name: "outside", old: `"unchanged"`, new: `"changed"`},
	})
	if err != nil || len(rest) != 1 || rest[0].name != "outside" {
		t.Fatalf("%v, left for another compilation: %+v", err, rest)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module github.com/baton-go/baton\n\ngo 1.24\n",
		"main.go": string(changed), "internal/mutation/mutation.go": switchCode,
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", "copied", ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, changed)
	}
	for on, want := range map[string]string{
		"":        "1 <nil> 3 map[a:1] unchanged\nit ends\n",
		"sum":     "1 <nil> -3 map[a:1] unchanged\nit ends\n",
		"product": "1 <nil> 30 map[a:1] unchanged\nit ends\n",
		"get":     "1 broken 3 map[a:1] unchanged\nit ends\n",
		"pair":    "1 <nil> 3 map[] unchanged\nit ends\n",
		"tell":    "1 <nil> 3 map[a:1] unchanged\nitends\n",
	} {
		cmd := exec.Command(filepath.Join(dir, "copied"))
		cmd.Env = append(os.Environ(), switchEnv+"="+on)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("%q: %v, %q, want %q", on, err, out, strings.TrimSpace(want))
		}
	}
}
