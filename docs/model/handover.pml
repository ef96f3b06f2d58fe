/*
 * The handoff without a read: a joining contender learns its predecessor, follows it, and is admitted without another
 * request when the predecessor leaves with a handoff. Mutex, read-write lock and election, on either service. See README.md.
 *
 * The service is a queue with its whole history, as in queue.pml, which models requests, watches and sessions in general;
 * here a join is answered, or its reply is lost. Entry k was created at cr[k], converted at cv[k] and deleted at dl[k];
 * its handoff marker was created at mp[k] and deleted at md[k]. Zero means not yet. The tail is the entry that joined
 * last, if it still exists.
 *
 *   -DN=3          contenders, which join in the order of their numbers; each has its own session, except with
 *   -DSHARED       contenders 0 and 1 share a session
 *   -DZK           the service is ZooKeeper, which numbers entries without gaps, otherwise etcd, which has a tail key
 *   -DRW           any contender may be a reader; writers may downgrade
 *   -DREADERS=bits exactly these contenders are readers
 *   -DREUSE=k      the contender two behind k has k's name and session, and joins when k has finished
 *   -DEXPIRES=n    n sessions end, for their clients first
 *   -DCANCELS=n    n calls are cancelled
 *   -DDROPS=n      n joins are applied, but their replies are lost
 *   -DOPS=n        an operator deletes an entry or the tail, or ends a session, n times
 *   -DSWEEPS=n     n markers are deleted at any moment: a listing considers them left over
 *   -DBREAKS=n     n watches break
 *   -DMARKNEWER    a marker counts if it is newer than the entry, whichever entry of that name wrote it
 *   -DPASSDOWN     a writer that was first, and downgraded, also leaves with a handoff
 *   -DEXCLUSION    only mutual exclusion is checked, not the other properties of a grant
 *
 * Wrong variants; each of these is refuted:
 *   -DPASSANY      a waiter that gives up leaves with a handoff
 *   -DPASSREADER   a reader admitted by a handoff considers itself first in the queue, and leaves with a handoff
 *   -DNOSWAP       contender 2 joins without swapping the tail: a contender of another client, or of a Baton without tails
 *   -DNOEMPTY      a contender that finds no tail is first
 *   -DTAILBYNAME   the tail contains a name, not which entry of that name
 *   -DTAILKEPT     a leaving contender does not delete the tail
 *   -DMARKBYNAME   a marker counts whichever entry of that name wrote it
 *   -DQUEUEMARK    a marker counts whichever entry of the queue wrote it
 *   -DTRUSTGONE    any removal of the predecessor counts as a handoff
 *   -DNOLOOK       a watch from now, without a read after it is set
 *   -DNOOWNWATCH   a follower never watches its own entry
 */
#ifndef N
#define N 3
#endif
#ifndef EXPIRES
#define EXPIRES 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef DROPS
#define DROPS 0
#endif
#ifndef OPS
#define OPS 0
#endif
#ifndef SWEEPS
#define SWEEPS 0
#endif
#ifndef BREAKS
#define BREAKS 0
#endif
#define NONE 255
#ifdef NOOWNWATCH
#define YOUNG 0
#else
#define YOUNG 1 /* a follower watches its own entry when it has waited for a second */
#endif

#if defined(SHARED)
#define OTHER 1
#define FIRST 0
#elif defined(REUSE)
#define OTHER (REUSE + 2)
#define FIRST REUSE
#endif
#ifdef OTHER
#define SES(k) ((k) == OTHER -> FIRST : (k)) /* two contenders share a session */
#else
#define SES(k) (k)
#endif
#ifdef RW
#ifdef READERS
#define READER(k) ((READERS >> (k)) & 1)
#else
bool reads[N];
#define READER(k) reads[k]
#endif
#else
#define READER(k) 0
#endif
#ifdef REUSE
#define NAME(k) ((k) == REUSE + 2 -> REUSE : (k))
#define FREE(k) ((k) != REUSE + 2 || finished[REUSE] && dl[REUSE] != 0)
#else
#define NAME(k) (k)
#define FREE(k) true
#endif
#define MAYJOIN(k) (FREE(k) && ((k) == 0 || cr[(k) - ((k) > 0)] != 0 || finished[(k) - ((k) > 0)]))

