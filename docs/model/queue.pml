/*
 * The queue: mutex, read-write lock and election as they are built, on either service. README.md describes what is
 * modelled, what is not, and the findings.
 *
 * The service is a queue with its whole history. Entry k was created at revision cr[k], converted in place at cv[k] and
 * deleted at dl[k], zero meaning not yet, so a view at any revision can be shown. An instantaneous action of a client or
 * the service is one atomic step; time passes only between steps.
 *
 * A comment after each label and before each choice of the world says what is modelled: "go:" names the functions,
 * which a test looks up in the source; "world:" is an action of services, networks, operators and users.
 *
 *   -DN=3          contenders; each has its own session, except with
 *   -DSHARED       contenders 0 and 1 share a session
 *   -DZK           the service is ZooKeeper, otherwise etcd
 *   -DRW           any contender may be a reader; writers may downgrade
 *   -DTRY          any one contender may be non-blocking
 *   -DEXPIRES=n    n sessions end, for their clients first, as the loss clock ensures (deadline.pml)
 *   -DCANCELS=n    n calls are cancelled
 *   -DDROPS=n      n requests are not answered, and arrive later or never
 *   -DOPS=n        an operator deletes an entry or ends a session, n times
 *   -DBREAKS=n     n connections of waiters break
 *   -DEXCLUSION    only mutual exclusion is checked, not the other properties of a grant
 *
 * Wrong variants; each of these is refuted:
 *   -DBELOW        a view may be older than the contender's own entry
 *   -DNORECHECK    a woken contender holds without another read
 *   -DNOLOOK       etcd: a watch from now, without a read after it is set
 *   -DTRUSTSHOWN   etcd: no read if a view has shown the place, whatever happened until the watch was set
 *   -DTWOREQUESTS  ZooKeeper: the read and the watch are two requests
 *   -DSAMEKEY      an entry's key is the session's
 *   -DBYNAME       a release deletes the first entry of the queue
 *   -DNOFORGET     a cancelled join does not undo its request
 *   -DNOEPOCH      etcd: Forget deletes the entry, but does not fence off late requests
 *   -DNOWAIT       ZooKeeper: Forget and the second attempt do not wait for requests in flight
 *   -DNOWITHDRAW   after a conversion of unknown outcome the release uses the entry's previous place
 *   -DNOABANDON    a cancelled waiter leaves its entry in the queue
 *   -DNOLASTLOOK   an admitted contender does not check its session again
 *   -DLATECLOCK    a service may end a session before its client counts it as lost
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
#ifndef BREAKS
#define BREAKS 0
#endif
#define NONE 255

#ifdef SHARED
#define SES(k) ((k) == 1 -> 0 : (k))
#else
#define SES(k) (k)
#endif
#ifdef RW
bool reads[N];
#define READER(k) reads[k]
#else
#define READER(k) 0
#endif
#ifdef TRY
byte trier = NONE;
#define TRIES(k) ((k) == trier)
#else
#define TRIES(k) 0
#endif

/* Contenders are numbered in the order in which they join, since nothing else distinguishes them, except those on one session. */
#ifdef SHARED
#define MAYJOIN(k) true
#else
#define MAYJOIN(k) ((k) == 0 || cr[(k) - ((k) > 0)] != 0 || finished[(k) - ((k) > 0)])
#endif

/* The service. */
byte rev;
byte cr[N], cv[N], dl[N];
byte epoch[N]; /* etcd: of a session, as stored in its sentinel */
bool over[N];  /* the session is over */

/* Requests in flight whose caller has stopped waiting: 1 joins, 2 joins and raises the epoch, 3 converts. */
byte late[N], lateEpoch[N];

/* Clients. */
bool dead[N];  /* the session's context has ended */
byte known[N]; /* etcd: the epoch that the session knows */
byte floor[N]; /* the session's latest revision: no view is older */
byte nearKey[N], nearRev[N]; /* etcd: the entry directly ahead in the session's last view, and its revision */
bool nearWriter[N];
bool holds[N], writes[N]; /* a hold, and its mode */
bool removed[N];  /* an operator has deleted the entry, or ended the session */
bool cancelled[N];
byte top, topWriter; /* the greatest granted tokens, of all and of writers */

