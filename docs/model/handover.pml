/*
 * The hand-over without a look: who joins is told who joined last, follows that one, and is admitted without another
 * request when it leaves by a pass. Mutex, read-write lock and election, on either service. See README.md.
 *
 * The service is a queue with its whole past, as in the queue.pml, which has what becomes of requests, watches and sessions
 * in general; here a join is answered or, at most, its answer lost. Entry k was made at cr[k], converted at cv[k] and went at dl[k];
 * its mark was made at mp[k] and went at md[k]. Zero means not yet. The tail is the entry that joined last, while there is one.
 *
 *   -DN=3          contenders, who join in the order of their numbers; each has a session of its own, but with
 *   -DSHARED       contenders 0 and 1 have one in common
 *   -DZK           the service is ZooKeeper, which numbers entries without gaps, else etcd, which has a tail
 *   -DRW           any of them may be a reader; writers may go on as readers
 *   -DREADERS=bits these are, and no others
 *   -DREUSE=k      the contender two behind k has its name and its session, and joins when k has finished
 *   -DEXPIRES=n    so many sessions end, for their clients first
 *   -DCANCELS=n    so many calls are given up
 *   -DDROPS=n      so many joins have no answer but that their entry is there
 *   -DOPS=n        so many times an operator deletes an entry or the tail, or ends a session
 *   -DSWEEPS=n     so many marks go at any moment: a lister takes one for left over
 *   -DBREAKS=n     so many watches break
 *   -DMARKNEWER    a mark counts if it is newer than the entry, whatever life of that name it is of
 *   -DPASSDOWN     a writer that was first, and went on as a reader, leaves by a pass, too
 *   -DEXCLUSION    of what a grant must be, only that no two exclude each other is checked
 *
 * And what must not be left out or done otherwise; each of these is refuted:
 *   -DPASSANY      whoever gives up waiting leaves by a pass
 *   -DPASSREADER   a reader that was passed to takes itself for the first in the queue, and leaves by a pass
 *   -DNOSWAP       contender 2 joins without swapping the tail: a contender of another client, or of a Baton without tails
 *   -DNOEMPTY      who finds no tail is first
 *   -DTAILBYNAME   the tail tells a name, and not which entry of that name
 *   -DTAILKEPT     whoever leaves does not care for the tail
 *   -DMARKBYNAME   a mark counts whatever life of that name it is of
 *   -DQUEUEMARK     a mark counts whoever left it in this line
 *   -DTRUSTGONE    whoever leaves has passed
 *   -DNOLOOK       a watch from now on, and no look once it is there
 *   -DNOOWNWATCH   a follower does not watch its own entry
 *   -DSOLENEAREST  who is named the nearest passes for the only one ahead
 *   -DSOLECONVERTS the only one ahead passes by being converted, too
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

#if defined(SHARED)
#define OTHER 1
#define FIRST 0
#elif defined(REUSE)
#define OTHER (REUSE + 2)
#define FIRST REUSE
#endif
#ifdef OTHER
#define SES(k) ((k) == OTHER -> FIRST : (k)) /* of whom two have one session */
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
byte floor[N]; /* what the session was told: no view is older */
bool holds[N], writes[N];
#ifdef ZK
bool successor[N]; /* the entry has a second node, by which the next one finds it */
#endif
bool removed[N]; /* an operator has deleted the entry, or ended the session */
bool cancelled[N], finished[N];
byte expires = EXPIRES, cancels = CANCELS, drops = DROPS, ops = OPS, sweeps = SWEEPS, breaks = BREAKS;

/* What must not be. A run that finds one of them names it. */
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

/* Whether the mark of k tells whoever follows p that it has passed. */
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

/* ahead finds, in the view at R, whom contender i waits for: p, in the mode of a writer or not, and who is
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

/* promises is what must be true of a grant. */
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

/* marked looks at R for a mark that says that p has passed. */
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

/* unmark deletes a mark, and with it that of another entry of the same name. */
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

/* remove is the request by which an entry goes, and, if nobody is behind, the tail. An etcd leaves the mark also if the entry was
 * removed: what follows one that was first is first. */
