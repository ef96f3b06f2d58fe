/*
 * The semaphore as it is built: requests of several sizes, a limit in the queue's record that is raised and lowered,
 * entries that are converted when their contenders are admitted, partial releases, views of any allowed age. See README.md.
 *
 * The service is a queue with its whole history, as in queue.pml. Contenders join in the order of their numbers. Entry k
 * requests permits from cr[k] on, by the record of version jv[k]; it is marked as holding n1[k] from c1[k] on, and one
 * less from c2[k] on; it was deleted at dl[k]. queue.pml models that a watch reports every removal after its view, and
 * lost requests and sessions: here a contender may simply leave at any moment.
 *
 *   -DN=3 -DA0=1 -DA1=1 -DA2=1   contenders, and the number of permits that each requests
 *   -DLIMIT=1 -DMOST=3           the limit, and the highest limit that may be set
 *   -DMOVES=n                    the limit is changed n times
 *   -DPARTS=n                    n holders release one permit and keep the rest
 *   -DCANCELS=n                  n waiters are cancelled
 *   -DDROPS=n                    n joins are sent twice, since the first was not answered
 *   -DZK                         records are read as in a ZooKeeper session, otherwise by quorum
 *
 * Wrong variants; each of these is refuted:
 *   -DBELOW        a view may be older than the contender's own entry
 *   -DONEHOLDER    the first waiter watches only the nearest holder
 *   -DNTHAHEAD     a waiter watches the entry that is as many places ahead as the limit
 *   -DBARGING      waiters do not count
 *   -DNOMARK       an admitted contender does not mark its entry as holding
 *   -DNOSETTLE     it does not do so even when its hold lasts
 *   -DMOVEDISLAST  a contender without entries behind it does not convert, although its limit was changed
 *   -DLATEFIRST    First of a repeated join is trusted
 *   -DNOCONDITION  a join does not compare the record
 *   -DNORECORD     waiters do not watch the limit
 *   -DNOCONFIRM    a woken waiter uses the limit that it knew before
 *   -DTRUSTRECORD  it does so if it watched the record and was not notified of a change
 *   -DFIRSTVIEW    the first view, however late, is judged by the limit of the join
 *   -DCONFIRMEDONCE  a view that follows a changed limit is judged by that limit, without another read of the record
 *   -DNOVERSION    entries do not contain the version of their record
 *   -DNOBEHIND     a contender whose limit was changed counts only the entries ahead
 */
#ifndef N
#define N 3
#endif
#ifndef A0
#define A0 1
#endif
#ifndef A1
#define A1 1
#endif
#ifndef A2
#define A2 1
#endif
#ifndef A3
#define A3 1
#endif
#ifndef LIMIT
#define LIMIT 1
#endif
#ifndef MOVES
#define MOVES 0
#endif
#ifndef MOST
#define MOST 3
#endif
#ifndef PARTS
#define PARTS 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef DROPS
#define DROPS 0
#endif
#define ASK(k) ((k) == 0 -> A0 : ((k) == 1 -> A1 : ((k) == 2 -> A2 : A3)))

/* The service. */
byte rev;
byte cr[N], c1[N], n1[N], c2[N], dl[N];
byte jv[N];
byte version, written[MOVES + 1], limits[MOVES + 1]; /* the record: its versions, their revisions, their limits */

/* Clients. */
bool holds[N], sleeps[N], finished[N];
byte joinedBy[N]; /* jv[k], also if entries do not contain it */
bool cancelled[N], released[N];
byte moves = MOVES, parts = PARTS, cancels = CANCELS, drops = DROPS;
bool quiet; /* only necessary events remain */

/* Violations. A run that finds one names it. */
bool old_limit, overtaken, over_limit, sleeps_though_it_fits, left_behind;

#define STANDS(k) (cr[k] != 0 && dl[k] == 0)
#define THERE(k, R) (cr[k] != 0 && cr[k] <= (R) && (dl[k] == 0 || dl[k] > (R)))
#define HELD(k, R) (c1[k] != 0 && c1[k] <= (R))
#define NUMBER(k, R) (c2[k] != 0 && c2[k] <= (R) -> n1[k] - 1 : (HELD(k, R) -> n1[k] : ASK(k)))

/* change is when entry k, as a view at R showed it, left the queue; 0: not yet. */
#define CHANGE(k, R) (c1[k] > (R) -> c1[k] : (c2[k] > (R) -> c2[k] : (dl[k] > (R) -> dl[k] : 0)))