/* The service. */
byte rev;
byte cr[N], cv[N], dl[N], mp[N], md[N];
byte tail = NONE;
bool over[N]; /* the session is over */

/* Clients. */
bool dead[N];  /* the session's context has ended */
byte floor[N]; /* the session's latest revision: no view is older */
bool holds[N], writes[N];
#ifdef ZK
bool successor[N]; /* the entry has a successor node, by which the next contender finds it */
#endif
bool removed[N]; /* an operator has deleted the entry, or ended the session */
bool cancelled[N], finished[N];
byte expires = EXPIRES, cancels = CANCELS, drops = DROPS, ops = OPS, sweeps = SWEEPS, breaks = BREAKS;

/* Violations. A run that finds one names it. */
bool two_hold, out_of_order, entry_gone, removed_wins, not_removed, left_behind;

#ifdef EXCLUSION
#define ALSO(claim) skip
#else
#define ALSO(claim) assert(claim)
#endif

#define STANDS(k) (cr[k] != 0 && dl[k] == 0)
#define THERE(k, R) (cr[k] != 0 && cr[k] <= (R) && (dl[k] == 0 || dl[k] > (R)))
#define EXCLUDES(k, R) (!READER(k) && (cv[k] == 0 || cv[k] > (R)))
#define LEFT(k, writer) ((writer) && cv[k] != 0 -> cv[k] : dl[k]) /* when a place left the queue; 0: not yet */
#define MARK(k) (mp[k] != 0 && md[k] == 0)
#define MARKED(k, R) (mp[k] != 0 && mp[k] <= (R) && (md[k] == 0 || md[k] > (R)))
#ifdef ZK
#define MARKS(k) (dl[k] == 0)
#else
#define MARKS(k) (tail != NONE && cr[tail] > cr[k])
#endif
#define ALIVE(k) (holds[k] && !dead[SES(k)])

#if N == 3
#define EACH(what) what(0) what(1) what(2)
#else
#define EACH(what) what(0) what(1) what(2) what(3)
#endif
#define ISTAKEN(k) || STANDS(k)
#define LINETAKEN (false EACH(ISTAKEN))
#define ISMARK(k) || MARK(k)
#define ANYMARK (false EACH(ISMARK))

/* Whether the marker of k tells a follower of p that p left with a handoff. */
#ifdef QUEUEMARK
#define TELLS(k) true
#else
#ifdef MARKBYNAME
#define TELLS(k) (NAME(k) == NAME(p))
#else
#ifdef MARKNEWER
#define TELLS(k) (NAME(k) == NAME(p) && mp[k] > cr[p])
#else
#define TELLS(k) ((k) == p)
#endif
#endif
#endif

/* ahead finds, in the view at R, the entry for which contender i waits: p, in the mode of a writer or not; and the entry
 * directly ahead, q. */
inline ahead(R) {
	p = NONE; q = NONE; j = 0;
	do
	:: j < N ->
		if
		:: j != i && THERE(j, R) && cr[j] < cr[i] ->
			if
			:: q == NONE -> q = j
			:: q != NONE && cr[j] > cr[q] -> q = j
			:: else
			fi;
			if
			:: READER(i) && !EXCLUDES(j, R) /* go: recipes.Shared */
			:: else ->
				if
				:: p == NONE -> p = j
				:: p != NONE && cr[j] > cr[p] -> p = j
				:: else
				fi
			fi
		:: else
		fi;
		j++
	:: else -> break
	od;
	j = 0;
	pw = (p != NONE && EXCLUDES(p, R) -> 1 : 0)
}

/* promises checks a grant. */
inline promises() {
	j = 0;
	do
	:: j < N ->
		if
		:: j != i && !removed[j] && ALIVE(j) ->
			two_hold = (writes[i] || writes[j]); assert(!two_hold)
		:: else
		fi;
		if
		:: j != i && STANDS(j) && cr[j] < cr[i] ->
			out_of_order = (!READER(i) || EXCLUDES(j, rev)); ALSO(!out_of_order)
		:: else
		fi;
		j++
	:: else -> break
	od;
	j = 0
}

/* marked searches at R for a marker of p's handoff. */
inline marked(R) {
	passed = 0; j = 0;
	do
	:: j < N ->
		passed = passed || MARKED(j, R) && TELLS(j);
		j++
	:: else -> break
	od;
	j = 0
}

