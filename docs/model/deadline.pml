/*
 * The loss clock: a session's context ends before the service can grant the session's names to others. See README.md.
 *
 * Time is counted in twentieths of a TTL. The client renews every tenth of the TTL, whether or not earlier renewals were
 * answered, gives each up after a quarter, and counts its deadline from the sending of the last acknowledged one. The
 * service counts the TTL from the time at which it applied a renewal; its clock runs faster by up to a twentieth.
 *
 * On etcd requests and replies may take any time, be lost and overtake each other, and the client may stall at any moment.
 * On ZooKeeper (-DZK) a follower acknowledges a renewal and reports it to the leader up to half a tick later; if it dies in
 * between, the leader misses the renewal, unless the client connects to another server. Flags for ZooKeeper:
 *   -DHALFTICK=n   half a tick is n twentieths and the client knows it; otherwise it is 4, the longest without `tick`
 *   -DDEATHS=n     n followers die
 *   -DLOSSES=n     n renewals are lost
 *   -DSLOW         renewals take up to a fifth of the TTL to arrive, otherwise a twentieth; replies may take longer
 *   -DSTALLS=n     the client is late with a renewal by n twentieths
 *   -DTWOTICKS     the TTL is two ticks, and the client does not know it
 *
 * Wrong variants; each of these is refuted:
 *   -DRECEIVED     the deadline counts from the arrival of the reply
 *   -DNOMARGIN     the deadline has no margin for clocks of different speed
 *   -DNOSLACK      ZooKeeper: the deadline has no margin for a follower that dies
 *   -DSHORTSLACK   ZooKeeper: this margin is half a tick and half an interval
 * Also refuted is a death together with another fault that the ZooKeeper driver does not cover: see README.md.
 */
#define TTL 20
#define INTERVAL 2
#define QUARTER 5
#define NEVER 255
#ifndef HALFTICK
#define HALFTICK 4
#endif
#ifdef TWOTICKS
#define REPORT QUARTER
#else
#define REPORT HALFTICK
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
#define PENDING 3
#ifdef NOSLACK
#define SLACK 0
#elif defined(SHORTSLACK)
#define SLACK (HALFTICK + 1)
#else
#define SLACK (HALFTICK + INTERVAL)
#endif
#else
#define PENDING 2
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
byte next = INTERVAL; /* until it sends the next renewal */
byte age[PENDING];    /* since each pending renewal was sent */

/* The service, and the network. */
#define FREE 0
#define ASKED 1    /* the request is in flight */
#define ANSWERED 2 /* the reply is */
#define LOST 3     /* neither */
byte at[PENDING];      /* where each renewal is */
byte life = TTL;       /* until it ends the session */
byte fast = 1;         /* how much its clock may still get ahead */
bool connected = true; /* ZooKeeper: to a live follower */
byte report = NEVER;   /* ZooKeeper: until the follower reports to the leader */
byte deaths = DEATHS, losses = LOSSES, stalls = STALLS;

bool given_away_too_soon; /* the violation */

#define FINISH(i) at[i] = FREE; age[i] = 0

#ifdef ZK
/* Without a fault renewals are sent when they are due, and answered in time. */
#define OVERDUE(i) (at[i] == ASKED && connected && age[i] >= TRAVEL || at[i] != FREE && age[i] == QUARTER)
#define DUE (OVERDUE(0) || OVERDUE(1) || OVERDUE(2) || next == 0 && connected && stalls == 0 || report == 0)
#define GIVEUP(i) (at[i] == LOST || at[i] != FREE && !connected)
#else
#define OVERDUE(i) (at[i] != FREE && age[i] == TTL)
#define DUE (OVERDUE(0) || OVERDUE(1))
#define GIVEUP(i) (at[i] != FREE)
#endif

active proctype everything() {
	byte i;
	do
	/* go: engine.Session.renew */
	:: atomic { left != 0 && next == 0 && connected && at[0] == FREE -> next = INTERVAL; at[0] = ASKED }
	:: atomic { left != 0 && next == 0 && connected && at[1] == FREE && at[0] != FREE -> next = INTERVAL; at[1] = ASKED }
#ifdef ZK
	:: atomic { left != 0 && next == 0 && connected && at[2] == FREE && at[0] != FREE && at[1] != FREE -> next = INTERVAL; at[2] = ASKED }
#endif

	:: atomic { left != 0 ->
		select (i : 0 .. PENDING - 1);
		if
		/* go: engine.Session.extend */
		:: at[i] == ANSWERED ->
#ifdef RECEIVED
			left = PATIENCE;
#else
			left = (PATIENCE > age[i] && PATIENCE - age[i] > left -> PATIENCE - age[i] : left);
#endif
			FINISH(i)

		/* go: engine.Session.renewOnce, engine.Session.suspend */
		:: age[i] >= QUARTER && GIVEUP(i) -> FINISH(i)

		/* go: lease.Session.Renew, zkconn.Conn.Renew */
		:: at[i] == ASKED && life != 0 && connected ->
			at[i] = ANSWERED;
#ifdef ZK
			report = (report == NEVER -> REPORT : report)
#else
			life = TTL; fast = 1
#endif

		/* world: a renewal is lost; on etcd it then takes for ever */
		:: at[i] == ASKED && losses > 0 -> losses--; at[i] = LOST
		:: else
		fi;
		i = 0
	}

#ifdef ZK
	/* world: the follower's report */
	:: atomic { report != NEVER && life != 0 -> report = NEVER; life = TTL; fast = 1 }

	/* world: the follower dies; its pending requests fail at once */
	:: atomic { deaths > 0 && connected -> deaths--; connected = 0; report = NEVER;
		for (i : 0 .. PENDING - 1) {
			if
			:: at[i] == ASKED || at[i] == LOST -> FINISH(i); next = 0
			:: else
			fi
		}
		i = 0
	}

	/* world: a new connection touches the session at the leader */
	:: atomic { !connected && life != 0 -> connected = 1; life = TTL; fast = 1 }
#endif

	/* world: a twentieth of a TTL passes */
	:: atomic { left != 0 && life != 0 && !(DUE) ->
		stalls = (next == 0 && stalls > 0 && connected -> stalls - 1 : stalls);
		left--;
		next = (next > 0 -> next - 1 : 0);
		for (i : 0 .. PENDING - 1) {
			if
			:: at[i] != FREE -> age[i]++
			:: else
			fi
		}
		i = 0;
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
