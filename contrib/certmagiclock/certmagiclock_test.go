package certmagiclock_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/baton-go/baton/contrib/certmagiclock"
	"github.com/baton-go/baton/contrib/internal/lab"
	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/memory"
)

const domain = "*.example.org"

// authority issues certificates, each after some time, and counts them.
type authority struct {
	key  *ecdsa.PrivateKey
	took time.Duration

	mu                  sync.Mutex
	issued, now, atOnce int
	issuedBy            []string
}

// replica is one process with certmagic.
type replica struct {
	*certmagic.Config
	storage *certmagiclock.Storage
	client  *coordinator.Client
	link    *memory.Driver
}

// issuer is the authority, as a replica sees it.
type issuer struct {
	*authority
	replica string
}

func (issuer) IssuerKey() string { return "test" }

func (i issuer) Issue(ctx context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	i.mu.Lock()
	i.issued++
	number := i.issued
	i.now++
	i.atOnce = max(i.atOnce, i.now)
	i.issuedBy = append(i.issuedBy, i.replica)
	i.mu.Unlock()
	time.Sleep(i.took)
	i.mu.Lock()
	i.now--
	i.mu.Unlock()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(number)), Subject: pkix.Name{CommonName: i.replica}, DNSNames: csr.DNSNames,
		NotBefore: time.Now(), NotAfter: time.Now().Add(90 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, csr.PublicKey, i.key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// play runs a test with replicas that share a service and a directory.
func play(t *testing.T, took time.Duration, test func(*testing.T, *authority, ...*replica)) {
	t.Helper()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ca, svc := &authority{key: key, took: took}, memory.NewService()
		var replicas []*replica
		for i := range 2 {
			r := &replica{}
			r.client, r.link = lab.Replica(t, svc)
			r.storage = certmagiclock.New(r.client, &certmagic.FileStorage{Path: dir})
			cache := certmagic.NewCache(certmagic.CacheOptions{
				GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return r.Config, nil },
				Logger:           zap.NewNop(),
			})
			t.Cleanup(cache.Stop)
			r.Config = certmagic.New(cache, certmagic.Config{
				Storage: r.storage, Issuers: []certmagic.Issuer{issuer{ca, fmt.Sprint("replica ", i)}}, Logger: zap.NewNop(),
			})
			replicas = append(replicas, r)
		}
		test(t, ca, replicas...)
	})
}

// stored returns the name of the replica whose certificate is stored. The
// certificate must fit the key that is stored beside it.
func (r *replica) stored(t *testing.T) string {
	t.Helper()
	cert, err := r.CacheManagedCertificate(t.Context(), domain)
	if err != nil {
		t.Errorf("what is stored is no certificate with its key: %v", err)
		return ""
	}
	return cert.Leaf.Subject.CommonName
}