inline remove(pass) {
	rev++;
	if
	:: pass && MARKS(i) ->
		unmark(i); /* is overwritten */
		mp[i] = rev;
#ifdef ZK
		md[i] = rev /* in the same transaction: only a watch that is set tells of it */
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
	bool pw, first, swapped, passed, sole;
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
		:: successor[i] = 1; swapped = 1 /* in a queue that is busy */
		:: true
		fi;
		p = (successor[i] && p != NONE && successor[p] -> p : NONE); /* without gaps: that one is directly ahead, or nobody is known */
#else
		p = tail; /* the entry that the tail names, of that very life: the tail's revision is the entry's */
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

glance: /* go: recipes.attempt.glance, recipes.attempt.wait, recipes.Exclusive, recipes.Shared */
	atomic {
		if
		:: p != NONE && (pw || !READER(i)) ->
			R = cr[p];
#ifdef SOLENEAREST
			sole = 1;
#endif
			goto follow
		:: else -> p = NONE; pw = 0
		fi
	};

look: /* go: recipes.attempt.judge, recipes.attempt.look, engine.Session.Ahead, etcd.session.Ahead, zookeeper.session.Ahead */
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
		first = (q == NONE); q = NONE;
		sole = 0;
#if !defined(RW) || defined(SOLECONVERTS)
		sole = (p != NONE && pw && !READER(i)); /* go: recipes.attempt.judge */
		j = 0;
		do
		:: j < N ->
			sole = sole && (j == i || j == p || !THERE(j, R) || cr[j] > cr[i]);
			j++
		:: else -> break
		od;
		j = 0;
#endif
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
	:: atomic { !over[s] -> /* at a member that may be behind; before what was shown it makes no difference */
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
lookAgain: /* go: etcd.following.isGone, zookeeper.session.predecessor, zookeeper.session.watchSuccessor */
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

waits: /* go: watch.Watcher.awaitOnce, etcd.following.isGone, engine.Session.Follow, zkconn.Conn.Wait */
	if
	:: atomic { LEFT(p, pw) > W ->
		W = LEFT(p, pw);
		passed = (mp[p] == W); /* in one message */
#ifdef QUEUEMARK
		marked(W);
#endif
	}
	:: atomic { dead[s] -> goto out }
	:: atomic { cancelled[i] -> goto leave }
#ifndef NOOWNWATCH
	:: atomic { dl[i] != 0 && !over[s] -> goto gone }
#endif
	:: atomic { breaks > 0 -> breaks--; R = cr[p]; goto follow }
	fi;
told: /* go: engine.Session.Follow, recipes.attempt.wait */
	atomic {
		floor[s] = (W > floor[s] -> W : floor[s]);
#ifndef NOOWNWATCH
		if
		:: dl[i] != 0 && dl[i] <= W -> goto gone /* it was told so first */
		:: else
		fi;
#endif
#ifdef TRUSTGONE
		passed = 1;
#endif
		passed = passed || sole; /* go: engine.Session.Follow */
		sole = 0;
		p = NONE; pw = 0;
		if
		:: passed -> first = 1
		:: else -> W = 0; goto look
		fi;
		passed = 0;
		removed_wins = (dl[i] != 0 && dl[i] <= W && !over[s]); ALSO(!removed_wins);
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

hold: /* go: recipes.Hold.Release, recipes.grant.watchSelf, recipes.grant.removed */
	if
	:: atomic { dead[s] -> goto out }
	:: atomic { removed[i] -> holds[i] = 0; writes[i] = 0; goto leave }
#ifdef RW
	:: atomic { writes[i] && dl[i] == 0 && !over[s] -> /* go: recipes.grant.become, engine.Session.Convert */
		writes[i] = 0; rev++; cv[i] = rev;
#ifndef PASSDOWN
		first = 0;
#endif
		goto hold
	}
#endif
	:: atomic { !dead[s] && !over[s] -> holds[i] = 0; writes[i] = 0 }
	fi;

pass: /* go: recipes.grant.withdraw, engine.Session.Pass, etcd.session.Pass, etcd.session.leave, etcd.session.delete, zookeeper.session.Pass, zookeeper.session.remove */
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

leave: /* go: engine.Session.Leave, engine.Session.Abandon, etcd.session.Leave, zookeeper.session.Leave */
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
		not_removed = !removed[i] && !over[s]; ALSO(!not_removed); /* whoever finds itself out of the queue was removed */
		goto leave
	};

out: /* go: engine.Session.end */
	atomic {
		holds[i] = 0; writes[i] = 0;
		p = NONE; q = NONE; pw = 0; R = 0; W = 0; f = NONE; first = 0; swapped = 0; passed = 0; sole = 0;
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
/* The service ends a session, and no sooner than that. */
#define END(k) :: atomic { SES(k) == (k) && !over[k] && dead[k] -> end(k) }
/* The service says that it has ended a session: go: engine.Session.guard */
#define TOLD(k) :: atomic { SES(k) == (k) && over[k] && !dead[k] -> dead[k] = 1 }
/* A caller loses patience. */
#define CANCEL(k) :: atomic { cancels > 0 && STANDS(k) && !cancelled[k] && !holds[k] && !finished[k] -> cancels--; cancelled[k] = 1 }
/* An operator deletes an entry, and nothing else, or the tail, or ends a session. */
#define OPERATE(k) :: atomic { ops > 0 && STANDS(k) -> ops--; removed[k] = 1; rev++; dl[k] = rev } \
	:: atomic { ops > 0 && tail == (k) -> ops--; tail = NONE } \
	:: atomic { ops > 0 && SES(k) == (k) && !over[k] && BUSY(k) -> ops--; removed[k] = 1; RMALSO(k) end(k) }
#ifdef OTHER
#define RMALSO(k) removed[OTHER] = removed[OTHER] || (k) == FIRST;
#else
#define RMALSO(k)
#endif
/* A mark goes before it has told anybody, or after: go: etcd.session.sweep */
#define SWEEP(k) :: atomic { sweeps > 0 && MARK(k) -> sweeps--; rev++; md[k] = rev }
#define SETTLED(k) && dead[SES(k)] == over[SES(k)]
#define FINISHED(k) && finished[k]
#define GONE(k) && !STANDS(k)

/* end removes all that a session has, in one step. */
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

/* Nothing has happened but contenders who came, held and left. */
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
	:: atomic { true EACH(SETTLED) -> break } /* nothing more happens: whoever waits must be told all the same */
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