/* unmark deletes a marker, and with it that of another entry of the same name. */
inline unmark(k) {
	j = 0;
	do
	:: j < N ->
		md[j] = (MARK(j) && NAME(j) == NAME(k) -> rev : md[j]);
		j++
	:: else -> break
	od;
	j = 0
}

/* remove deletes an entry and, if it is the last, the tail. On etcd the marker is also written if the entry was removed by an
 * operator: the successor of the first entry is first. */
inline remove(pass) {
	rev++;
	if
	:: pass && MARKS(i) ->
		unmark(i); /* is overwritten */
		mp[i] = rev;
#ifdef ZK
		md[i] = rev /* in the same transaction: only a watch that is already set shows it */
#endif
	:: else
	fi;
	dl[i] = (dl[i] == 0 -> rev : dl[i]);
	if
	:: f != NONE -> unmark(f)
	:: else
	fi;
#ifndef TAILKEPT
	tail = (swapped && tail != NONE && cr[tail] <= cr[i] -> NONE : tail)
#endif
}

proctype contender(byte i) {
	byte s, p, q, R, W, j, f;
	bool pw, first, swapped, passed, young;
	s = SES(i); p = NONE; f = NONE;

join: /* go: recipes.attempt.join, engine.Session.Join, etcd.session.Join, etcd.session.sendJoin, etcd.session.swapTail, etcd.session.predecessor, etcd.session.empty, zookeeper.session.sendJoin, zookeeper.session.noteJoin */
	if
	:: atomic { dead[s] -> goto out }
	:: atomic { !over[s] && !dead[s] && MAYJOIN(i) ->
		first = !LINETAKEN;
		rev++;
#ifdef ZK
		floor[s] = rev;
		j = 0;
		do
		:: j < N ->
			if
			:: p == NONE && cr[j] != 0 -> p = j
			:: p != NONE && cr[j] > cr[p] -> p = j
			:: else
			fi;
			j++
		:: else -> break
		od;
		j = 0;
		if
		:: successor[i] = 1; swapped = 1 /* in a contended queue */
		:: true
		fi;
		p = (successor[i] && p != NONE && successor[p] -> p : NONE); /* without gaps: it is the predecessor; otherwise the predecessor is unknown */
#else
		p = tail; /* the entry that wrote the tail: the tail's revision is the entry's */
#ifdef NOEMPTY
		first = (tail == NONE);
#else
		first = first && tail == NONE;
#endif
#ifdef NOSWAP
		p = (i == 2 -> NONE : p);
		swapped = !first && i != 2;
#else
		swapped = !first;
#endif
		tail = (swapped -> i : tail);
#endif
		cr[i] = rev;
		pw = (p != NONE && !READER(p) -> 1 : 0);
		if
		:: first -> p = NONE; pw = 0; goto admit
		:: drops > 0 -> drops--; first = 0; swapped = 1; p = NONE; pw = 0 /* or it may have */
		:: !first
		fi
	}
	fi;

glance: /* go: recipes.follow.fromNearest, recipes.follow.wait, recipes.Exclusive, recipes.Shared */
	atomic {
		if
		:: p != NONE && (pw || !READER(i)) ->
			R = cr[p]; young = YOUNG;
			goto follow
		:: else -> p = NONE; pw = 0
		fi
	};

look: /* go: recipes.follow.judge, engine.Session.Ahead, etcd.session.Ahead, zookeeper.session.Ahead */
	if
	:: atomic { dead[s] -> goto out }
	:: atomic { cancelled[i] -> goto leave }
	:: atomic { !over[s] ->
		R = (floor[s] > cr[i] -> floor[s] : cr[i]);
		select(R : R .. rev);
#ifdef ZK
		floor[s] = R;
#endif
		if
		:: !THERE(i, R) -> goto gone
		:: else
		fi;
		ahead(R);
		first = (q == NONE); q = NONE; young = YOUNG;
		if
		:: p == NONE -> R = 0; goto admit
		:: else
		fi
	}
	fi;

follow: /* go: recipes.attempt.await, engine.Session.Follow, etcd.session.Follow, zookeeper.session.Follow */
	if
	:: atomic { dead[s] -> goto out }
	:: atomic { cancelled[i] -> goto leave }
	:: atomic { !over[s] -> /* at a member that may lag, but not behind the last view */
		f = p;
#ifdef ZK
		R = (floor[s] > R -> floor[s] : R);
#endif
		select(W : R .. rev);
#ifdef ZK
		floor[s] = W;
#endif
		R = 0
	}
	fi;
lookAgain: /* go: etcd.following.isGone, zookeeper.session.predecessor, zookeeper.follower.watchSuccessor */
	atomic {
#ifndef NOLOOK
#ifdef ZK
		R = W; /* the request that reads sets the watch */
#else
		select(R : W .. rev);
#endif
#ifdef TAILBYNAME
		j = 0;
		do
		:: j < N ->
			p = (NAME(j) == NAME(p) && THERE(j, R) -> j : p);
			j++
		:: else -> break
		od;
		j = 0;
#endif
		if
		:: LEFT(p, pw) != 0 && LEFT(p, pw) <= R ->
			W = R; R = 0;
			marked(W);
			goto told
		:: else -> R = 0
		fi
#else
		skip
#endif
	};

waits: /* go: watch.Watcher.awaitOn, etcd.following.isGone, engine.Session.Follow, zkconn.Conn.Wait */
	if
	:: atomic { LEFT(p, pw) > W ->
		W = LEFT(p, pw);
		passed = (mp[p] == W); /* both events in one message */
#ifdef QUEUEMARK
		marked(W);
#endif
	}
	:: atomic { dead[s] -> goto out }
	:: atomic { cancelled[i] -> goto leave }
#ifndef NOOWNWATCH
	:: atomic { young && !over[s] -> /* it has waited for a second, and watches its own entry */
		if
		:: dl[i] != 0 -> goto gone
		:: else -> young = 0; goto waits
		fi
	}
	:: atomic { !young && dl[i] != 0 && !over[s] -> goto gone }
#endif
	:: atomic { breaks > 0 -> breaks--; R = cr[p]; goto follow }
	fi;
told: /* go: engine.Session.Follow, recipes.follow.wait */
	atomic {
		floor[s] = (W > floor[s] -> W : floor[s]);
#ifndef NOOWNWATCH
		if
		:: !young && dl[i] != 0 && dl[i] <= W -> goto gone /* its own removal was reported first */
		:: else
		fi;
#endif
#ifdef TRUSTGONE
		passed = 1;
#endif
		p = NONE; pw = 0;
		if
		:: passed -> first = 1
		:: else -> W = 0; goto look
		fi;
		passed = 0;
		/* The exception in docs/guarantees.md, P7: in its first second a removed follower may be admitted. */
		removed_wins = (!young && dl[i] != 0 && dl[i] <= W && !over[s]); ALSO(!removed_wins);
		W = 0
	};

admit: /* go: recipes.Queue.acquire, engine.Session.Check, recipes.attempt.hold */
	atomic {
		if
		:: dead[s] -> goto out
		:: else ->
			holds[i] = 1; writes[i] = !READER(i);
			if
			:: !removed[i] -> promises(); entry_gone = !STANDS(i); ALSO(!entry_gone)
			:: else
			fi
		fi
	};

hold: /* go: recipes.Hold.Release, recipes.turn.watchSelf, recipes.turn.removed */
	if
	:: atomic { dead[s] -> goto out }
	:: atomic { removed[i] -> holds[i] = 0; writes[i] = 0; goto leave }
#ifdef RW
	:: atomic { writes[i] && dl[i] == 0 && !over[s] -> /* go: recipes.turn.convertOnce, engine.Session.Convert */
		writes[i] = 0; rev++; cv[i] = rev;
#ifndef PASSDOWN
		first = 0;
#endif
		goto hold
	}
#endif
	:: atomic { !dead[s] && !over[s] -> holds[i] = 0; writes[i] = 0 }
	fi;

pass: /* go: recipes.turn.leave, engine.Session.Pass, etcd.session.Pass, etcd.session.leave, etcd.session.delete, zookeeper.session.Pass, zookeeper.session.remove */
	if
	:: atomic { over[s] && dead[s] -> goto out }
	:: atomic { !over[s] ->
		if
#ifdef PASSREADER
		:: first && swapped -> remove(1)
#else
		:: first && swapped && !READER(i) -> remove(1)
#endif
		:: else -> remove(0)
		fi;
		goto out
	}
	fi;

leave: /* go: engine.Session.Leave, engine.Session.LeaveLater, etcd.session.Leave, zookeeper.session.Leave */
	if
	:: atomic { over[s] && dead[s] -> goto out }
	:: atomic { !over[s] ->
#ifdef PASSANY
		remove(swapped);
#else
		remove(0);
#endif
		goto out
	}
	fi;

gone: /* go: engine.Session.outcome */
	atomic {
		not_removed = !removed[i] && !over[s]; ALSO(!not_removed); /* a contender whose entry is gone was removed */
		goto leave
	};

out: /* go: engine.Session.end */
	atomic {
		holds[i] = 0; writes[i] = 0;
		p = NONE; q = NONE; pw = 0; R = 0; W = 0; f = NONE; first = 0; swapped = 0; passed = 0; young = 0;
		finished[i] = 1
	}
}

