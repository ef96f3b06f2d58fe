/*
 * The loss clock: a session's context ends before the service can grant the session's names to others. See README.md.
 *
 * Time is counted in twentieths of a TTL. The client renews every quarter of the TTL, gives up a renewal after another
 * quarter, and counts its deadline from the sending of the last acknowledged renewal. The service counts the TTL from
 * the time at which it applied a renewal; its clock runs faster by up to a twentieth.
 *
 * On etcd requests and replies may take any time or be lost, and the client may stall at any moment. On ZooKeeper (-DZK)
 * a follower acknowledges a renewal and reports it to the leader up to half a tick later; if it dies in between, the
 * leader misses the renewal, unless the client connects to another server. Flags for ZooKeeper:
 *   -DDEATHS=n     n followers die
 *   -DLOSSES=n     n renewals are lost
 *   -DSLOW         renewals take up to a fifth of the TTL to arrive, otherwise a twentieth; replies may take longer
 *   -DSTALLS=n     the client is late with a renewal by n twentieths
 *   -DTWOTICKS     the TTL is the shortest that a server grants, two ticks; otherwise it is longer
 *
 * Wrong variants; each of these is refuted:
 *   -DRECEIVED     the deadline counts from the arrival of the reply
 *   -DNOMARGIN     the deadline has no margin for clocks of different speed
 *   -DNOSLACK      ZooKeeper: the deadline has no margin for a follower that dies
 * Also refuted are the cases that the ZooKeeper driver does not cover: a death together with LOSSES=1, STALLS=2, SLOW, or
 * TWOTICKS, where a report can come a moment after the next renewal.
 */
#define TTL 20
#define QUARTER 5
#define NEVER 255
#ifdef TWOTICKS
#define HALFTICK QUARTER
#else
#define HALFTICK 3
#endif
#ifdef SLOW
#define TRAVEL (QUARTER - 1)
#else
#define TRAVEL 1
#endif
#ifdef NOMARGIN
#define MARGIN 0
#else
#define MARGIN 2
#endif
#ifdef ZK
#ifdef NOSLACK
#define SLACK 0
#else
#define SLACK QUARTER
#endif
#else
#define SLACK 0
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef STALLS
#define STALLS 0
#endif
#define PATIENCE (TTL - MARGIN - SLACK)

/* The client. */
byte left = PATIENCE; /* until its deadline; 0: the context has ended */
byte age = NEVER;     /* of the pending renewal */
byte next = QUARTER;  /* until it sends the next renewal */

/* The service, and the network. */
byte life = TTL;          /* until it ends the session */
byte fast = 1;            /* how much its clock may still get ahead */
bool asked, answered;     /* a renewal is in flight, its reply is */
bool connected = true;    /* ZooKeeper: to a live follower */
byte report = NEVER;      /* ZooKeeper: until the follower reports to the leader */
byte deaths = DEATHS, losses = LOSSES, stalls = STALLS;

bool given_away_too_soon; /* the violation */

#ifdef ZK
/* Without a fault renewals are sent when they are due, and answered in time. */
#define GIVEUP && (!asked && !answered || !connected)
#define DUE (asked && connected && age >= TRAVEL || next == 0 && connected && stalls == 0 || age == QUARTER || report == 0)
#else
#define GIVEUP
#define DUE (age == TTL)
#endif

active proctype everything() {
	do
	/* go: engine.Session.renew */
	:: atomic { left != 0 && next == 0 && age == NEVER && connected -> next = NEVER; age = 0; asked = 1; answered = 0 }

	/* go: engine.Session.extend */
	:: atomic { left != 0 && answered && age != NEVER ->
#ifdef RECEIVED
		left = PATIENCE;
#else
		left = (PATIENCE > age && PATIENCE - age > left -> PATIENCE - age : left);
#endif
		next = (age < QUARTER -> QUARTER - age : 0); /* the interval counts from the sending */
		age = NEVER; answered = 0
	}

	/* go: engine.Session.renewOnce, engine.Session.suspend */
	:: atomic { left != 0 && age != NEVER && age >= QUARTER GIVEUP -> age = NEVER; next = 0 }

	/* go: lease.Session.Renew, zkconn.Conn.Renew */
	:: atomic { asked && life != 0 && connected ->
		asked = 0; answered = 1;
#ifdef ZK
		report = (report == NEVER -> HALFTICK : report)
#else
		life = TTL; fast = 1
#endif
	}

#ifdef ZK
	/* world: a renewal is lost */
	:: atomic { asked && losses > 0 -> losses--; asked = 0 }

	/* world: the follower's report */
	:: atomic { report != NEVER && life != 0 -> report = NEVER; life = TTL; fast = 1 }

	/* world: the follower dies; its pending requests fail at once */
	:: atomic { deaths > 0 && connected -> deaths--; connected = 0; report = NEVER; asked = 0;
		if
		:: age != NEVER && !answered -> age = NEVER; next = 0
		:: else
		fi
	}

	/* world: a new connection touches the session at the leader */
	:: atomic { !connected && life != 0 -> connected = 1; life = TTL; fast = 1 }
#endif

	/* world: a twentieth of a TTL passes */
	:: atomic { left != 0 && life != 0 && !(DUE) ->
		stalls = (next == 0 && age == NEVER && stalls > 0 && connected -> stalls - 1 : stalls);
		left--;
		next = (next != NEVER && next > 0 -> next - 1 : next);
		age = (age != NEVER -> age + 1 : NEVER);
		report = (report != NEVER -> report - 1 : NEVER);
		life--;
		if
		:: fast > 0 && life > 0 -> fast--; life--
		:: true
		fi;
		given_away_too_soon = (life == 0 && left != 0); /* go: engine.Session.Check */
		assert(!given_away_too_soon)
	}

	/* go: engine.Session.expire */
	:: left == 0 -> break
	od
}