// TestOneOfAllReplicasObtainsTheCertificate: also if that takes longer than the
// TTL, and with two goroutines in each process.
func TestOneOfAllReplicasObtainsTheCertificate(t *testing.T) {
	play(t, 10*lab.TTL, func(t *testing.T, ca *authority, replicas ...*replica) {
		var all sync.WaitGroup
		for _, r := range replicas {
			for _, obtain := range []func(context.Context, string) error{r.ObtainCertSync, r.ObtainCertAsync} {
				all.Go(func() {
					if err := obtain(t.Context(), domain); err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		if ca.issued != 1 {
			t.Errorf("%d certificates were issued, up to %d at once", ca.issued, ca.atOnce)
		}
		if by := replicas[0].stored(t); by != ca.issuedBy[0] {
			t.Errorf("stored is the certificate of %q", by)
		}
	})
}

// TestReplicaThatLostTheLockStoresNothing: it is cut off while it waits for the
// certificate. Another replica gets one meanwhile.
func TestReplicaThatLostTheLockStoresNothing(t *testing.T) {
	play(t, 4*lab.TTL, func(t *testing.T, ca *authority, replicas ...*replica) {
		cut, other := replicas[0], replicas[1]
		first := make(chan error, 1)
		go func() { first <- cut.ObtainCertSync(t.Context(), domain) }()
		synctest.Wait()
		cut.link.Cut()
		if err := other.ObtainCertSync(t.Context(), domain); err != nil {
			t.Fatal(err)
		}
		if err := <-first; err == nil || !strings.Contains(err.Error(), coordinator.ErrSessionLost.Error()) { // certmagic wraps no error
			t.Errorf("the replica that was cut off got %v", err)
		}
		if by := other.stored(t); by != "replica 1" || ca.issued != 2 {
			t.Errorf("stored is the certificate of %q, of %d", by, ca.issued)
		}
	})
}

// TestNothingIsStoredOrDeletedBetweenTheLossAndTheNextHold: when the
// certificate comes, the key is stored already; the lock is lost before the
// rest is.
func TestNothingIsStoredOrDeletedBetweenTheLossAndTheNextHold(t *testing.T) {
	play(t, 0, func(t *testing.T, _ *authority, replicas ...*replica) {
		r, ctx := replicas[0], t.Context()
		site, elsewhere := certmagic.StorageKeys.SiteCert("test", domain), certmagic.StorageKeys.SiteCert("test", "example.com")
		try := func(what string, want error) {
			t.Helper()
			for key, want := range map[string]error{site: want, elsewhere: nil} {
				if err := r.storage.Store(ctx, key, []byte("x")); !errors.Is(err, want) {
					t.Errorf("%s, Store(%s) = %v", what, key, err)
				}
				if err := r.storage.Delete(ctx, key); !errors.Is(err, want) || want == nil && r.storage.Exists(ctx, key) {
					t.Errorf("%s, Delete(%s) = %v", what, key, err)
				}
			}
		}
		name := "issue_cert_" + domain
		try("without the lock", nil)
		if err := r.storage.Lock(ctx, name); err != nil {
			t.Fatal(err)
		}
		try("with the lock", nil)
		r.link.Expire()
		synctest.Wait()
		try("after the loss", coordinator.ErrSessionLost)
		if err := r.storage.RenewLockLease(ctx, name, time.Minute); err != nil {
			t.Fatal(err)
		}
		try("with the next hold", nil)
		if err := r.storage.Unlock(ctx, name); err != nil {
			t.Error(err)
		}
		try("after the release", nil)
	})
}

// TestNextAttemptBeginsWithTheLock: certmagic tries again after a loss. It
// waits for the lock and then finds the certificate of the other replica.
func TestNextAttemptBeginsWithTheLock(t *testing.T) {
	play(t, 4*lab.TTL, func(t *testing.T, ca *authority, replicas ...*replica) {
		cut, other := replicas[0], replicas[1]
		first := make(chan error, 1)
		go func() { first <- cut.ObtainCertAsync(t.Context(), domain) }()
		time.Sleep(time.Second) // after the pause of no length before the first attempt
		synctest.Wait()
		cut.link.Expire()
		time.Sleep(3 * lab.TTL) // the other has the lock when the next attempt begins
		second := make(chan error, 1)
		go func() { second <- other.ObtainCertSync(t.Context(), domain) }()
		for who, ended := range map[string]chan error{"the first": first, "the second": second} {
			if err := <-ended; err != nil {
				t.Errorf("%s: %v", who, err)
			}
		}
		if by := cut.stored(t); by != "replica 1" || ca.issued != 2 {
			t.Errorf("stored is the certificate of %q, of %d", by, ca.issued)
		}
	})
}

func TestTryLockSaysThatAnotherHasTheName(t *testing.T) {
	play(t, 0, func(t *testing.T, _ *authority, replicas ...*replica) {
		a, b, ctx := replicas[0].storage, replicas[1].storage, t.Context()
		try := func(s *certmagiclock.Storage, want bool) {
			t.Helper()
			if got, err := s.TryLock(ctx, "ari"); got != want || err != nil {
				t.Errorf("TryLock = %v, %v, want %v", got, err, want)
			}
		}
		try(a, true)
		try(a, false) // another goroutine
		try(b, false)
		if err := a.Unlock(ctx, "ari"); err != nil {
			t.Error(err)
		}
		try(b, true)
		replicas[0].link.Cut()
		cut, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if got, err := a.TryLock(cut, "ari"); got || err == nil {
			t.Errorf("TryLock without the service = %v, %v", got, err)
		}
	})
}

// TestUnlockReleasesNoOthersLock: a section that lost its lock goes on until
// its Unlock. Until then no other goroutine of the process begins.
func TestUnlockReleasesNoOthersLock(t *testing.T) {
	play(t, 0, func(t *testing.T, _ *authority, replicas ...*replica) {
		a, b, ctx := replicas[0].storage, replicas[1].storage, t.Context()
		if err := a.Lock(ctx, "name"); err != nil {
			t.Fatal(err)
		}
		replicas[0].link.Expire()
		next := make(chan error, 1)
		go func() { next <- a.Lock(ctx, "name") }()
		time.Sleep(lab.TTL)
		select {
		case err := <-next:
			t.Errorf("two sections in one process: %v", err)
		default:
		}
		if err := a.Unlock(ctx, "name"); !errors.Is(err, coordinator.ErrSessionLost) {
			t.Errorf("the first Unlock = %v", err)
		}
		if err := <-next; err != nil {
			t.Error(err)
		}
		if got, err := b.TryLock(ctx, "name"); got || err != nil {
			t.Errorf("another replica's TryLock = %v, %v", got, err)
		}
		if err := a.Unlock(ctx, "name"); err != nil {
			t.Errorf("the second Unlock = %v", err)
		}
		if err := a.Unlock(ctx, "name"); !errors.Is(err, coordinator.ErrNotHeld) {
			t.Errorf("the third Unlock = %v", err)
		}
		if err := a.RenewLockLease(ctx, "name", 0); !errors.Is(err, coordinator.ErrNotHeld) {
			t.Errorf("RenewLockLease without a section = %v", err)
		}
	})
}

// TestUnlockEndsASectionThatWaitsForItsLockAgain, as certmagic.CleanUpOwnLocks
// may at the end of a process: the lock is not left behind.
func TestUnlockEndsASectionThatWaitsForItsLockAgain(t *testing.T) {
	play(t, 0, func(t *testing.T, _ *authority, replicas ...*replica) {
		a, b, ctx := replicas[0].storage, replicas[1].storage, t.Context()
		if err := a.Lock(ctx, "name"); err != nil {
			t.Fatal(err)
		}
		replicas[0].link.Expire()
		synctest.Wait()
		if err := b.Lock(ctx, "name"); err != nil {
			t.Fatal(err)
		}
		renewed := make(chan error, 1)
		go func() { renewed <- a.RenewLockLease(ctx, "name", 0) }()
		synctest.Wait()
		_ = a.Unlock(ctx, "name") // says that it was lost
		if err := b.Unlock(ctx, "name"); err != nil {
			t.Error(err)
		}
		if err := <-renewed; !errors.Is(err, coordinator.ErrNotHeld) {
			t.Errorf("RenewLockLease = %v", err)
		}
		if got, err := b.TryLock(ctx, "name"); !got || err != nil {
			t.Errorf("the lock was left behind: %v, %v", got, err)
		}
	})
}

func TestWaitsInTheProcessEndWithTheirContext(t *testing.T) {
	play(t, 0, func(t *testing.T, _ *authority, replicas ...*replica) {
		s := replicas[0].storage
		long := strings.Repeat("a", 300) // longer than a name at the service may be
		if err := s.Lock(t.Context(), long); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Lock(ctx, long); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lock = %v", err)
		}
		if err := s.Unlock(t.Context(), long); err != nil {
			t.Error(err)
		}
	})
}