/* A client's loss clock runs out: go: engine.Session.expire */
#ifdef OTHER
#define BUSY(k) (STANDS(k) || MARK(k) || (k) == FIRST && (STANDS(OTHER) || MARK(OTHER)))
#else
#define BUSY(k) (STANDS(k) || MARK(k))
#endif
#define EXPIRE(k) :: atomic { expires > 0 && SES(k) == (k) && !dead[k] && !over[k] && BUSY(k) -> expires--; dead[k] = 1 }
/* The service ends a session, not before the client's loss clock. */
#define END(k) :: atomic { SES(k) == (k) && !over[k] && dead[k] -> end(k) }
/* The service reports the end of a session: go: engine.Session.guard */
#define TOLD(k) :: atomic { SES(k) == (k) && over[k] && !dead[k] -> dead[k] = 1 }
/* A caller cancels. */
#define CANCEL(k) :: atomic { cancels > 0 && STANDS(k) && !cancelled[k] && !holds[k] && !finished[k] -> cancels--; cancelled[k] = 1 }
/* An operator deletes only an entry or the tail, or ends a session. */
#define OPERATE(k) :: atomic { ops > 0 && STANDS(k) -> ops--; removed[k] = 1; rev++; dl[k] = rev } \
	:: atomic { ops > 0 && tail == (k) -> ops--; tail = NONE } \
	:: atomic { ops > 0 && SES(k) == (k) && !over[k] && BUSY(k) -> ops--; removed[k] = 1; RMALSO(k) end(k) }
