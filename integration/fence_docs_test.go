package integration_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/baton-go/baton/coordinator"
	"github.com/baton-go/baton/coordinator/etcd"
	"github.com/baton-go/baton/coordinator/fence"
	"github.com/baton-go/baton/coordinator/fence/grpcfence"
	"github.com/baton-go/baton/coordinator/fence/httpfence"
	"github.com/baton-go/baton/coordinator/fence/sqlfence"
	"github.com/baton-go/baton/coordinator/zookeeper"
	"github.com/baton-go/baton/mutex"
)

// What follows is compiled and not run: docs/fencing.md quotes it.

func quote(...any) {}

func docSequencers(ctx context.Context, lock *mutex.Lock) {
	seq, err := lock.Sequencer(ctx) // a lock, permit or term
	text := seq.String()            // baton1:4f0c…:mutex/orders:1234:…, fit for a header, a message, a column
	same, err := fence.Parse(text)  // in another process
	order, err := same.Compare(seq) // of another lock or cluster: a *fence.ForeignError, never a comparison
	quote(order, err)
}

func docGate(ctx context.Context, seq fence.Sequencer, file interface{ Append(string) error }, entry string) {
	gate := fence.NewGate(fence.Scope{Kind: "mutex", Name: "orders"})    // the service's identity is learned from the first
	err := gate.Do(ctx, seq, func() error { return file.Append(entry) }) // one at a time, and none that is late
	quote(err)
}

func docSQL(ctx context.Context, db *sql.DB, seq fence.Sequencer) error {
	guard, err := sqlfence.New(sqlfence.PostgreSQL) // or MySQL, for MariaDB too, or SQLite
	err = guard.Create(ctx, db)                     // one small table; or put guard.Schema() into a migration

	tx, err := db.BeginTx(ctx, nil)
	defer tx.Rollback()
	if err := guard.Check(ctx, tx, "orders", seq); err != nil {
		return err // a *fence.StaleError names both tokens
	}
	_, err = tx.ExecContext(ctx, `UPDATE orders SET state = 'paid' WHERE id = 42`)
	err = tx.Commit()
	return err
}

func docHTTP(ctx context.Context, seq fence.Sequencer, gate *fence.Gate, orders http.Handler, url string, body io.Reader) {
	client := &http.Client{Transport: httpfence.Transport(nil)} // shows what the request's context carries
	req, err := http.NewRequestWithContext(fence.With(ctx, seq), http.MethodPut, url, body)
	resp, err := client.Do(req)
	err = httpfence.Refusal(resp) // the server's *fence.StaleError, made again

	handler := httpfence.Handler(gate.Check, orders) // the server
	quote(handler, err)
}

func docGRPC(target string, creds grpc.DialOption, gate *fence.Gate) {
	conn, err := grpc.NewClient(target, creds, grpc.WithUnaryInterceptor(grpcfence.UnaryClient), grpc.WithStreamInterceptor(grpcfence.StreamClient))

	server := grpc.NewServer(grpc.UnaryInterceptor(grpcfence.UnaryServer(gate.Check)), grpc.StreamInterceptor(grpcfence.StreamServer(gate.Check)))
	quote(conn, err, server)
}

func docEtcd(ctx context.Context, etcdClient *clientv3.Client, seq fence.Sequencer) {
	holds, err := etcd.Guard(seq)
	resp, err := etcdClient.Txn(ctx).If(holds).Then(clientv3.OpPut("/orders/42", "paid")).Commit()
	late := err == nil && !resp.Succeeded
	quote(late)
}

func docZooKeeper(conn *zk.Conn, seq fence.Sequencer, paid []byte) {
	holds, err := zookeeper.Guard("/apps/orders", seq) // the chroot of Baton's client
	results, err := conn.Multi(holds, &zk.SetDataRequest{Path: "/orders/42", Data: paid, Version: -1})
	late := errors.Is(err, zk.ErrNoNode) && errors.Is(results[0].Error, zk.ErrNoNode)
	quote(late)
}

func docAsk(ctx context.Context, client *coordinator.Client, seq fence.Sequencer) {
	err := client.Check(ctx, seq) // any client of the namespace; a *fence.StaleError if the grant is over
	quote(err)
}

var _ = []any{docSequencers, docGate, docSQL, docHTTP, docGRPC, docEtcd, docZooKeeper, docAsk}

// TestFencingDocsQuoteCodeThatCompiles: every piece of Go there is one that is above, line by line.
func TestFencingDocsQuoteCodeThatCompiles(t *testing.T) {
	own, err := os.ReadFile("fence_docs_test.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("..", "docs", "fencing.md"))
	if err != nil {
		t.Fatal(err)
	}
	code, found := plain(string(own)), 0
	for _, part := range strings.Split(string(text), "```go\n")[1:] {
		snippet, _, ended := strings.Cut(part, "```")
		if found++; !ended || !strings.Contains(code, plain(snippet)) {
			t.Errorf("not in fence_docs_test.go:\n%s", snippet)
		}
	}
	if found < 8 {
		t.Errorf("only %d pieces of Go", found)
	}
}

// plain is code without its layout.
func plain(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		if fields := strings.Fields(line); len(fields) > 0 {
			b.WriteString(strings.Join(fields, " ") + "\n")
		}
	}
	return b.String()
}