#define NONE 255
#ifdef NOVERSION
#define VERSION(v) 0
#else
#define VERSION(v) (v)
#endif
#if defined(NOCONFIRM)
#define CONFIRMS && false
#elif defined(FIRSTVIEW) || defined(CONFIRMEDONCE)
#define CONFIRMS && unsure
#elif defined(TRUSTRECORD)
#define CONFIRMS && !watched
#else
#define CONFIRMS
#endif
#define TELLS(k) || ((watches >> k) & 1) && CHANGE(k, seen) != 0

#if N == 3
#define EACH(what) what(0) what(1) what(2)
#else
#define EACH(what) what(0) what(1) what(2) what(3)
#endif

/* inForce is the version of the record at a revision. */
inline inForce(moment, which) {
	which = version;
	do
	:: written[which] > (moment) -> which--
	:: else -> break
	od
}

/* rule evaluates the view at R: admitted, or the entries to watch, as bits, and whether to watch the record. go: semaphore.permits */
inline rule(R) {
	used = 0; waiting = NONE; unknown = 0; watches = 0; last = 1; j = 0;
	do
	:: j < N ->
		if
		:: j > i && THERE(j, R) ->
			last = 0;
#ifndef NOBEHIND
			if
			:: mine != joinedBy[i] && HELD(j, R) -> used = used + NUMBER(j, R); watches = watches | (1 << j)
			:: else
			fi
#endif
		:: else
		fi;
		j++
	:: else -> break
	od;
	j = 0;
	do
	:: j < i ->
		if
		:: THERE(j, R) ->
			if
#ifdef BARGING
			:: !HELD(j, R)
#endif
			:: else ->
				used = used + NUMBER(j, R); watches = watches | (1 << j);
				if
				:: !HELD(j, R) && jv[j] != VERSION(mine) -> unknown = 1; waiting = j
				:: !HELD(j, R) && jv[j] == VERSION(mine) && used > limits[mine] -> waiting = j
				:: else
				fi
			fi
		:: else
		fi;
		j++
	:: else -> break
	od;
	j = 0;
	admitted = (!unknown && used + ASK(i) <= limits[mine]);
	record = (!admitted && waiting == NONE);
	if
	:: waiting != NONE -> watches = 1 << waiting
	:: else
	fi;
#ifdef ONEHOLDER
	j = N - 1;
	do
	:: (watches >> j) & 1 -> watches = 1 << j; break
	:: !((watches >> j) & 1) && j > 0 -> j--
	:: else -> break
	od;
	j = 0;
#endif
#ifdef NTHAHEAD
	if
	:: !admitted && i >= limits[mine] -> watches = 1 << (i - limits[mine])
	:: else
	fi;
#endif
#ifdef NORECORD
	record = 0;
#endif
	used = 0; waiting = NONE; unknown = 0
}
/* promises checks a grant based on the view at seen. */
inline promises() {
	v = cr[i]; j = 0; /* when the view changed last: the latest removal or conversion, before it, of an entry that counts */
	do
	:: j < N ->
		v = (c1[j] > v && c1[j] <= seen && (j < i || mine != joinedBy[i]) -> c1[j] : v);
		v = (c2[j] > v && c2[j] <= seen && (j < i || mine != joinedBy[i]) -> c2[j] : v);
		v = (dl[j] > v && dl[j] <= seen && (j < i || mine != joinedBy[i]) -> dl[j] : v);
		j++
	:: else -> break
	od;
	inForce(v, since); v = 0;
	old_limit = (mine < since); /* it was not in force at any moment between the last change of the view and the grant */
	assert(!old_limit);
	used = ASK(i); j = 0;
	do
	:: j < i ->
		if
		:: STANDS(j) -> used = used + NUMBER(j, rev)
		:: else
		fi;
		j++
	:: else -> break
	od;
	overtaken = (used > limits[mine]); /* it has permits for which an entry ahead waits */
	assert(!overtaken);
	used = ASK(i); j = 0;
	do
	:: j < N ->
		if
		/* The exception documented in package semaphore: a waiter whose limit was changed does not count entries behind
		 * it that joined by the same record and were not marked as holding in its view. */
		:: j > i && holds[j] && mine != joinedBy[i] && !HELD(j, seen) && joinedBy[j] == joinedBy[i]
		:: j != i && holds[j] && !(j > i && mine != joinedBy[i] && !HELD(j, seen) && joinedBy[j] == joinedBy[i]) ->
			used = used + NUMBER(j, rev)
		:: else
		fi;
		j++
	:: else -> break
	od;
	j = since; waiting = 0;
	do
	:: j <= version -> waiting = (limits[j] > waiting -> limits[j] : waiting); j++
	:: else -> break
	od;
	over_limit = (used > waiting); /* the greatest limit in force since the last change of the view */
	assert(!over_limit);
	used = 0; j = 0; waiting = NONE
}

