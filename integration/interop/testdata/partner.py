"""Contends with Kazoo's recipes; the commands are those of party in interop_test.go. Arguments: servers, session timeout in s."""

import glob
import json
import os
import sys
import threading
import time
import traceback

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

servers, timeout = sys.argv[1], float(sys.argv[2])


def client():
    c = KazooClient(hosts=servers, timeout=timeout)
    c.start(timeout=30)
    return c


class Lock:
    def __init__(self, recipe, path):
        self.client = client()
        self.path = path
        self.patience = None
        make = {"mutex": self.client.Lock, "write": self.client.WriteLock, "read": self.client.ReadLock}
        if recipe == "with-curator":
            self.lock = self.client.Lock(path, "kazoo", extra_lock_patterns=["lock-"])
        else:
            self.lock = make[recipe](path, "kazoo")
        if recipe == "read":
            # In 2.8 (python-zk/kazoo#649) a reader also waits for writers behind it, which wait for it.
            self.patience = 0.5

    def take(self):
        while True:
            try:
                if self.lock.acquire(timeout=self.patience):
                    break
            except LockTimeout:
                pass
        return self.client.exists(self.path + "/" + self.lock.node).czxid

    def release(self):
        self.lock.release()


class Election:
    """Holds an election's lock with Election.run."""

    def __init__(self, path):
        self.client = client()
        self.path = path
        self.election = self.client.Election(path, "kazoo")

    def take(self):
        won, self.over, self.ended = threading.Event(), threading.Event(), threading.Event()

        def lead():
            won.set()
            self.over.wait()

        def run():
            self.election.run(lead)
            self.ended.set()

        threading.Thread(target=run, daemon=True).start()
        won.wait()
        return self.client.exists(self.path + "/" + self.election.lock.node).czxid

    def release(self):
        self.over.set()
        self.ended.wait()


class Semaphore:
    def __init__(self, path, most):
        self.client = client()
        self.path = path
        self.most = most

    def take(self):
        self.semaphore = self.client.Semaphore(self.path, "kazoo", self.most)
        self.semaphore.acquire()
        return self.client.exists(self.semaphore.create_path).czxid

    def release(self):
        self.semaphore.release()


def contender(recipe, path):
    if recipe == "election":
        return Election(path)
    if recipe.startswith("semaphore"):
        return Semaphore(path, int(recipe[len("semaphore"):]))
    return Lock(recipe, path)


def turn(recipe, order, dir):
    def counter():
        with open(dir + "/counter") as f:
            return f.read()

    before, kind = counter(), "w"
    time.sleep(0.001)
    if recipe == "read":
        kind = "r" if before == counter() else "torn"
    elif recipe.startswith("semaphore"):
        own = "%s/in-kazoo-%d" % (dir, order)
        open(own, "w").close()
        time.sleep(0.002)
        kind = "p" if len(glob.glob(dir + "/in-*")) <= int(recipe[len("semaphore"):]) else "torn"
        os.remove(own)
    else:
        with open(dir + "/counter", "w") as f:
            f.write(str(int(before) + 1))
    with open(dir + "/journal", "a") as f:
        f.write("%s kazoo %d\n" % (kind, order))


def loop(recipe, path, contenders, turns, dir):
    failures = []

    def work(c):
        try:
            for _ in range(turns):
                order = c.take()
                try:
                    turn(recipe, order, dir)
                finally:
                    c.release()
        except Exception as e:
            traceback.print_exc()
            failures.append(e)

    threads = [threading.Thread(target=work, args=[contender(recipe, path)]) for _ in range(contenders)]
    say("ready")
    sys.stdin.readline()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


def say(word):
    print(json.dumps(word), flush=True)


held = None
for line in iter(sys.stdin.readline, ""):
    w = json.loads(line).split(" ")
    try:
        if w[0] == "loop":
            loop(w[1], w[2], int(w[3]), int(w[4]), w[5])
            say("done")
        elif w[0] == "take":
            held = contender(w[1], w[2])
            say("got %d" % held.take())
        elif w[0] == "release":
            held.release()
            say("released")
        elif w[0] == "ids":
            say("ids " + " ".join(client().Lock(w[1]).contenders()))
        else:
            raise ValueError(line)
    except Exception as e:
        traceback.print_exc()
        say("error %r" % e)