#ifdef EXCLUSION
#define ALSO(claim) skip
#else
#define ALSO(claim) assert(claim)
#endif

/* Violations. A run that finds one names it. */
bool two_hold, out_of_order, token_falls, entry_gone, second_entry, dead_wins, not_removed, left_behind;

byte expires = EXPIRES, cancels = CANCELS, drops = DROPS, ops = OPS, breaks = BREAKS;
bool finished[N];

#define STANDS(k) (cr[k] != 0 && dl[k] == 0)
#define THERE(k, R) (cr[k] != 0 && cr[k] <= (R) && (dl[k] == 0 || dl[k] > (R)))
#define EXCLUDES(k, R) (!READER(k) && (cv[k] == 0 || cv[k] > (R))) /* the entry's mode is a writer's */
#define LEFT(k, writer) ((writer) && cv[k] != 0 -> cv[k] : dl[k]) /* when a place left the queue; 0: not yet */
#define ALIVE(k) (holds[k] && !dead[SES(k)]) /* a hold whose context is alive */

#define PLUS(k) + STANDS(k)
#if N == 3
#define LINETAKEN (STANDS(0) || STANDS(1) || STANDS(2))
#define EACH(what) what(0) what(1) what(2)
#else
#define LINETAKEN (STANDS(0) || STANDS(1) || STANDS(2) || STANDS(3))
#define EACH(what) what(0) what(1) what(2) what(3)
#endif

/* ahead finds, in the view at R, the entry for which contender i waits: p, in the mode of a writer or not; and the entry
 * directly ahead, q. */