#ifdef OTHER
#define RMALSO(k) removed[OTHER] = removed[OTHER] || (k) == FIRST;
#else
#define RMALSO(k)
#endif
/* A marker is deleted before or after it was read: go: etcd.session.sweep */
#define SWEEP(k) :: atomic { sweeps > 0 && MARK(k) -> sweeps--; rev++; md[k] = rev }
#define SETTLED(k) && dead[SES(k)] == over[SES(k)]
#define FINISHED(k) && finished[k]
#define GONE(k) && !STANDS(k)

/* end removes all entries of a session in one step. */
inline end(k) {
	over[k] = 1; rev++; x = 0;
	do
	:: x < N ->
		if
		:: SES(x) == k ->
			dl[x] = (STANDS(x) -> rev : dl[x]);
			md[x] = (MARK(x) -> rev : md[x]);
			tail = (tail == x -> NONE : tail)
		:: else
		fi;
		x++
	:: else -> break
	od;
	x = 0
}

/* No faults: contenders only joined, held and left. */
#define ORDINARY (expires == EXPIRES && cancels == CANCELS && drops == DROPS && ops == OPS)

proctype world() {
	byte x;
	do
	EACH(EXPIRE)
	EACH(END)
	EACH(TOLD)
	EACH(CANCEL)
	EACH(OPERATE)
	EACH(SWEEP)
	:: atomic { true EACH(SETTLED) -> break } /* no further events: every waiter must still be notified */
	od;
	true EACH(FINISHED);
	left_behind = !(true EACH(GONE));
	assert(!left_behind);
#ifndef ZK
	left_behind = ORDINARY && (tail != NONE || ANYMARK);
	ALSO(!left_behind)
#endif
}

init {
	byte x;
	atomic {
		do
		:: x < N ->
#if defined(RW) && !defined(READERS)
			if
			:: reads[x] = 1
			:: reads[x] = 0
			fi;
#endif
			run contender(x); x++
		:: else -> break
		od;
		x = 0;
		run world()
	}
}