proctype contender(byte i) {
	byte mine, since, seen, floor, watches, j, used, waiting = NONE, v, R;
	bool watched, unsure, slept, again, last, admitted, record, unknown, mark, part, parted, late;

join: /* go: recipes.attempt.join, recipes.count.agree, semaphore.askingMode, etcd.session.Join, etcd.session.conditions, zookeeper.session.sendJoin */
	if
	:: atomic { i == 0 || cr[i - (i > 0)] != 0 || finished[i - (i > 0)] ->
		mine = version; /* or it learns that it is not current, and reads it; go: recipes.count.readTerms */
#ifdef NOCONDITION
		if
		:: version > 0 -> mine = version - 1
		:: true
		fi;
#endif
		if
		:: ASK(i) > limits[mine] -> goto out
		:: else
		fi;
		rev++; cr[i] = rev; jv[i] = VERSION(mine); joinedBy[i] = mine; floor = rev;
		if
		:: drops > 0 -> drops--; again = 1
		:: j = 0; last = 1;
			do
			:: j < i -> last = last && !STANDS(j); j++
			:: else -> break
			od;
			j = 0; seen = rev;
			if
			:: last -> goto admit /* First */
			:: else -> last = 0
			fi
		fi
	}
	fi;

#ifdef LATEFIRST
	atomic {
		j = 0; last = again;
		do
		:: j < i -> last = last && !STANDS(j); j++
		:: else -> break
		od;
		j = 0; seen = rev;
		if
		:: last -> goto admit
		:: else
		fi
	};
#endif

#ifdef CONFIRMEDONCE
	unsure = 1;
#endif

look: /* go: recipes.count.view, engine.Session.Ahead, etcd.session.Ahead, zookeeper.session.Ahead */
	if
	:: atomic { cancelled[i] -> goto leave }
	:: atomic { true ->
		again = 0;
		R = floor;
#ifdef BELOW
		R = 0;
#endif
#ifdef ZK
		select(R : R .. rev); floor = R;
#else
		if
		:: mine != joinedBy[i] -> R = rev /* the whole queue, by quorum */
		:: else -> select(R : R .. rev)
		fi;
#endif
		seen = R; R = 0;
		rule(seen);
		last = last && mine == joinedBy[i];
#ifdef MOVEDISLAST
		last = 1; j = i + 1;
		do
		:: j < N -> last = last && !THERE(j, seen); j++
		:: else -> break
		od;
		j = 0;
#endif
		if
		:: admitted && (true CONFIRMS) ->
			inForce(seen, v); j = (v == mine && !slept); v = 0;
			if
			:: j -> j = 0; goto admit /* the view shows that version; go: recipes.count.confirm */
			:: true -> j = 0; goto confirm /* a driver need not show it */
			fi
		:: admitted && !(true CONFIRMS) -> goto admit
		:: !admitted -> last = 0; unsure = 1; slept = 1; sleeps[i] = 1; watched = record
		fi
	}
	fi;

waits: /* go: recipes.count.await, recipes.count.awaitRecord, engine.Session.Await, engine.Session.Record */
	if
	:: atomic { cancelled[i] -> goto leave }
	:: atomic { (0 EACH(TELLS)) -> /* the first removal of a watched entry */
		v = 255; j = 0;
		do
		:: j < N ->
			if
			:: ((watches >> j) & 1) && CHANGE(j, seen) != 0 -> v = (CHANGE(j, seen) < v -> CHANGE(j, seen) : v)
			:: else
			fi;
			j++
		:: else -> break
		od;
		floor = (v > floor -> v : floor); j = 0; v = 0;
		if
		:: record && version > mine -> goto told /* both at once */
		:: true
		fi
	}
	:: atomic { record && version > mine ->
told: /* go: recipes.count.awaitRecord, etcd.session.Record, nodes.Session.Record */
		select(v : mine + 1 .. version);
		mine = v; v = 0;
#ifdef ZK
		floor = (written[mine] > floor -> written[mine] : floor);
#endif
		if
		:: ASK(i) > limits[mine] -> goto leave
		:: else
		fi
	}
	fi;
	atomic { sleeps[i] = 0; watches = 0; seen = 0; record = 0; goto look };

confirm: /* go: recipes.count.confirm, recipes.count.awaitRecord */
	if
	:: atomic { cancelled[i] -> goto leave }
	:: atomic { true ->
		watched = 0;
#ifdef CONFIRMEDONCE
		unsure = 0;
#endif
#ifdef ZK
		select(R : floor .. rev); floor = R;
#else
		R = rev;
#endif
		inForce(R, v); R = 0;
		if
		:: v > mine ->
			mine = v; v = 0; last = 0;
			if
			:: ASK(i) > limits[mine] -> goto leave
			:: else -> seen = 0; goto look
			fi
		:: else -> v = 0
		fi
	}
	fi;

admit: /* go: recipes.attempt.hold, semaphore.saysHeld, semaphore.holdingMode */
	atomic {
		promises();
		holds[i] = 1; late = (mine != joinedBy[i]);
		mark = !last;
#ifdef NOMARK
		mark = 0;
#endif
		mine = 0; since = 0; seen = 0; floor = 0; last = 0; unsure = 0; slept = 0; again = 0; watches = 0; record = 0; admitted = 0; watched = 0
	};

hold: /* go: recipes.turn.convert, recipes.turn.convertOnce, recipes.turn.settled, recipes.Hold.Convert, engine.Session.Convert */
	do
	:: atomic { mark -> rev++; c1[i] = rev; n1[i] = ASK(i); mark = 0 }
#ifndef NOSETTLE
	:: atomic { !mark && c1[i] == 0 && (!quiet || version > 0 && !late) -> mark = 1 } /* the hold has lasted for a quarter of a second */
#endif
	:: atomic { !quiet && parts > 0 && ASK(i) > 1 && !parted -> parts--; part = 1; parted = 1 }
	:: atomic { part && !mark ->
		rev++; part = 0;
		if
		:: c1[i] == 0 -> c1[i] = rev; n1[i] = ASK(i) - 1
		:: else -> c2[i] = rev
		fi
	}
	:: atomic { released[i] -> goto leave }
	od;

leave: /* go: recipes.Hold.Release, recipes.turn.leave, engine.Session.Leave, engine.Session.LeaveLater */
	atomic { holds[i] = 0; sleeps[i] = 0; rev++; dl[i] = rev };

out: /* go: recipes.Queue.acquire */
	atomic {
		mine = 0; since = 0; seen = 0; floor = 0; watches = 0; unsure = 0; slept = 0; again = 0; last = 0; admitted = 0; record = 0; mark = 0;
		part = 0; parted = 0; late = 0; watched = 0; R = 0; v = 0; j = 0;
		finished[i] = 1
	}
}

