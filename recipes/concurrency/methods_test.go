package concurrency_test

import (
	"errors"
	"reflect"
	"testing"

	v3 "go.etcd.io/etcd/client/v3"
	theirs "go.etcd.io/etcd/client/v3/concurrency"

	"github.com/baton-go/baton/coordinator"
	ours "github.com/baton-go/baton/recipes/concurrency"
)

// TestMethodsAreTheSame: every method of etcd's types exists, with the same
// arguments and results.
func TestMethodsAreTheSame(t *testing.T) {
	for _, c := range []struct{ their, our reflect.Type }{
		{reflect.TypeFor[*theirs.Mutex](), reflect.TypeFor[*ours.Mutex]()},
		{reflect.TypeFor[*theirs.Election](), reflect.TypeFor[*ours.Election]()},
		{reflect.TypeFor[*theirs.Session](), reflect.TypeFor[*ours.Session]()},
	} {
		for i := range c.their.NumMethod() {
			want := c.their.Method(i)
			got, ok := c.our.MethodByName(want.Name)
			if !ok {
				t.Errorf("%v has no %s", c.our, want.Name)
				continue
			}
			if a, b := signature(want.Type), signature(got.Type); a != b {
				t.Errorf("%v.%s is %s, want %s", c.our, want.Name, b, a)
			}
		}
	}
	// Of functions, the types differ only in their package.
	for what, is := range map[any]string{
		reflect.TypeOf(ours.NewMutex):       reflect.TypeOf(theirs.NewMutex).String(),
		reflect.TypeOf(ours.NewLocker):      reflect.TypeOf(theirs.NewLocker).String(),
		reflect.TypeOf(ours.NewElection):    reflect.TypeOf(theirs.NewElection).String(),
		reflect.TypeOf(ours.ResumeElection): reflect.TypeOf(theirs.ResumeElection).String(),
		reflect.TypeOf(ours.NewSession):     reflect.TypeOf(theirs.NewSession).String(),
		reflect.TypeOf(ours.WithTTL):        reflect.TypeOf(theirs.WithTTL).String(),
		reflect.TypeOf(ours.WithLease):      reflect.TypeOf(theirs.WithLease).String(),
		reflect.TypeOf(ours.WithContext):    reflect.TypeOf(theirs.WithContext).String(),
	} {
		if got := what.(reflect.Type).String(); got != is {
			t.Errorf("%s, want %s", got, is)
		}
	}
	for ours, theirs := range map[error]error{
		ours.ErrLocked: theirs.ErrLocked, ours.ErrSessionExpired: theirs.ErrSessionExpired,
		ours.ErrLockReleased:      theirs.ErrLockReleased,
		ours.ErrElectionNotLeader: theirs.ErrElectionNotLeader,
		ours.ErrElectionNoLeader:  theirs.ErrElectionNoLeader,
	} {
		if ours.Error() != theirs.Error() {
			t.Errorf("%q, want %q", ours, theirs)
		}
	}
}

// signature is a method's type without its receiver.
func signature(f reflect.Type) string {
	s := ""
	for i := 1; i < f.NumIn(); i++ {
		s += f.In(i).String() + ", "
	}
	s += "->"
	for i := range f.NumOut() {
		s += " " + f.Out(i).String()
	}
	return s
}

func TestNewSessionRefusesWhatItCannotKeep(t *testing.T) {
	if _, err := ours.NewSession(nil); !errors.Is(err, coordinator.ErrInvalid) {
		t.Errorf("no client: %v", err)
	}
	c := v3.NewCtxClient(t.Context())
	if _, err := ours.NewSession(c, ours.WithLease(7)); !errors.Is(err, coordinator.ErrInvalid) {
		t.Errorf("a lease: %v", err)
	}
}