inline ahead(R) {
	p = NONE; q = NONE; j = 0;
	do
	:: j < N ->
		if
		:: j != me && THERE(j, R) && cr[j] < cr[me] ->
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

inline anybody(R) {
	p = NONE; j = 0;
	do
	:: j < N && THERE(j, R) -> p = j; break
	:: j < N && !THERE(j, R) -> j++
	:: else -> break
	od;
	j = 0
}

/* raise increments the epoch of a session, which learns it. */
inline raise(s, yes) {
#ifdef ZK
	skip
#else
	if
#ifndef NOEPOCH
	:: yes -> epoch[s]++; known[s] = epoch[s]
#endif
	:: else
	fi
#endif
}

/* arrive applies or refuses a request whose caller has stopped waiting. */
inline arrive(k) {
	if
	:: over[SES(k)]
	:: !over[SES(k)] && late[k] == 3 ->
		if
		:: STANDS(k) && cv[k] == 0 -> rev++; cv[k] = rev
		:: else
		fi
#ifdef ZK
	:: !over[SES(k)] && late[k] != 3 ->
		second_entry = (cr[k] != 0); assert(!second_entry); /* it creates a node in any case */
		rev++; cr[k] = rev
#else
	:: !over[SES(k)] && late[k] != 3 ->
		if
		:: lateEpoch[k] == epoch[SES(k)] && !STANDS(k) && !(TRIES(k) && LINETAKEN) ->
			second_entry = (cr[k] != 0); assert(!second_entry); /* it has left, and the new node is unknown to it */
			rev++; cr[k] = rev
		:: else
		fi;
		epoch[SES(k)] = epoch[SES(k)] + (late[k] == 2 -> 1 : 0)
#endif
	fi;
	late[k] = 0; lateEpoch[k] = 0
}

/* promises checks a grant. */
inline promises() {
	j = 0;
	do
	:: j < N ->
		if
		:: j != i && !removed[j] && ALIVE(j) ->
			two_hold = (writes[i] || writes[j]); assert(!two_hold) /* two holds that exclude each other */
		:: else
		fi;
		if
		:: j != me && STANDS(j) && cr[j] < cr[me] ->
			out_of_order = (!READER(i) || EXCLUDES(j, rev)); ALSO(!out_of_order) /* the order of joining */
		:: else
		fi;
		j++
	:: else -> break
	od;
	j = 0;
	if
	:: writes[i] -> token_falls = (cr[me] <= top); topWriter = cr[me]
	:: else -> token_falls = (cr[me] <= topWriter)
	fi;
	ALSO(!token_falls);
	top = (cr[me] > top -> cr[me] : top)
}

proctype contender(byte i) {
	byte me, s, p, q, R, W, sent, j;
	bool pw, fence, again, first, maybe, taken;
	me = i; s = SES(i);
#ifdef SAMEKEY
	me = s;
#endif

join: /* go: recipes.attempt.join, engine.Session.Join, etcd.session.Join, lease.Joins.Take, zookeeper.session.Join */
	if
	:: atomic { dead[s] -> goto out }
	:: atomic { !dead[s] -> sent = known[s] }
	fi;
#ifdef ZK
find: /* go: zookeeper.session.findEarlier, zookeeper.session.entriesOf, nodes.Session.BeginFlight */
	atomic {
		if
		:: again ->
#ifndef NOWAIT
			if
			:: late[i] != 0 -> arrive(i) /* it has arrived, or never will */
			:: late[i] = 0; lateEpoch[i] = 0
			fi;
#endif
			if
			:: STANDS(me) -> floor[s] = rev; goto joined
			:: cr[me] != 0 && dl[me] != 0 -> goto out /* an operator was faster; it would join anew */
			:: else
			fi
		:: else
		fi;
		if
		:: TRIES(i) -> /* go: zookeeper.session.Join */
			select(R : floor[s] .. rev); anybody(R); R = 0;
			if
			:: p != NONE -> goto out
			:: else
			fi
		:: else
		fi
	};
#endif

send: /* go: etcd.session.sendJoin, etcd.session.conditions, etcd.session.refused, zookeeper.session.sendJoin */
	if
	:: atomic { /* the request arrives and is answered */
		!over[s] && MAYJOIN(i) ->
#ifdef ZK
		second_entry = (cr[me] != 0); assert(!second_entry); /* one ID, one entry */
		first = !LINETAKEN;
		rev++; cr[me] = rev; floor[s] = rev; goto joined
#else
		if
		:: sent == epoch[s] && cr[me] == 0 && !(TRIES(i) && LINETAKEN) ->
			first = !LINETAKEN;
			rev++; cr[me] = rev;
			raise(s, fence);
			goto joined
		:: else ->
			taken = (TRIES(i) && LINETAKEN);
			raise(s, fence);
			if
			:: STANDS(me) -> goto foundOwn /* it exists from an earlier attempt */
			:: cr[me] != 0 && dl[me] != 0 -> goto out /* an operator was faster; it would join anew */
			:: cr[me] == 0 && taken && again -> taken = 0; goto forget
			:: cr[me] == 0 && taken && !again -> taken = 0; goto out
			:: else -> known[s] = epoch[s]; fence = 0; goto join /* only the epoch had moved */
			fi
		fi;
foundOwn: /* go: etcd.session.refused */
		taken = 0;
		first = (0 EACH(PLUS) == 1);
		goto joined
#endif
	}
	:: atomic { over[s] && dead[s] -> goto out }
	:: atomic { /* no answer: the request is sent again */
		drops > 0 && late[i] == 0 -> drops--;
		late[i] = 1 + fence; lateEpoch[i] = sent; again = 1; fence = 1; goto join
	}
	:: atomic { /* no answer, and the caller has stopped waiting */
		cancelled[i] ->
		if
		:: late[i] == 0 -> late[i] = 1 + fence; lateEpoch[i] = sent
		:: else
		fi;
		goto forget
	}
	fi;

joined: /* go: recipes.follow.wait, recipes.Exclusive, recipes.Shared, zookeeper.session.ensureAlone */
	atomic {
		sent = 0; fence = 0;
		if
		:: first && !again -> goto admit /* First of a repeated join is not believed */
#ifdef ZK
		:: TRIES(i) && !(first && !again) -> first = 0; goto leave
#endif
		:: else -> first = 0
		fi
	};

look: /* go: recipes.follow.judge, engine.Session.Ahead, etcd.session.Ahead, lease.Session.Read, zookeeper.session.Ahead */
	if
	:: atomic { dead[s] -> goto out }
	:: atomic { cancelled[i] -> goto leave }
	:: atomic { !over[s] ->
		R = (floor[s] > cr[me] -> floor[s] : cr[me]);
#ifdef BELOW
		R = 0;
#endif
		select(R : R .. rev);
#ifdef ZK
		floor[s] = R;
#endif
		if
		:: !THERE(me, R) ->
#ifdef BELOW
			if
			:: dl[me] == 0
			:: else -> goto gone
			fi
#else
			goto gone
#endif
		:: else
		fi;
		ahead(R);
		if
		:: p == NONE -> q = NONE; R = 0; goto admit
		:: p != NONE && TRIES(i) -> p = NONE; q = NONE; pw = 0; R = 0; goto leave
		:: else
		fi;
#ifdef ZK
		W = R;
#else
		nearKey[s] = q; nearWriter[s] = EXCLUDES(q, R); nearRev[s] = R;
#endif
		q = NONE; R = 0
	}
	fi;

#ifdef ZK
watch: /* go: recipes.attempt.await, engine.Session.Await, nodes.Session.Watch, zkconn.Conn.WatchTarget, zkconn.Watch.request */
	if
	:: atomic { dead[s] -> goto out }
	:: atomic { cancelled[i] -> goto leave }
	:: atomic { !over[s] -> /* no older than the last view, also after a reconnect */
		select(W : W .. rev);
		floor[s] = (W > floor[s] -> W : floor[s]);
		if
		:: LEFT(p, pw) != 0 && LEFT(p, pw) <= W -> goto woken
		:: else
		fi
	}
	fi;
#ifdef TWOREQUESTS
second: /* world: a separate request sets the watch, and does not return the state */
	atomic { select(W : W .. rev) };
#endif
#else
watch: /* go: recipes.attempt.await, engine.Session.Await, lease.Session.Watch, lease.Session.Await, watch.Watcher.awaitOn */
	if
	:: atomic { dead[s] -> goto out }
	:: atomic { cancelled[i] -> goto leave }
	:: atomic { !over[s] -> /* from now, at a member that may lag, but not behind the last view */
		R = (nearKey[s] == p && nearWriter[s] == pw -> nearRev[s] : cr[p]);
		select(W : R .. rev);
		R = 0
	}
	fi;
lookAgain: /* go: lease.Session.awaitLeaving, lease.leaving.tell, lease.Session.Learn */
#ifndef NOLOOK
	atomic {
		if
#ifdef TRUSTSHOWN
		:: nearKey[s] == p && nearWriter[s] == pw
#else
		:: nearKey[s] == p && nearWriter[s] == pw && nearRev[s] >= W /* no change in between */
#endif
		:: else ->
			select(R : W .. rev);
			if
			:: LEFT(p, pw) != 0 && LEFT(p, pw) <= R ->
				floor[s] = (R > floor[s] -> R : floor[s]); R = 0; goto woken
			:: else -> R = 0
			fi
		fi
	};
#endif
#endif

waits: /* go: lease.Session.awaitLeaving, lease.leaving.tell, zkconn.Conn.Wait */
	if
	:: atomic { LEFT(p, pw) > W ->
		floor[s] = (LEFT(p, pw) > floor[s] -> LEFT(p, pw) : floor[s])
	}
	:: atomic { dead[s] -> goto out }
	:: atomic { cancelled[i] -> goto leave }
	:: atomic { breaks > 0 -> breaks--; goto watch } /* go: zkconn.socket.fill */
	fi;
woken: /* go: recipes.follow.wait */
	atomic {
		p = NONE; pw = 0; W = 0;
#ifdef NORECHECK
		goto admit;
#endif
		goto look
	};

admit: /* go: recipes.Queue.acquire, engine.Session.Check, recipes.attempt.hold */
	atomic {
		first = 0;
		if
#ifndef NOLASTLOOK
		:: dead[s] -> goto out
#endif
		:: else ->
			dead_wins = dead[s]; assert(!dead_wins);
			holds[i] = 1; writes[i] = !READER(i);
			if
			:: !removed[me] -> promises(); entry_gone = !STANDS(me); ALSO(!entry_gone)
			:: else
			fi
		fi
	};

hold: /* go: recipes.Hold.Context, recipes.turn.watchSelf, recipes.turn.removed */
	if
	:: atomic { dead[s] -> goto out }
	:: atomic { removed[me] -> holds[i] = 0; writes[i] = 0; goto leave } /* or released before it is noticed */
#ifdef RW
	:: atomic { writes[i] -> writes[i] = 0 }; goto convert
#endif
	:: atomic { !dead[s] -> holds[i] = 0; writes[i] = 0; goto leave } /* go: recipes.Hold.Release */
	fi;

#ifdef RW
convert: /* go: recipes.grant.dropHandle, recipes.turn.convertOnce, engine.Session.Convert, etcd.session.Convert, zookeeper.session.Convert */
	if
	:: atomic { dead[s] -> goto out }
	:: atomic { !over[s] ->
		if
		:: cv[me] != 0 && dl[me] == 0 /* by an earlier attempt */
		:: cv[me] == 0 && dl[me] == 0 -> rev++; cv[me] = rev
		:: dl[me] != 0 -> holds[i] = 0; goto leave
		fi;
		maybe = 0
	}
	:: atomic { drops > 0 && late[i] == 0 -> drops--; late[i] = 3; maybe = 1 } /* sent again, or cancelled below */
	fi;
	if
	:: atomic { maybe -> goto convert }
	:: atomic { dead[s] -> goto out }
	:: atomic { !dead[s] -> holds[i] = 0; goto leave }
	fi;
#endif

leave: /* go: recipes.turn.leave, engine.Session.Leave, engine.Session.LeaveLater, etcd.session.Leave, keys.Entry.Exists, zookeeper.session.Leave */
	if
	:: atomic { over[s] && dead[s] -> goto out }
	:: atomic { !over[s] -> skip;
		p = NONE; pw = 0; W = 0;
#ifdef NOABANDON
		if
		:: cancelled[i] -> goto out
		:: else
		fi;
#endif
		if
#ifndef NOWITHDRAW
		:: maybe -> goto forget
#endif
		:: else
		fi;
#ifdef BYNAME
		p = NONE; j = 0;
		do
		:: j < N ->
			if
			:: STANDS(j) && p == NONE -> p = j
			:: STANDS(j) && p != NONE && cr[j] < cr[p] -> p = j
			:: else
			fi;
			j++
		:: else -> break
		od;
		j = 0;
		if
		:: p != NONE -> rev++; dl[p] = rev; p = NONE
		:: else
		fi;
#else
		if
		:: dl[me] == 0 && !(maybe && cv[me] != 0) -> rev++; dl[me] = rev /* exactly this entry, or nothing */
		:: else
		fi;
#endif
		if
		:: again -> goto forget /* a stray; go: engine.Session.left */
		:: else -> goto out
		fi
	}
	fi;

gone: /* go: etcd.session.Ahead, engine.Session.outcome, engine.Session.LeaveLater */
	atomic {
		not_removed = !removed[me]; ALSO(!not_removed); /* a contender whose entry is gone was removed */
		R = 0;
		goto leave
	};

forget: /* go: engine.Session.Forget, engine.Session.ForgetLater, etcd.session.Forget, lease.Session.Forget, lease.Joins.forget, zookeeper.session.Forget */
	if
	:: atomic { over[s] && dead[s] -> goto out }
	:: atomic { !over[s] ->
#ifndef NOFORGET
#ifdef ZK
#ifndef NOWAIT
		if
		:: late[i] != 0 -> arrive(i)
		:: late[i] = 0
		fi;
#endif
#endif
		if
		:: STANDS(me) -> rev++; dl[me] = rev
		:: else
		fi;
		raise(s, 1)
#else
		skip
#endif
	}
	fi;

out: /* go: engine.Session.end */
	atomic {
		holds[i] = 0; writes[i] = 0;
		p = NONE; q = NONE; pw = 0; R = 0; W = 0; sent = 0; fence = 0; again = 0; first = 0; maybe = 0;
		finished[i] = 1
	}
}

/* Requests that are in flight for long. */
#define LATER(k) :: atomic { late[k] != 0 && MAYJOIN(k) -> arrive(k) }
/* A client's loss clock runs out: go: engine.Session.expire */
#ifdef SHARED
#define BUSY(k) (STANDS(k) || late[k] != 0 || (k) == 0 && (STANDS(1) || late[1] != 0))
#else
#define BUSY(k) (STANDS(k) || late[k] != 0)
#endif
#define EXPIRE(k) :: atomic { expires > 0 && SES(k) == (k) && !dead[k] && !over[k] && BUSY(k) -> expires--; dead[k] = 1 }
/* The service ends a session, not before the client's loss clock. */
#ifdef LATECLOCK
#define MAYEND(k) (dead[k] || expires > 0 && BUSY(k))
#else
#define MAYEND(k) dead[k]
#endif
#define END(k) :: atomic { SES(k) == (k) && !over[k] && MAYEND(k) -> expires = (dead[k] -> expires : expires - 1); end(k) }
/* The service reports the end of a session: go: engine.Session.guard, engine.Session.outcome */
#define TOLD(k) :: atomic { SES(k) == (k) && over[k] && !dead[k] -> dead[k] = 1 }
/* A caller cancels. */
#define CANCEL(k) :: atomic { cancels > 0 && !cancelled[k] && !holds[k] && dl[k] == 0 && !finished[k] -> cancels--; cancelled[k] = 1 }
/* An operator deletes an entry, or ends a session. */
#define OPERATE(k) :: atomic { ops > 0 && STANDS(k) -> ops--; removed[k] = 1; rev++; dl[k] = rev } \
	:: atomic { ops > 0 && SES(k) == (k) && !over[k] && BUSY(k) -> ops--; removed[k] = 1; RMALSO(k) end(k) }
#ifdef SHARED
#define RMALSO(k) removed[1] = removed[1] || (k) == 0;
#else
#define RMALSO(k)
#endif
#define SETTLED(k) && dead[SES(k)] == over[SES(k)]
#define FINISHED(k) && finished[k]
#define GONE(k) && !STANDS(k)

/* end removes all entries of a session in one step. */
inline end(k) {
	over[k] = 1; rev++; x = 0;
	do
	:: x < N ->
		if
		:: SES(x) == k && STANDS(x) -> dl[x] = rev
		:: else
		fi;
		x++
	:: else -> break
	od;
	x = 0
}

proctype world() {
	byte x;
	do
	EACH(LATER)
	EACH(EXPIRE)
	EACH(END)
	EACH(TOLD)
	EACH(CANCEL)
	EACH(OPERATE)
	:: atomic { true EACH(SETTLED) -> break } /* no further events: every waiter must still be notified */
	od;
	true EACH(FINISHED);
	left_behind = !(true EACH(GONE));
	assert(!left_behind)
}

init {
	byte x;
	atomic {
		do
		:: x < N ->
#ifdef RW
			if
			:: reads[x] = 1
			:: reads[x] = 0
			fi;
#endif
#ifdef TRY
			if
			:: trier == NONE -> trier = x
			:: true
			fi;
#endif
			run contender(x); x++
		:: else -> break
		od;
		x = 0;
		run world()
	}
}