#define RELEASE(k) :: atomic { holds[k] && !released[k] -> released[k] = 1 }
#define CANCEL(k) :: atomic { cancels > 0 && STANDS(k) && !holds[k] && !cancelled[k] -> cancels--; cancelled[k] = 1 }
#define LET(k) :: holds[k] && !released[k] -> released[k] = 1
#define FINISHED(k) && finished[k]
#define GONE(k) && !STANDS(k)

/* rest checks the final state: the first waiter's request does not fit. */
inline rest() {
	x = 0;
	do
	:: x < N && !sleeps[x] -> x++
	:: else -> break
	od;
	if
	:: x < N ->
		sum = ASK(x); y = 0;
		do
		:: y < N ->
			if
			:: y != x && STANDS(y) && (y < x || HELD(y, rev)) -> sum = sum + NUMBER(y, rev)
			:: else
			fi;
			y++
		:: else -> break
		od;
		sleeps_though_it_fits = (sum <= limits[version]);
		assert(!sleeps_though_it_fits)
	:: else
	fi;
	x = 0; y = 0; sum = 0
}

proctype world() {
	byte x, y, sum;
	do
	EACH(RELEASE)
	EACH(CANCEL)
	/* go: semaphore.Semaphore.SetLimit, engine.Session.SetRecord, etcd.session.SetRecord, nodes.Session.SetRecord */
	:: atomic { moves > 0 && !(true EACH(FINISHED)) -> moves--;
		select(x : 1 .. MOST);
		if
		:: x == limits[version] -> x = x % MOST + 1
		:: else
		fi;
		rev++; version++; limits[version] = x; written[version] = rev; x = 0
	}
	:: atomic { quiet = 1; break }
	od;
	do
	:: atomic { timeout -> rest();
		if
		EACH(LET)
		:: true EACH(FINISHED) -> break
		fi
	}
	od;
	left_behind = !(true EACH(GONE));
	assert(!left_behind)
}

init {
	byte x;
	atomic {
		limits[0] = LIMIT;
		do
		:: x < N -> run contender(x); x++
		:: else -> break
		od;
		x = 0;
		run world()
	}
}
